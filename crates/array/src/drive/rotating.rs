//! A rotating disk at work: its command queue, its look-ahead buffer and its write cache.
//!
//! Invariants
//! 1. The head does one thing at a time; a command is served once.
//! 2. Of the commands that the disk holds the one with the shortest access time is next, unless the oldest has waited
//!    for the age bound. A run of commands that follow each other ends at the look-ahead distance while others wait. Of
//!    those that the disk has no room for, deferred writes come last until they are overdue.
//! 3. An acknowledged cached write reaches the platter before the disk says that its cache is clean.
//!
//! Limits: reads do not wait for cached writes of the same place (the buffer serves them in time only, contents are the
//! world's business); no head skips ahead to the end of a request (zero-latency read); one head moves at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use super::mechanics::{Mechanics, Spot};
use super::segments::{Segment, Segments};
use super::{Command, Done, Op};
use crate::hardware::RotatingDisk;

/// Longest time for which other commands pass a deferred write: one second, a few times what a burst of page writes
/// takes.
const DEFERRED_MAX_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Queued {
    spot: Spot,
    command: Command,
    arrived_ns: u64,
}

/// Activity of the head until `busy_until`.
#[derive(Clone, Copy)]
struct Active {
    command: Command,
    radius: f64,
    ends_ns: u64,
}

/// Next command of the queue, with the time that the head needs to reach it, if computed.
struct Picked {
    index: usize,
    reach_ns: Option<u64>,
}

/// Time that a full queue takes when it is served in turn, ms.
fn queue_ms(disk: &RotatingDisk) -> f64 {
    let half_turn_ms = 30_000.0 / f64::from(disk.rpm);
    f64::from(disk.queue_depth) * (disk.command_ms + disk.seek_average_ms + half_turn_ms)
}

pub(super) struct Rotating {
    /// Tables of the disk model, shared by all disks of it so that they stay in the processor's cache.
    mechanics: Arc<Mechanics>,
    window: Vec<Queued>,
    /// Commands for which the disk has no room, and deferred writes among them.
    backlog: VecDeque<Queued>,
    deferred: VecDeque<Queued>,
    active: Option<Active>,
    /// Byte behind the last access, and the time when the head passed it.
    head_byte: u64,
    /// Bytes of the preceding commands that followed each other without a gap.
    run_bytes: u64,
    head_radius: f64,
    free_since_ns: u64,
    /// Segment that the last read filled; look-ahead extends it while the disk is idle.
    live: Option<Segment>,
    segments: Segments,
    /// Cached writes that are not on the platter yet.
    dirty_bytes: u64,
    held_writes: VecDeque<Command>,
    held_flushes: Vec<Command>,
    /// Slowdown of each access, in 1/1024.
    slowness: u64,
    depth: usize,
    age_bound_ns: u64,
    command_ns: u64,
    interface_bytes_per_us: u64,
    look_ahead_bytes: u64,
    write_cache_bytes: u64,
    sector_bytes: u64,
}

impl Rotating {
    pub fn new(disk: &RotatingDisk, mechanics: Arc<Mechanics>) -> Rotating {
        Rotating {
            mechanics,
            window: Vec::with_capacity(disk.queue_depth as usize),
            backlog: VecDeque::new(),
            deferred: VecDeque::new(),
            active: None,
            head_byte: 0,
            run_bytes: 0,
            head_radius: 0.0,
            free_since_ns: 0,
            live: None,
            segments: Segments::new(disk.look_ahead_segments as usize),
            dirty_bytes: 0,
            held_writes: VecDeque::new(),
            held_flushes: Vec::new(),
            slowness: 1024,
            depth: disk.queue_depth as usize,
            age_bound_ns: (disk.age_bound_queues * queue_ms(disk) * 1e6) as u64,
            command_ns: (disk.command_ms * 1e6) as u64,
            interface_bytes_per_us: (disk.interface_mb_per_s as u64).max(1),
            look_ahead_bytes: disk.look_ahead_bytes,
            write_cache_bytes: disk.write_cache_bytes,
            sector_bytes: u64::from(disk.physical_sector_bytes),
        }
    }

    pub fn mechanics(&self) -> Arc<Mechanics> {
        self.mechanics.clone()
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.mechanics.capacity_bytes
    }

    pub fn set_slowness(&mut self, factor: f64) {
        self.slowness = (factor * 1024.0) as u64;
    }

    pub fn is_idle(&self) -> bool {
        self.active.is_none() && self.window.is_empty()
    }

    pub fn has_volatile_cache(&self) -> bool {
        self.write_cache_bytes > 0
    }

    fn buffer_ns(&self, bytes: u64) -> u64 {
        bytes * 1_000 / self.interface_bytes_per_us
    }

    /// Submits a command. Returns its completion if that is known already.
    #[inline]
    pub fn submit(&mut self, now_ns: u64, command: Command) -> Option<Done> {
        let done = if command.is_read() {
            self.take_read(now_ns, command)
        } else {
            self.take_write_or_flush(now_ns, command)
        };
        self.start_next(now_ns);
        done
    }

    #[inline]
    fn take_read(&mut self, now_ns: u64, command: Command) -> Option<Done> {
        if self.is_in_buffer(now_ns, &command) {
            return Some(command.done(now_ns + self.command_ns + self.buffer_ns(command.bytes)));
        }
        if self.active.is_some() || !self.read_on_the_way(now_ns, command) {
            self.enqueue(now_ns, command);
        }
        None
    }

    #[inline(never)]
    fn take_write_or_flush(&mut self, now_ns: u64, command: Command) -> Option<Done> {
        let mut done = None;
        if command.op == Op::Flush {
            if self.dirty_bytes == 0 && self.held_writes.is_empty() {
                done = Some(command.done(now_ns + self.command_ns));
            } else {
                self.held_flushes.push(command);
            }
        } else {
            self.segments.forget(command.start, command.end());
            if self.live.is_some_and(|s| s.end_byte > command.start && s.first_byte < command.end()) {
                self.live = None;
            }
            if self.write_cache_bytes == 0 {
                self.enqueue(now_ns, command);
            } else {
                self.held_writes.push_back(command);
                // Those that are held already still have no room.
                done = self.admit_write(now_ns);
            }
        }
        done
    }

    /// Acknowledges the first waiting write into the write cache, if that has room.
    fn admit_write(&mut self, now_ns: u64) -> Option<Done> {
        let command = *self.held_writes.front()?;
        if self.dirty_bytes > 0 && self.dirty_bytes + command.bytes > self.write_cache_bytes {
            return None;
        }
        self.held_writes.pop_front();
        self.dirty_bytes += command.bytes;
        self.enqueue(now_ns, Command { tag: Command::CACHED, ..command });
        Some(command.done(now_ns + self.command_ns + self.buffer_ns(command.bytes)))
    }

    #[inline(always)]
    fn enqueue(&mut self, now_ns: u64, command: Command) {
        let queued = Queued {
            spot: self.mechanics.spot(command.start, command.is_write()),
            command,
            arrived_ns: now_ns,
        };
        if self.window.len() < self.depth {
            // Nothing waits for room while the disk has some.
            self.window.push(queued);
        } else if command.op == Op::DeferredWrite {
            self.deferred.push_back(queued);
        } else {
            self.backlog.push_back(queued);
        }
    }

    /// Fills the disk's queue from the backlog: requests with a waiting job first, unless a deferred write is overdue.
    fn refill(&mut self, now_ns: u64) {
        while self.window.len() < self.depth {
            let overdue =
                self.deferred.front().is_some_and(|write| write.arrived_ns + DEFERRED_MAX_NS <= now_ns);
            let first = if overdue { self.deferred.pop_front() } else { self.backlog.pop_front() };
            let Some(next) = first.or_else(|| self.deferred.pop_front()) else { return };
            self.window.push(next);
        }
    }

    /// Largest number of bytes that look-ahead reads behind a segment.
    fn look_ahead_limit(&self, live: Segment) -> u64 {
        self.look_ahead_bytes.min(self.mechanics.capacity_bytes.saturating_sub(live.end_byte))
    }

    /// End of the look-ahead behind the last read.
    #[inline]
    fn look_ahead_end(&self, live: Segment, now_ns: u64) -> u64 {
        if self.active.is_some() || now_ns <= self.free_since_ns {
            return live.end_byte;
        }
        let (idle_ns, limit) = (now_ns - self.free_since_ns, self.look_ahead_limit(live));
        live.end_byte + self.mechanics.passed_bytes(live.end_byte, idle_ns, limit)
    }

    /// Whether the buffer holds the read data.
    #[inline]
    fn is_in_buffer(&self, now_ns: u64, command: &Command) -> bool {
        let is_live = |live: Segment| {
            live.first_byte <= command.start && command.end() <= self.look_ahead_end(live, now_ns)
        };
        self.look_ahead_bytes > 0
            && (self.segments.hold(command.start, command.end()) || self.live.is_some_and(is_live))
    }

    /// Serves a read from the track that the idle head is reading; false if it cannot.
    #[inline(never)]
    fn read_on_the_way(&mut self, now_ns: u64, command: Command) -> bool {
        let Some(live) = self.live else { return false };
        let reached = self.look_ahead_end(live, now_ns);
        let is_reading = reached < live.end_byte + self.look_ahead_limit(live);
        if !is_reading || command.start < live.first_byte || command.start > reached || self.slowness != 1024
        {
            return false;
        }
        // The head is on its way: wait until the last byte has passed.
        let spot = self.mechanics.spot(live.end_byte, false);
        let to_pass = self.mechanics.transfer_ns(spot, command.end() - live.end_byte);
        let ends_ns = (self.free_since_ns + to_pass).max(now_ns + self.command_ns);
        self.active = Some(Active { command, radius: spot.radius, ends_ns });
        true
    }

    #[inline]
    fn start_next(&mut self, now_ns: u64) {
        if self.active.is_none() && !self.window.is_empty() {
            self.start(now_ns);
        }
    }

    fn start(&mut self, now_ns: u64) {
        let Picked { index, reach_ns } = self.pick(now_ns);
        self.end_look_ahead(now_ns);
        let Queued { spot, command, arrived_ns } = self.window[index];
        // The overhead of a command that came while the disk was busy is hidden behind the one before.
        let from_ns = now_ns.max(arrived_ns + self.command_ns);
        let goes_on = command.start == self.head_byte;
        self.run_bytes = if goes_on { self.run_bytes } else { 0 } + command.bytes;
        let mut access_ns = if goes_on && now_ns == self.free_since_ns {
            0
        } else if let Some(reach_ns) = reach_ns.filter(|_| from_ns == now_ns) {
            reach_ns
        } else {
            let angle = self.mechanics.angle_at(from_ns);
            self.mechanics.reach_ns(self.head_radius, angle, &spot)
        };
        access_ns += self.mechanics.transfer_ns(spot, command.bytes);
        let unaligned = |byte: u64| !byte.is_multiple_of(self.sector_bytes);
        if command.is_write() && (unaligned(command.start) || unaligned(command.end())) {
            access_ns += self.mechanics.turn_ns;
        }
        let ends_ns = from_ns + access_ns * self.slowness / 1024;
        // Where it starts stands for where it ends: a command covers a few of millions of turns.
        self.active = Some(Active { command, radius: spot.radius, ends_ns });
        self.window.remove(index);
        if !(self.backlog.is_empty() && self.deferred.is_empty()) {
            self.refill(now_ns);
        }
    }

    /// Ends the look-ahead; what was read stays in the buffer.
    fn end_look_ahead(&mut self, now_ns: u64) {
        if let Some(live) = self.live.take()
            && self.look_ahead_bytes > 0
        {
            let end_byte = self.look_ahead_end(live, now_ns);
            self.segments.push(Segment { end_byte, ..live });
        }
    }

    fn pick(&self, now_ns: u64) -> Picked {
        if self.window.len() == 1 || self.window[0].arrived_ns + self.age_bound_ns <= now_ns {
            return Picked { index: 0, reach_ns: None };
        }
        let may_go_on = self.run_bytes < self.look_ahead_bytes;
        let goes_on = may_go_on && now_ns == self.free_since_ns;
        let angle = self.mechanics.angle_at(now_ns);
        let mut best = Picked { index: 0, reach_ns: None };
        let mut best_ns = u64::MAX;
        for (index, queued) in self.window.iter().enumerate() {
            let ahead_bytes = queued.command.start.wrapping_sub(self.head_byte);
            if ahead_bytes == 0 && goes_on {
                return Picked { index, reach_ns: None };
            }
            // A run that is long enough does not go on behind a gap either.
            if !may_go_on && ahead_bytes < self.look_ahead_bytes {
                continue;
            }
            let reach_ns = self.mechanics.reach_ns(self.head_radius, angle, &queued.spot);
            if reach_ns < best_ns {
                (best_ns, best) = (reach_ns, Picked { index, reach_ns: Some(reach_ns) });
            }
        }
        best
    }

    /// Time at which the present command ends.
    pub fn next_ns(&self) -> Option<u64> {
        self.active.map(|active| active.ends_ns)
    }

    /// Completes what is over by now, and starts the next command. Returns the completion, except that of a cached
    /// write, which may complete others that waited for the cache (`done`).
    #[inline]
    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) -> Option<Done> {
        let Active { command, radius, ends_ns } = self.active.filter(|active| active.ends_ns <= now_ns)?;
        self.active = None;
        self.head_byte = command.end();
        self.head_radius = radius;
        self.free_since_ns = ends_ns;
        if command.is_write() {
            self.live = None;
        } else {
            let first_byte = self.live.map_or(command.start, |live| live.first_byte.min(command.start));
            self.live = Some(Segment { first_byte, end_byte: command.end() });
        }
        let is_cached = command.tag == Command::CACHED;
        if is_cached {
            self.cached_write_done(ends_ns, command.bytes, done);
        }
        self.start_next(ends_ns);
        (!is_cached).then(|| command.done(ends_ns))
    }

    /// Handles a cached write that reached the platter: room for others, and the end of flushes if it was the last.
    fn cached_write_done(&mut self, now_ns: u64, bytes: u64, done: &mut Vec<Done>) {
        self.dirty_bytes -= bytes;
        while let Some(admitted) = self.admit_write(now_ns) {
            done.push(admitted);
        }
        if self.dirty_bytes == 0 && self.held_writes.is_empty() {
            done.extend(self.held_flushes.drain(..).map(|flush| flush.done(now_ns)));
        }
    }

    /// Empties a failed disk. Returns the tags of its commands.
    pub fn fail(&mut self) -> Vec<Command> {
        let queued = self
            .window
            .drain(..)
            .chain(self.backlog.drain(..))
            .chain(self.deferred.drain(..))
            .map(|queued| queued.command);
        let mut lost: Vec<Command> = queued.collect();
        lost.extend(self.active.take().map(|active| active.command));
        lost.extend(self.held_writes.drain(..));
        lost.append(&mut self.held_flushes);
        self.dirty_bytes = 0;
        lost.retain(|command| command.tag != Command::CACHED);
        lost
    }
}
