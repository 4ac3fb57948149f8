//! What goes wrong on schedule.

use std::collections::VecDeque;

use super::{Array, Happening, JobId, Kind, NO_DRIVE};
use crate::hardware::Event;
use crate::raid::Slot;

impl Array {
    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::DriveFails { drive } => self.drive_fails(drive),
            Event::DrivesAdded { group, count } => self.add_drives(group, count),
            Event::CloneTaken { pool, mb_per_s } => self.take_clone(pool, mb_per_s),
            Event::DriveSlow { drive, factor } => {
                if let Some(drive) = self.drives.get_mut(drive) {
                    drive.set_slowness(factor);
                }
            }
            Event::LinkLost { link } => self.set_link(link, false),
            Event::LinkRestored { link } => self.set_link(link, true),
            Event::ControllerFails { controller } => self.controller_fails(controller),
            Event::ExtentsRot { drive, one_in } => self.rot_extents(drive, one_in),
            Event::HostMoves { host, node } => self.move_volumes(&host, node),
            Event::NodeDies { store, node } => self.node_dies(store, node),
            Event::CacheUnprotected { controller } => self.protect(controller, false),
            Event::CacheProtected { controller } => self.protect(controller, true),
        }
    }

    fn set_link(&mut self, link: usize, alive: bool) {
        let Some(state) = self.links.get_mut(link) else { return };
        state.alive = alive;
        if alive {
            let stalled = std::mem::take(&mut self.stalled);
            stalled.into_iter().for_each(|id| self.travel(id));
            self.link_is_back(link);
        }
    }

    fn controller_fails(&mut self, controller: usize) {
        let Some(state) = self.controllers.get_mut(controller) else { return };
        if !std::mem::replace(&mut state.alive, false) {
            return;
        }
        let mut waiting = std::mem::take(&mut state.waiting);
        let jobs = &self.jobs;
        for store in &mut self.log_stores {
            let is_here = |id: &JobId| jobs[*id as usize].controller as usize == controller;
            let (here, elsewhere) = store.waiting.drain(..).partition::<VecDeque<_>, _>(is_here);
            store.waiting = elsewhere;
            waiting.extend(here);
        }
        if let Some(partner) = self.hardware.controllers[controller].partner {
            let silent_ns = (self.hardware.controllers[partner].failover_ms * 1e6) as u64;
            let partner_state = &mut self.controllers[partner];
            partner_state.silent_until_ns = self.now_ns + silent_ns;
            // The partner's cache has no mirror now: it writes through. What the dead one held is in the mirror,
            // and goes on to the drives.
            self.protect(partner, false);
        }
        waiting.into_iter().for_each(|id| self.travel(id));
    }

    fn protect(&mut self, controller: usize, protected: bool) {
        let Some(state) = self.controllers.get_mut(controller) else { return };
        state.protected = protected;
        if !protected {
            self.press(controller);
            let waiting = std::mem::take(&mut self.controllers[controller].waiting);
            waiting.into_iter().for_each(|id| self.arrive(id));
        }
    }

    fn node_dies(&mut self, store: usize, node: usize) {
        let stores = &self.hardware.replicated_stores;
        let node = stores.get(store).and_then(|store| store.nodes.get(node));
        let drives: Vec<usize> = node.iter().flat_map(|node| node.drives()).collect();
        drives.into_iter().for_each(|drive| self.drive_fails(drive));
    }

    fn drive_fails(&mut self, drive: usize) {
        if drive >= self.drives.len() {
            return;
        }
        self.spares.retain(|spare| *spare != drive);
        let lost = self.drives[drive].fail();
        if let Some((group, slot)) = self.drive_slots[drive] {
            self.groups[group].slots[slot] = Slot::Lost;
            self.begin_rebuild(group, slot, drive);
        }
        self.lose_extents(drive);
        self.lose_cached(drive);
        for command in lost {
            let job = command.tag;
            // The job ends when its other commands have; what it read is read again from what is left.
            let is_read = matches!(self.job(job).kind, Kind::Read);
            self.job(job).retry |= is_read;
            self.job(job).lost |= matches!(self.job(job).kind, Kind::Rebuild { .. });
            self.at(self.now_ns, Happening::Done { job, drive: NO_DRIVE, read_bytes: 0 });
            self.drive_statistics[drive].ends(self.now_ns, command.is_read());
        }
    }
}
