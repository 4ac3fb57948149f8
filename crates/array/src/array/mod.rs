//! The array at work: an event queue over drives, links, controllers and stores.
//!
//! A host request becomes a job. A job waits for a number of things (drive commands, read-ahead, copies); when the last
//! one is over, its next stage begins. All background work is jobs, too.
//!
//! A request of one piece calls some ten short functions on its way to a drive and back. They are inlined. What is rare
//! on that way (several pieces, links, faults, background work) stands in functions of its own that are not inlined.

mod check;
mod clones;
mod cold_data;
mod deduplication;
mod drive_health;
mod extents;
mod faults;
mod groups;
mod host;
mod job;
mod log_store;
mod queue;
mod read_cache;
mod rebuild;
mod recopy;
mod remote_copy;
mod replicated;
mod setup;
mod shared;
mod statistics;
mod strips;
mod thin;
mod tiering;

use std::collections::{BTreeMap, VecDeque};

use world::Time;
use world::sim::{FileId, RequestId, StorageFailure, StorageModel, StorageRequest, VolumeId};

use crate::cache::Cache;
use crate::drive::{Command, Done, DriveState, Op};
use crate::hardware::{Event, Hardware, Target, VolumePlacement};
use crate::links::LinkState;
use crate::raid::{Access, Raid};
use crate::report::DeviceReport;
use crate::space::Space;
use crate::streams::Streams;
use job::{Happening, Job, Kind};
use log_store::LogStoreState;
use queue::{NEVER_NS, Queue};
use read_cache::{InFront, ReadCacheState};
use rebuild::RebuildState;
pub use rebuild::RebuildStatus;
use remote_copy::RemoteCopyState;
use replicated::ReplicatedState;
pub use shared::SharedArray;
use statistics::{DriveStatistics, VolumeStatistics};
use thin::{ThinMap, ThinState};
use tiering::TieringState;

type JobId = u32;

const NO_DRIVE: u32 = u32::MAX;
const NO_PATH: u32 = u32::MAX;

struct ControllerState {
    alive: bool,
    protected: bool,
    cache: Option<Cache>,
    gather_due_ns: Option<u64>,
    /// Writes to groups that wait for room in the cache.
    waiting: VecDeque<JobId>,
    command_ns: u64,
    /// Data rate, MB/s; 0: data take no time.
    mb_per_s: f64,
    acknowledge_ns: u64,
    command_free_ns: u64,
    data_free_ns: u64,
    silent_until_ns: u64,
    patrol_next: Vec<(usize, u64)>,
    reads: u64,
    writes: u64,
    hits: u64,
    misses: u64,
    waits: u64,
    dirty_max_bytes: u64,
    busy_ns: u64,
    data_busy_ns: u64,
}

struct VolumeState {
    placement: VolumePlacement,
    space: Space,
    /// Offset of the volume among the data of its store.
    store_base: u64,
    /// Map of the volume's chunks, in a thin pool.
    thin: ThinMap,
    streams: Streams,
    owner: usize,
    next_path: u32,
    /// Time at which each acknowledgement lane of the volume is free.
    lanes: Vec<u64>,
    statistics: VolumeStatistics,
}

/// Storage model of a simulation, built from [`Hardware`].
pub struct Array {
    hardware: Hardware,
    now_ns: u64,
    queue: Queue,
    jobs: Vec<Job>,
    free_jobs: Vec<JobId>,
    drives: Vec<DriveState>,
    drive_statistics: Vec<DriveStatistics>,
    /// Link of each drive.
    drive_links: Vec<Option<usize>>,
    links: Vec<LinkState>,
    groups: Vec<Raid>,
    log_stores: Vec<LogStoreState>,
    replicated: Vec<ReplicatedState>,
    thin_pools: Vec<ThinState>,
    /// Tiers of each group that stands for a tiered pool.
    tiering: Vec<Option<TieringState>>,
    read_caches: Vec<ReadCacheState>,
    /// Read cache of each group.
    in_front: Vec<Option<InFront>>,
    remote_copies: Vec<RemoteCopyState>,
    seed: u64,
    /// Group and slot of each drive.
    drive_slots: Vec<Option<(usize, usize)>>,
    controllers: Vec<ControllerState>,
    volumes: Vec<VolumeState>,
    rebuilds: Vec<RebuildState>,
    spares: VecDeque<usize>,
    /// Volume of the array for each volume of the world, by number.
    attached: Vec<Option<u32>>,
    issued: Vec<(u32, Command)>,
    free_issued: Vec<u32>,
    schedule: Vec<Event>,
    /// Requests that have no path.
    stalled: Vec<JobId>,
    completed: Vec<RequestId>,
    failed: BTreeMap<RequestId, StorageFailure>,
    requests_under_way: usize,
    unplaced_requests: u64,
    failed_requests: u64,
    statistics_since_ns: u64,
    done: Vec<Done>,
    /// Commands of a read that is being planned.
    planned: Vec<Access>,
}

impl Array {
    /// Schedules an event at a time of the simulation; a time in the past means now.
    pub fn schedule(&mut self, at: Time, event: Event) {
        let index = self.schedule.len() as u32;
        self.schedule.push(event);
        self.at(at.ns.max(self.now_ns), Happening::Scheduled(index));
    }

    /// Figures of each part since the last [`Self::reset_statistics`]. Advances to `now` first.
    pub fn report(&mut self, now: Time) -> DeviceReport {
        self.advance(now.ns);
        self.make_report()
    }

    /// Starts a new window of [`Self::report`] at `now`.
    pub fn reset_statistics(&mut self, now: Time) {
        self.advance(now.ns);
        self.clear_statistics();
    }

    fn at(&mut self, at_ns: u64, happening: Happening) {
        self.queue.plan(at_ns, happening);
    }

    /// Processes all events up to now.
    #[inline]
    fn advance(&mut self, now_ns: u64) {
        if self.queue.next_ns() <= now_ns {
            self.catch_up(now_ns);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    #[inline(never)]
    fn catch_up(&mut self, now_ns: u64) {
        while let Some((at_ns, happening)) = self.queue.pop(now_ns) {
            self.step(at_ns, happening);
        }
    }

    #[inline(always)]
    fn step(&mut self, at_ns: u64, happening: Happening) {
        self.now_ns = at_ns;
        match happening {
            Happening::DriveReady(drive) => self.drive_ready(drive),
            Happening::Done { job, drive, read_bytes } => self.command_done(job, drive, read_bytes),
            Happening::InNode(job) => self.in_node(job),
            Happening::Arrive(job) => self.arrive(job),
            Happening::Complete(job) => self.complete(job),
            Happening::Issue(slot) => {
                let (drive, command) = self.issued[slot as usize];
                self.free_issued.push(slot);
                self.hand_to_drive(drive, command);
            }
            other => self.go_on_in_background(other),
        }
    }

    /// Continues work for which no request waits. Kept apart, so that the rest stays short.
    #[inline(never)]
    fn go_on_in_background(&mut self, happening: Happening) {
        match happening {
            Happening::Gather(controller) => self.gather_due(controller as usize),
            Happening::Rebuild(rebuild) => self.rebuild_due(rebuild as usize),
            Happening::LookAtDrives(store) => self.look_at_drives(store as usize),
            Happening::MoveExtent(store) => self.move_extent(store as usize),
            Happening::Patrol(controller) => self.patrol(controller as usize),
            Happening::Snapshot(pool) => self.take_snapshot(pool as usize),
            Happening::Relocate(pool) => self.relocate(pool as usize),
            Happening::MoveSlice(pool) => self.move_slice(pool as usize),
            Happening::ReadClone { pool, index } => self.clone_read_due(pool as usize, index as usize),
            Happening::Scheduled(index) => self.happen(self.schedule[index as usize].clone()),
            Happening::DriveReady(_)
            | Happening::Done { .. }
            | Happening::InNode(_)
            | Happening::Arrive(_)
            | Happening::Complete(_)
            | Happening::Issue(_) => unreachable!("requests wait for {happening:?}"),
        }
    }

    #[inline]
    fn new_job(&mut self, kind: Kind) -> JobId {
        let id = self.free_jobs.pop().unwrap_or_else(|| self.add_job());
        self.jobs[id as usize].begin(kind, self.now_ns);
        id
    }

    #[inline(never)]
    fn add_job(&mut self) -> JobId {
        self.jobs.push(Job::free());
        self.jobs.len() as u32 - 1
    }

    /// Bytes that files have ever used on the volumes with these targets.
    fn data_bytes(&self, is_on: impl Fn(&Target) -> bool) -> u64 {
        let volumes = self.volumes.iter().filter(|volume| is_on(&volume.placement.target));
        volumes.map(|volume| volume.space.high_water()).sum()
    }

    /// Volume of the array for a volume of the world.
    fn attached(&self, volume: VolumeId) -> Option<usize> {
        self.attached.get(volume.0 as usize).copied().flatten().map(|index| index as usize)
    }

    fn job(&mut self, id: JobId) -> &mut Job {
        &mut self.jobs[id as usize]
    }

    /// Sends a read to a drive; the job waits for it.
    #[inline]
    fn issue_read(&mut self, job: JobId, (drive, start, bytes): Access) {
        self.job(job).remaining += 1;
        self.send_to_drive(drive, Command { tag: job, op: Op::Read, start, bytes });
    }

    /// Sends commands of a job to the drives; the job waits for them.
    fn issue(&mut self, job: JobId, accesses: &[(usize, u64, u64)], write: bool) {
        let entry = self.job(job);
        entry.remaining += accesses.len() as u32;
        let op = match entry.kind {
            _ if !write => Op::Read,
            Kind::Destage { .. } | Kind::Segment { .. } | Kind::Drain { .. } => Op::DeferredWrite,
            _ => Op::Write,
        };
        for (drive, start, bytes) in accesses.iter().copied() {
            self.send_to_drive(drive, Command { tag: job, op, start, bytes });
        }
    }

    #[inline]
    fn send_to_drive(&mut self, drive: usize, command: Command) {
        match self.drive_links[drive] {
            None => self.hand_to_drive(drive as u32, command),
            Some(link) => self.send_over_link(link, drive, command),
        }
    }

    #[inline(never)]
    fn send_over_link(&mut self, link: usize, drive: usize, command: Command) {
        let link = &mut self.links[link];
        let handled_ns = link.command(self.now_ns);
        let bytes = if command.is_write() { command.bytes } else { 0 };
        let at_ns = link.send(handled_ns, crate::links::Way::Down, bytes);
        let slot = self.free_issued.pop().unwrap_or_else(|| {
            self.issued.push((0, command));
            self.issued.len() as u32 - 1
        });
        self.issued[slot as usize] = (drive as u32, command);
        self.at(at_ns, Happening::Issue(slot));
    }

    #[inline]
    fn hand_to_drive(&mut self, drive: u32, command: Command) {
        self.drive_statistics[drive as usize].begins(self.now_ns, &command);
        let state = &mut self.drives[drive as usize];
        let done = state.submit(self.now_ns, command);
        self.queue.plan_drive(drive, state.next_ns());
        if let Some(done) = done {
            self.drive_done(drive, done);
        }
    }

    #[inline]
    fn drive_ready(&mut self, drive: u32) {
        let state = &mut self.drives[drive as usize];
        let first = state.advance(self.now_ns, &mut self.done);
        self.queue.plan_drive(drive, state.next_ns());
        if let Some(done) = first {
            self.drive_done(drive, done);
        }
        if !self.done.is_empty() {
            self.others_done(drive);
        }
    }

    /// Handles commands that a disk completed besides the one that ended: those that waited for its cache.
    #[inline(never)]
    fn others_done(&mut self, drive: u32) {
        let mut all_done = std::mem::take(&mut self.done);
        for done in all_done.drain(..) {
            self.drive_done(drive, done);
        }
        self.done = all_done;
    }

    #[inline]
    fn drive_done(&mut self, drive: u32, Done { tag, at_ns, read_bytes }: Done) {
        if at_ns > self.now_ns {
            self.at(at_ns, Happening::Done { job: tag, drive, read_bytes });
        } else {
            self.command_done(tag, drive, read_bytes);
        }
    }

    /// Handles the end of a command, or of something else that a job waited for.
    #[inline]
    fn command_done(&mut self, job: JobId, drive: u32, read_bytes: u32) {
        if drive != NO_DRIVE {
            // A write and a flush bring no bytes back.
            self.drive_statistics[drive as usize].ends(self.now_ns, read_bytes > 0);
            if read_bytes > 0
                && let Some(link) = self.drive_links[drive as usize]
            {
                // The data cross the link before the job goes on.
                let at_ns = self.links[link].send(self.now_ns, crate::links::Way::Up, u64::from(read_bytes));
                self.at(at_ns, Happening::Done { job, drive: NO_DRIVE, read_bytes: 0 });
                return;
            }
        }
        self.part_done(job);
    }

    #[inline]
    fn part_done(&mut self, job: JobId) {
        let entry = self.job(job);
        entry.remaining -= 1;
        if entry.remaining == 0 {
            self.go_on(job);
        }
    }

    /// Continues a job after everything that it waited for.
    #[inline(always)]
    fn go_on(&mut self, id: JobId) {
        let job = self.job(id);
        if !job.then_write.is_empty() && !job.lost {
            self.write_what_was_read(id);
            return;
        }
        match job.kind {
            Kind::Read | Kind::WriteThrough | Kind::Sync | Kind::Write => self.served(id),
            kind => self.background_job_done(id, kind),
        }
    }

    #[inline(never)]
    fn write_what_was_read(&mut self, id: JobId) {
        let writes = std::mem::take(&mut self.job(id).then_write);
        self.issue(id, &writes, true);
    }

    #[inline(never)]
    fn background_job_done(&mut self, id: JobId, kind: Kind) {
        match kind {
            Kind::Destage { controller, destage } => {
                self.free_jobs.push(id);
                self.destaged(controller as usize, destage);
            }
            Kind::Ahead { volume, stream, id: ahead } => {
                self.read_ahead(id, volume as usize, stream, ahead);
            }
            Kind::Rebuild { rebuild, step } => {
                let is_lost = self.job(id).lost;
                self.free_jobs.push(id);
                self.rebuilt(rebuild as usize, step, is_lost);
            }
            Kind::Segment { store, written } => {
                self.free_jobs.push(id);
                self.segment_written(store as usize, written);
            }
            Kind::Drain { store, node, at, bytes } => {
                self.free_jobs.push(id);
                self.drained(store as usize, node as usize, at, bytes);
            }
            Kind::Recopy { store } => {
                self.free_jobs.push(id);
                self.recopied(store as usize);
            }
            Kind::BadCopy { store, extent, drive, waits } => {
                self.free_jobs.push(id);
                self.found_bad_copy(store as usize, extent, drive as usize, waits);
            }
            Kind::GoodCopy { store, extent, drive, waits } => {
                self.free_jobs.push(id);
                self.found_good_copy(store as usize, extent, drive as usize, waits);
            }
            Kind::MoveExtent { store, made } => {
                self.free_jobs.push(id);
                self.extent_moved(store as usize, made);
            }
            Kind::ReadChanged { remote_copy } => self.changed_read(id, remote_copy as usize),
            Kind::SendChanged { remote_copy } => {
                self.free_jobs.push(id);
                self.changed_copied(remote_copy as usize);
            }
            Kind::MoveSlice { pool } => {
                let (bytes, is_lost) = (self.job(id).bytes, self.job(id).lost);
                self.free_jobs.push(id);
                self.slice_part_moved(pool as usize, bytes, is_lost);
            }
            Kind::ReadClone { pool, index } => self.pass_clone(id, pool, index),
            Kind::PassClone { pool, index } => {
                self.free_jobs.push(id);
                self.clone_passed(pool as usize, index as usize);
            }
            Kind::Background => self.free_jobs.push(id),
            Kind::Read | Kind::WriteThrough | Kind::Sync | Kind::Write => {
                unreachable!("a host waits for {kind:?}")
            }
        }
    }
}

impl StorageModel for Array {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        let found = self.volumes.iter().position(|v| v.placement.host == host && v.placement.path == path);
        if let Some(index) = found {
            let number = volume.0 as usize;
            self.attached.resize(self.attached.len().max(number + 1), None);
            self.attached[number] = Some(index as u32);
        }
    }

    fn set_file_size(&mut self, volume: VolumeId, file: FileId, bytes: u64) {
        if let Some(index) = self.attached(volume) {
            let space = &mut self.volumes[index].space;
            if bytes == 0 {
                space.remove(file.0);
            } else {
                space.set_size(file.0, bytes);
            }
        }
    }

    fn fill_file(&mut self, volume: VolumeId, file: FileId) {
        if let Some(index) = self.attached(volume) {
            self.fill_chunks(index, file.0);
        }
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        self.advance(now.ns);
        self.take_request(request);
    }

    fn next_completion(&self) -> Option<Time> {
        if !self.completed.is_empty() {
            return Some(Time { ns: self.now_ns });
        }
        let next_ns = if self.requests_under_way == 0 { NEVER_NS } else { self.queue.next_ns() };
        (next_ns != NEVER_NS).then_some(Time { ns: next_ns })
    }

    fn run_ahead(&mut self, until: Option<Time>) -> Option<Time> {
        let until_ns = until.map_or(NEVER_NS - 1, |until| until.ns);
        while self.completed.is_empty() && self.requests_under_way > 0 {
            let Some((at_ns, happening)) = self.queue.pop(until_ns) else { break };
            self.step(at_ns, happening);
        }
        self.next_completion()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.advance(now.ns);
        if completed.is_empty() {
            std::mem::swap(completed, &mut self.completed);
        } else {
            completed.append(&mut self.completed);
        }
    }

    fn take_failure(&mut self, request: RequestId) -> Option<StorageFailure> {
        if self.failed.is_empty() { None } else { self.failed.remove(&request) }
    }
}

/// Converts microseconds to ns.
fn ns(duration_us: f64) -> u64 {
    (duration_us * 1e3) as u64
}
