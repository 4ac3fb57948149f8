//! The conductor of a drill: waits until all copies are full and in use, opens the window, lets hosts and
//! volumes fail and come back, sends users home, lets queues drain, and has the copies compared. It is the same
//! in both worlds.
//!
//! It knows hosts through a [`DrillHosts`]. A simulation shows it all hosts of the drill at once; an agent
//! shows it its own host, and the conductors of all agents meet at the places of a [`Barrier`].
//!
//! Invariants
//! 1. No window opens before every copy that the conductor sees is full and every active one serves users; a
//!    drill that does not come to that fails.
//! 2. Failures count from the opening of the window, so no order has to arrive while hosts fail.
//! 3. What a host says is in its journal before anything follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures_util::future::{Either, select};
use replication::CopySpec;
use results::{Event, Recorder, Sample, Severity};
use solution::{DrillEventKind, Failure};

use super::drain::Compared;
use super::journal::JournalContent;
use super::node::{CopySample, Observed};
use super::rows::{copy_rows, test_row};
use super::topology::PlannedDrill;
use crate::CampaignError;
use crate::barrier::Barrier;

/// Time within which copies must be complete and in use, s, besides the time for seeding; otherwise the drill does not
/// begin.
const READY_LIMIT_S: u64 = 300;
/// Least rate at which databases are seeded, bytes per second.
const SEEDING_BYTES_PER_S: u64 = 10 << 20;
/// Time for which users work before the window opens, s, unless `warmup_limit_s` is shorter.
const WARMUP_S: f64 = 20.0;
/// Time after which the copies are compared even if queues are not empty, s.
const DRAIN_LIMIT_S: u64 = 300;
/// Time within which hosts must return their page digests, s.
const COMPARE_LIMIT_S: u64 = 120;

type Done<T = ()> = Result<T, CampaignError>;

/// Event of a host in a drill. Times are ns on the clock of the host's [`DrillHosts`].
pub enum Happening {
    /// Observation that could not wait for a sample.
    Observed {
        /// Number of the host.
        host: usize,
        /// Time of the observation.
        at_ns: u64,
        /// Observation.
        observed: Observed,
    },
    /// Sample of the last second.
    Sampled {
        /// Number of the host.
        host: usize,
        /// End of the second.
        at_ns: u64,
        /// Copies of the host.
        copies: Vec<CopySample>,
        /// Counters of the host. Their times are set when they are recorded.
        rows: Vec<Sample>,
        /// Whether the host's copies hold the same log as all others, after users have stopped.
        is_settled: bool,
    },
    /// Page digests of the host.
    Compared {
        /// Number of the host.
        host: usize,
        /// Page digests by database.
        compared: Vec<Compared>,
    },
    /// Note about the host for the report.
    Noticed {
        /// Number of the host.
        host: usize,
        /// Text of the note.
        text: String,
    },
}

/// Hosts that a conductor controls, and whose events it sees.
pub trait DrillHosts {
    /// Time of the run, ms.
    fn now_ms(&self) -> u64;

    /// Creates the copies of all hosts and starts the hosts.
    fn start(&mut self) -> impl Future<Output = Done>;

    /// Cuts the power of a host.
    fn kill(&mut self, host: usize);

    /// Restores the power of a host, which starts with what its disks hold.
    fn restart(&mut self, host: usize) -> impl Future<Output = Done>;

    /// Cuts a host off from all other hosts and from the arbiter, in both directions.
    fn cut_off(&mut self, host: usize);

    /// Reconnects a host.
    fn heal(&mut self, host: usize);

    /// Removes the contents of a volume of a host.
    fn fail_volume(&mut self, host: usize, volume: &str);

    /// Puts an empty volume in place of a failed one. Its copies are seeded.
    fn replace_volume(&mut self, host: usize, volume: &str) -> impl Future<Output = Done>;

    /// Stops the users.
    fn close(&mut self);

    /// Requests page digests from each running host ([`Happening::Compared`]).
    fn compare(&mut self) -> impl Future<Output = Done>;

    /// Waits for the next event, at most until `until_ms` of the run. It may return without one, and may be dropped at
    /// any time.
    ///
    /// # Errors
    /// A host cannot go on, or the user has asked for the end of the run.
    fn next(&mut self, until_ms: u64) -> impl Future<Output = Done<Option<Happening>>>;

    /// Writes an entry into a host's journal, for this time or now.
    ///
    /// # Errors
    /// The journal cannot be kept.
    fn write(&mut self, host: usize, at_ns: Option<u64>, said: JournalContent) -> Done;

    /// Shows people what is in progress.
    fn phase(&mut self, _text: &str) {}

    /// Shows people that a failure begins or is over, this many seconds after the window opened.
    fn failing(&mut self, at_s: f64, text: &str);

    /// Shows people which share of the window is over.
    fn progress(&mut self, _done: f64) {}
}

/// Conducts a drill on the hosts with these numbers through `drilled`, and passes rows to `recorder`.
///
/// # Errors
/// Copies that are not full in time, a host that cannot go on, a journal that cannot be kept, failed I/O.
pub async fn conduct<H: DrillHosts>(
    planned: &PlannedDrill,
    numbers: &[usize],
    drilled: &mut H,
    barrier: &dyn Barrier,
    recorder: &mut dyn Recorder,
) -> Done {
    let states = numbers.iter().map(|host| (*host, HostState::default())).collect();
    let mut due = Vec::new();
    for (number, failure) in planned.drill.failures.iter().enumerate() {
        due.push(Due { at_s: failure.at_s, begins: true, number });
        due.extend(failure.back_at_s.map(|at_s| Due { at_s, begins: false, number }));
    }
    // The next one is the last. At one moment, what is over comes before what begins.
    due.sort_by(|a, b| b.at_s.total_cmp(&a.at_s).then(b.begins.cmp(&a.begins)));
    let (acknowledged, opened_ms) = (BTreeSet::new(), None);
    Conductor { planned, states, drilled, recorder, acknowledged, opened_ms, due }.play(barrier).await
}

/// Begin or end of a failure that is due.
struct Due {
    at_s: f64,
    begins: bool,
    number: usize,
}

/// State of a host as the conductor knows it.
#[derive(Default)]
struct HostState {
    is_down: bool,
    is_full: bool,
    is_settled: bool,
    is_compared: bool,
}

struct Conductor<'a, H> {
    planned: &'a PlannedDrill,
    states: BTreeMap<usize, HostState>,
    drilled: &'a mut H,
    recorder: &'a mut dyn Recorder,
    /// Databases whose users have had an acknowledged batch.
    acknowledged: BTreeSet<usize>,
    /// Time at which the window opened, ms.
    opened_ms: Option<u64>,
    due: Vec<Due>,
}

impl<H: DrillHosts> Conductor<'_, H> {
    async fn play(&mut self, barrier: &dyn Barrier) -> Done {
        let planned = self.planned;
        for host in self.states.keys() {
            copy_rows(&planned.topology, *host).into_iter().try_for_each(|row| self.recorder.record(row))?;
        }
        let mut row = test_row(planned, self.drilled.now_ms());
        self.recorder.record(row.clone().into())?;
        self.prepare(barrier).await?;

        self.write_all(&JournalContent::WindowOpens)?;
        let opened_ms = self.drilled.now_ms();
        self.opened_ms = Some(opened_ms);
        self.drilled.phase("users work");
        row.window_start_ms = Some(opened_ms);
        self.recorder.record(row.clone().into())?;
        self.until(self.window_ms(planned.test.duration_s), |_| false).await?;
        row.window_end_ms = Some(self.drilled.now_ms());
        self.recorder.record(row.clone().into())?;
        self.write_all(&JournalContent::WindowCloses)?;
        self.opened_ms = None;

        self.finish(barrier).await?;
        row.ended_ms = Some(self.drilled.now_ms());
        self.recorder.record(row.into())?;
        Ok(self.recorder.flush()?)
    }

    /// Prepares the drill: waits until users work on complete copies.
    async fn prepare(&mut self, barrier: &dyn Barrier) -> Done {
        self.drilled.phase("makes copies");
        self.meet(barrier).await?;
        self.drilled.start().await?;
        let limit_s = READY_LIMIT_S + self.bytes_of_a_host() / SEEDING_BYTES_PER_S;
        if !self.within(limit_s as f64, Self::is_ready).await? {
            let names = self.states.keys().map(|host| self.planned.topology.hosts[*host].name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            let message = format!("the copies on {names} were not full and in use after {limit_s} s");
            return Err(CampaignError::Drill(message));
        }
        self.meet(barrier).await?;
        self.drilled.phase("users begin");
        self.within(self.planned.test.warmup_limit_s.min(WARMUP_S), |_| false).await?;
        self.meet(barrier).await
    }

    /// Ends the drill: users stop, queues drain, and the copies are compared.
    async fn finish(&mut self, barrier: &dyn Barrier) -> Done {
        let each = |is_so: fn(&HostState) -> bool| {
            move |conductor: &Self| conductor.states.values().all(|host| host.is_down || is_so(host))
        };
        self.drilled.phase("queues drain");
        self.drilled.close();
        self.within(DRAIN_LIMIT_S as f64, each(|host| host.is_settled)).await?;
        self.meet(barrier).await?;
        self.drilled.phase("copies are compared");
        self.drilled.compare().await?;
        self.within(COMPARE_LIMIT_S as f64, each(|host| host.is_compared)).await?;
        // No host leaves while another one may still want to hear of its copies.
        self.meet(barrier).await
    }

    /// Bytes of the copies on the host with the most.
    fn bytes_of_a_host(&self) -> u64 {
        let topology = &self.planned.topology;
        let bytes = |host: &usize| -> u64 {
            let of_host =
                (0..topology.databases.len()).filter(|database| topology.place(*database, *host).is_some());
            of_host.map(|database| topology.databases[database].bytes()).sum()
        };
        self.states.keys().map(bytes).max().unwrap_or(0)
    }

    /// Whether the copies are complete and in use. Only a conductor of all copies can see whether a database is in
    /// use; a seeded copy was seeded by an active one.
    fn is_ready(&self) -> bool {
        let sees = |number: usize| {
            self.planned.topology.databases[number]
                .places
                .iter()
                .all(|place| self.states.contains_key(&place.host))
        };
        let mut seen = (0..self.planned.topology.databases.len()).filter(|number| sees(*number));
        seen.all(|number| self.acknowledged.contains(&number))
            && self.states.values().all(|host| host.is_full)
    }

    /// Time of the run at which the window has been open for this long, ms.
    fn window_ms(&self, after_s: f64) -> u64 {
        self.opened_ms.unwrap_or_else(|| self.drilled.now_ms()) + (after_s * 1e3) as u64
    }

    async fn within(&mut self, limit_s: f64, done: impl Fn(&Self) -> bool) -> Done<bool> {
        let end_ms = self.drilled.now_ms() + (limit_s * 1e3) as u64;
        self.until(end_ms, done).await
    }

    /// Waits until `done` returns true, or until this time of the run. Returns whether it was done.
    async fn until(&mut self, end_ms: u64, done: impl Fn(&Self) -> bool) -> Done<bool> {
        loop {
            let next_ms = self.look().await?.min(end_ms);
            if done(self) {
                return Ok(true);
            }
            if self.drilled.now_ms() >= end_ms {
                return Ok(false);
            }
            if let Some(happening) = self.drilled.next(next_ms).await? {
                self.take_in(happening)?;
            }
        }
    }

    /// Waits at a barrier for other hosts, while the copies go on.
    async fn meet(&mut self, barrier: &dyn Barrier) -> Done {
        let mut arriving = barrier.arrive();
        loop {
            let next_ms = self.look().await?;
            let happening = match select(&mut arriving, pin!(self.drilled.next(next_ms))).await {
                Either::Left(_) => return Ok(()),
                Either::Right((happening, _)) => happening?,
            };
            if let Some(happening) = happening {
                self.take_in(happening)?;
            }
        }
    }

    /// Handles events up to now and performs what is due. Returns the time of the next failure.
    async fn look(&mut self) -> Done<u64> {
        loop {
            while let Some(happening) = self.drilled.next(0).await? {
                self.take_in(happening)?;
            }
            let Some(opened_ms) = self.opened_ms else { return Ok(u64::MAX) };
            let passed_s = (self.drilled.now_ms() - opened_ms) as f64 / 1e3;
            self.drilled.progress((passed_s / self.planned.test.duration_s).min(1.0));
            match self.due.pop_if(|due| self.drilled.now_ms() >= opened_ms + (due.at_s * 1e3) as u64) {
                Some(due) => self.perform(&due).await?,
                None => return Ok(self.due.last().map_or(u64::MAX, |due| self.window_ms(due.at_s))),
            }
        }
    }

    fn take_in(&mut self, happening: Happening) -> Done {
        match happening {
            Happening::Observed { host, at_ns, observed } => {
                let acknowledged = match &observed {
                    Observed::Acknowledged { database, .. } => Some(*database),
                    _ => None,
                };
                self.drilled.write(host, Some(at_ns), JournalContent::Observed(observed))?;
                self.acknowledged.extend(acknowledged);
            }
            Happening::Sampled { host, at_ns, copies, rows, is_settled } => {
                for row in rows {
                    let t_ms = self.drilled.now_ms().saturating_sub(row.interval_ms);
                    self.recorder.record(Sample { t_ms, ..row }.into())?;
                }
                let is_full = copies.iter().all(|copy| self.is_full(copy));
                if let Some(state) = self.states.get_mut(&host) {
                    (state.is_full, state.is_settled) = (is_full, is_settled);
                }
                self.drilled.write(host, Some(at_ns), JournalContent::Sample(copies))?;
            }
            Happening::Compared { host, compared } => {
                self.drilled.write(host, None, JournalContent::Compared(compared))?;
                if let Some(state) = self.states.get_mut(&host) {
                    state.is_compared = true;
                }
            }
            Happening::Noticed { host, text } => self.event(host, text)?,
        }
        Ok(())
    }

    fn is_full(&self, copy: &CopySample) -> bool {
        let spec = &self.planned.topology.databases[copy.database].spec;
        let is_lagged = spec.copy_on(copy.report.host).is_some_and(CopySpec::is_lagged);
        let is_used = copy.active_in.is_none() || self.acknowledged.contains(&copy.database);
        copy.is_full(is_lagged) && is_used
    }

    fn write_all(&mut self, said: &JournalContent) -> Done {
        self.states.keys().try_for_each(|host| self.drilled.write(*host, None, said.clone()))
    }

    fn event(&mut self, host: usize, text: String) -> Done {
        let (t_ms, host) = (self.drilled.now_ms(), self.planned.topology.hosts[host].name.clone());
        let test = Some(self.planned.ordinal);
        Ok(self.recorder.record(Event { t_ms, severity: Severity::Warning, test, host, text }.into())?)
    }

    /// Begins or ends a failure on the controlled hosts.
    async fn perform(&mut self, due: &Due) -> Done {
        let planned = self.planned;
        let failure = &planned.drill.failures[due.number];
        let is_hit = |host: &usize| failure.hosts.contains(&planned.topology.hosts[*host].name);
        let hit: Vec<usize> = self.states.keys().copied().filter(is_hit).collect();
        let Some(first) = hit.first() else { return Ok(()) };
        let text = if due.begins { failure.what.clone() } else { format!("over: {}", failure.what) };
        let opened_ms = self.opened_ms.unwrap_or_default();
        self.drilled.failing((self.drilled.now_ms() - opened_ms) as f64 / 1e3, &text);
        self.event(*first, text)?;
        for host in &hit {
            let said = if due.begins {
                JournalContent::Fails(due.number)
            } else {
                JournalContent::IsOver(due.number)
            };
            self.drilled.write(*host, None, said)?;
        }
        for host in hit {
            match due.begins {
                true => self.fail(host, failure),
                false => self.bring_back(host, failure).await?,
            }
        }
        Ok(())
    }

    fn fail(&mut self, host: usize, failure: &Failure) {
        match failure.kind {
            DrillEventKind::HostKilled | DrillEventKind::SiteLost => {
                self.drilled.kill(host);
                self.states.insert(host, HostState { is_down: true, ..HostState::default() });
            }
            DrillEventKind::HostCutOff => self.drilled.cut_off(host),
            DrillEventKind::VolumeFailed => {
                self.drilled.fail_volume(host, failure.volume.as_deref().unwrap_or_default());
            }
        }
    }

    async fn bring_back(&mut self, host: usize, failure: &Failure) -> Done {
        match failure.kind {
            DrillEventKind::HostKilled | DrillEventKind::SiteLost => {
                self.drilled.restart(host).await?;
                self.states.insert(host, HostState::default());
            }
            DrillEventKind::HostCutOff => self.drilled.heal(host),
            DrillEventKind::VolumeFailed => {
                let volume = failure.volume.as_deref().unwrap_or_default();
                self.drilled.replace_volume(host, volume).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
