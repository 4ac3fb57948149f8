//! How hosts end and start again: with their power, or their process alone.
//!
//! Invariants
//! 1. A power cut leaves of what was not synced only what the dice keep, whichever process wrote it.
//! 2. The end of a process changes nothing that was written, and makes nothing durable.

use std::rc::Rc;

use super::content::Change;
use super::disk::FileNode;
use super::fault::{Death, FaultKind};
use super::{Core, HostId, Simulation};
use crate::World;

/// State of a host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// Process and machine run.
    Running,
    /// The process has ended; the machine runs, with everything that was written.
    ProcessEnded,
    /// The machine is off; only the disks remain.
    PoweredOff,
}

impl Core {
    /// Whether the machine of that boot is on, with or without a process.
    pub fn is_on(&self, host: HostId, boot: u32) -> bool {
        let hosts = self.hosts.borrow();
        hosts.get(host as usize).is_some_and(|host| host.life != Life::PoweredOff && host.boot == boot)
    }

    /// Stops a host: it does nothing more from here on. Its end follows when the current task yields.
    pub fn let_die(&self, host: HostId) {
        let death = self.injector.borrow().plan.crash_ends;
        self.hosts.borrow_mut()[host as usize].life = match death {
            Death::Power => Life::PoweredOff,
            Death::Process => Life::ProcessEnded,
        };
        self.dying.set(Some((host, death)));
    }

    pub fn die(&self, (host, death): (HostId, Death)) {
        match death {
            Death::Power => self.cut_power(host),
            Death::Process => self.end_process(host),
        }
    }

    /// Cuts the power of a host, and decides what its disks keep of unsynced changes.
    fn cut_power(&self, host: HostId) {
        self.note_end(host, Life::PoweredOff, FaultKind::PowerCut, 0xFF);
        let mut writes = self.requests.borrow_mut().take_of(host);
        let mut in_flight = |file: &FileNode| -> Vec<Change> {
            let mine = writes.extract_if(.., |(node, _, _)| node.id == file.id);
            mine.map(|(node, offset, bufs)| node.contents.borrow().write_change(offset, &bufs)).collect()
        };
        let disk = self.disk(host);
        self.injector.borrow_mut().decisions = 0;
        self.with_dice(|dice| disk.power_cut(&mut in_flight, dice));
        self.cut_network(host);
        self.executor.kill_tasks(|task_host| task_host == host);
    }

    /// Ends the tasks of a host. Written data stay, durable or not; of each write in flight none, some or all happens.
    fn end_process(&self, host: HostId) {
        self.note_end(host, Life::ProcessEnded, FaultKind::ProcessEnded, 0xFE);
        let writes = self.requests.borrow_mut().take_of(host);
        for (file, offset, bufs) in writes {
            let bytes: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
            let mut contents = file.contents.borrow_mut();
            if file.charge(contents.size().max(offset + bytes)) {
                let change = contents.write_change(offset, &bufs);
                let outcome = self.with_dice(|dice| dice.outcome_of_failed_write(bytes));
                contents.apply_failed_write(change, &outcome);
            }
        }
        self.cut_network(host);
        self.executor.kill_tasks(|task_host| task_host == host);
    }

    fn note_end(&self, host: HostId, left: Life, kind: FaultKind, trace: u64) {
        self.hosts.borrow_mut()[host as usize].life = left;
        self.executor.go_on(host);
        self.count(kind);
        self.fold_into_trace(u64::from(host) << 32 | trace);
        self.fold_into_trace(self.executor.now().ns);
    }
}

impl Simulation {
    /// Cuts the power of a host: its tasks and handles are gone, and the fault plan decides what survives of unsynced
    /// changes, also those of earlier processes.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn crash(&self, host: &str) {
        let id = self.known_host(host);
        if self.is_dying(id) || self.life(id) != Life::PoweredOff {
            self.core.dying.set(None);
            self.core.cut_power(id);
        }
    }

    /// Ends the process of a host while its machine runs on: tasks and handles are gone, the next process
    /// ([`Self::restart`]) can read everything written, and unsynced changes are lost at a later power cut.
    ///
    /// # Panics
    /// If there is no such host, or it does not run.
    pub fn kill(&self, host: &str) {
        let id = self.known_host(host);
        assert!(self.life(id) == Life::Running, "no process runs on {host}");
        self.core.end_process(id);
    }

    fn life(&self, id: HostId) -> Life {
        self.core.hosts.borrow()[id as usize].life
    }

    fn is_dying(&self, id: HostId) -> bool {
        self.core.dying.get().is_some_and(|(dying, _)| dying == id)
    }

    /// Starts a host again: after a power cut from its disks, after the end of its process from everything written. A
    /// running host loses its power first.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn restart(&self, host: &str) -> World {
        let id = self.known_host(host);
        if self.is_dying(id) || self.life(id) == Life::Running {
            self.crash(host);
        }
        let earlier = {
            let state = &mut self.core.hosts.borrow_mut()[id as usize];
            state.incarnation += 1;
            state.boot += u32::from(state.life == Life::PoweredOff);
            state.life = Life::Running;
            state.started = self.core.executor.now();
            state.suspends = Rc::default();
            state.totals = Default::default();
            state.first_shard.take()
        };
        drop(earlier);
        self.host(host)
    }
}
