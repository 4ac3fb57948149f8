//! Requests of hosts: over the links to a controller, through its cache, and back.

use world::sim::{StorageFailure, StorageOp, StorageRequest};

use super::tiering::column;
use super::{Array, Happening, JobId, Kind, NO_DRIVE, NO_PATH};
use crate::drive::{Command, Op};
use crate::hardware::{BLOCK_BYTES, Target};
use crate::links::Way;
use crate::space::VolumeRange;
use crate::streams::{Advice, Prefetch};

impl Array {
    pub(super) fn take_request(&mut self, request: StorageRequest) {
        self.requests_under_way += 1;
        let kind = match request.op {
            StorageOp::Read if request.bytes > 0 => Kind::Read,
            StorageOp::Write if request.bytes > 0 => Kind::Write,
            _ => Kind::Sync,
        };
        let id = self.new_job(kind);
        let volume = self.attached(request.volume);
        let job = &mut self.jobs[id as usize];
        (job.request, job.bytes, job.volume_byte) = (request.id, request.bytes, 0);
        let Some(volume) = volume else {
            self.unplaced_requests += 1;
            job.volume = u32::MAX;
            self.at(self.now_ns, Happening::Complete(id));
            return;
        };
        job.volume = volume as u32;
        let state = &mut self.volumes[volume];
        state.statistics.begins(self.now_ns);
        if !matches!(kind, Kind::Sync) {
            let capacity = state.placement.bytes;
            let base = match state.placement.target {
                Target::Group { first_byte, .. } => first_byte,
                _ => 0,
            };
            let on_target = |(start, bytes): VolumeRange| {
                // A volume that is smaller here than in the world begins again at its start.
                let start = if start < capacity { start } else { start % capacity };
                (base + start, bytes.min(capacity - start))
            };
            match state.space.only_piece(request.file.0, request.offset, request.bytes) {
                Some(piece) => job.pieces.push(on_target(piece)),
                None => {
                    let pieces = state.space.pieces(request.file.0, request.offset, request.bytes);
                    job.pieces.extend(pieces.into_iter().map(on_target));
                }
            }
            job.volume_byte = job.pieces[0].0 - base;
        }
        self.set_out(id);
    }

    /// Sends a request that has not reached its controller over another path.
    #[inline(never)]
    pub(super) fn travel(&mut self, id: JobId) {
        self.set_out(id);
    }

    /// Sends a request over a working path; it waits while there is none.
    #[inline(always)]
    fn set_out(&mut self, id: JobId) {
        let job = &self.jobs[id as usize];
        let volume = job.volume as usize;
        let bytes = if matches!(job.kind, Kind::Write) { job.bytes } else { 0 };
        let Some((path, controller)) = self.choose_path(volume) else {
            self.stalled.push(id);
            return;
        };
        let mut at_ns = self.now_ns;
        if path != NO_PATH {
            for link in &self.volumes[volume].placement.paths[path as usize].links {
                let link = &mut self.links[*link];
                at_ns = link.command(at_ns);
                at_ns = link.send(at_ns, Way::Down, bytes);
            }
        }
        let state = &mut self.controllers[controller];
        at_ns = at_ns.max(state.silent_until_ns);
        state.command_free_ns = state.command_free_ns.max(at_ns) + state.command_ns;
        state.busy_ns += state.command_ns;
        let handled_ns = state.command_free_ns;
        let arrives_ns = self.pass_controller(controller, handled_ns, bytes);
        let job = self.job(id);
        (job.path, job.controller) = (path, controller as u32);
        self.at(arrives_ns, Happening::Arrive(id));
    }

    /// Passes data through a controller, one after another. Returns the time when they have passed.
    #[inline]
    pub(super) fn pass_controller(&mut self, controller: usize, at_ns: u64, bytes: u64) -> u64 {
        let state = &mut self.controllers[controller];
        if bytes == 0 || state.mb_per_s == 0.0 {
            return at_ns;
        }
        let takes_ns = (bytes as f64 * 1e3 / state.mb_per_s) as u64;
        state.data_free_ns = state.data_free_ns.max(at_ns) + takes_ns;
        state.data_busy_ns += takes_ns;
        state.data_free_ns
    }

    /// Next path to the volume's controller, in turn, and that controller; [`NO_PATH`] for volumes without links.
    #[inline(always)]
    fn choose_path(&mut self, volume: usize) -> Option<(u32, usize)> {
        let state = &self.volumes[volume];
        if state.placement.paths.is_empty() && self.controllers[state.owner].alive {
            return Some((NO_PATH, state.owner));
        }
        self.choose_among_paths(volume)
    }

    #[inline(never)]
    fn choose_among_paths(&mut self, volume: usize) -> Option<(u32, usize)> {
        self.check_owner(volume);
        let state = &mut self.volumes[volume];
        let paths = &state.placement.paths;
        if paths.is_empty() {
            return self.controllers[state.owner].alive.then_some((NO_PATH, state.owner));
        }
        let well = |index: usize| {
            let path = &paths[index];
            self.controllers[path.controller].alive && path.links.iter().all(|link| self.links[*link].alive)
        };
        let count = paths.len();
        let first = state.next_path as usize;
        state.next_path = (state.next_path + 1) % count as u32;
        let turn = (0..count).map(|k| (first + k) % count);
        let owner = state.owner;
        if let Some(path) = turn.clone().find(|index| paths[*index].controller == owner && well(*index)) {
            return Some((path as u32, owner));
        }
        // No way to the owner: the volume moves to the controller that can be reached.
        let path = turn.into_iter().find(|index| well(*index))?;
        let controller = paths[path].controller;
        state.owner = controller;
        let silent_ns = self.now_ns + (self.hardware.controllers[controller].failover_ms * 1e6) as u64;
        self.controllers[controller].silent_until_ns =
            self.controllers[controller].silent_until_ns.max(silent_ns);
        Some((path as u32, controller))
    }

    /// Moves a volume whose controller has failed to the partner.
    fn check_owner(&mut self, volume: usize) {
        let owner = self.volumes[volume].owner;
        if !self.controllers[owner].alive
            && let Some(partner) = self.hardware.controllers[owner].partner
        {
            self.volumes[volume].owner = partner;
        }
    }

    /// Handles the arrival of a request at its controller.
    pub(super) fn arrive(&mut self, id: JobId) {
        let job = &self.jobs[id as usize];
        let (controller, volume, kind) = (job.controller as usize, job.volume as usize, job.kind);
        let state = &mut self.controllers[controller];
        if !state.alive {
            self.travel(id);
            return;
        }
        match kind {
            Kind::Read => state.reads += 1,
            Kind::Write => state.writes += 1,
            _ => {}
        }
        match self.volumes[volume].placement.target {
            Target::Thin { pool } => match kind {
                Kind::Read => self.read_thin(id, controller, volume, pool),
                Kind::Write => self.write_thin(id, controller, volume, pool),
                _ => self.sync_group(id, controller, self.hardware.thin_pools[pool].group),
            },
            Target::Group { group, .. } => match kind {
                Kind::Read => self.read_group(id, controller, volume, group),
                Kind::Write => self.write_group(id, controller, group),
                _ => self.sync_group(id, controller, group),
            },
            Target::LogStore { store } => match kind {
                Kind::Read => self.read_log_store(id, volume, store),
                Kind::Write => self.write_log_store(id, controller, store),
                _ => self.served(id),
            },
            Target::ReplicatedStore { store, node } => self.enter_node(id, store, node),
        }
    }

    fn read_group(&mut self, id: JobId, controller: usize, volume: usize, group: usize) {
        let pieces = &self.jobs[id as usize].pieces;
        let state = &mut self.controllers[controller];
        if let Some(cache) = &state.cache
            && pieces.iter().all(|(start, bytes)| cache.holds(group as u32, *start, start + bytes))
        {
            state.hits += 1;
            self.served(id);
            return;
        }
        self.read_with_streams(id, volume, |array, job, start, bytes, pin| {
            array.read_cached(job, group, start, bytes, pin);
        });
    }

    /// Reads what read-ahead does not hold, by `read` (job, first byte, bytes, disk of a mirror), and starts
    /// read-ahead.
    pub(super) fn read_with_streams(
        &mut self,
        id: JobId,
        volume: usize,
        read: impl Fn(&mut Array, JobId, u64, u64, Option<u64>),
    ) {
        let job = &mut self.jobs[id as usize];
        let (start, bytes) = job.pieces[0];
        let mut prefetch = None;
        let advice =
            self.volumes[volume].streams.read(self.now_ns, id, (start, start + bytes), &mut prefetch);
        let pin = match advice {
            Advice::Read(stream) => stream,
            Advice::Hit | Advice::Wait => None,
        };
        let ahead = !matches!(advice, Advice::Read(_));
        let state = &mut self.controllers[job.controller as usize];
        if ahead && job.pieces.len() == 1 {
            state.hits += 1;
        } else {
            state.misses += 1;
        }
        // The job holds itself until all is under way.
        job.remaining = 1 + u32::from(advice == Advice::Wait);
        if !ahead {
            read(self, id, start, bytes, pin);
        }
        if self.jobs[id as usize].pieces.len() > 1 {
            self.read_further_pieces(id, pin, &read);
        }
        if let Some(prefetch) = prefetch {
            self.read_in_advance(volume, prefetch, read);
        }
        self.part_done(id);
    }

    #[inline(never)]
    fn read_further_pieces(
        &mut self,
        id: JobId,
        pin: Option<u64>,
        read: impl Fn(&mut Array, JobId, u64, u64, Option<u64>),
    ) {
        for (start, bytes) in self.job(id).pieces.clone().into_iter().skip(1) {
            read(self, id, start, bytes, pin);
        }
    }

    #[inline(never)]
    fn read_in_advance(
        &mut self,
        volume: usize,
        Prefetch { stream, pin, id: ahead, start, end }: Prefetch,
        read: impl Fn(&mut Array, JobId, u64, u64, Option<u64>),
    ) {
        let id = self.new_job(Kind::Ahead { volume: volume as u32, stream, id: ahead });
        let job = self.job(id);
        job.volume = volume as u32;
        job.pieces.push((start, end - start));
        job.bytes = end - start;
        job.remaining = 1;
        read(self, id, start, end - start, Some(pin));
        self.part_done(id);
    }

    /// Handles the end of a read-ahead. Requests that waited for data which it did not get read themselves.
    pub(super) fn read_ahead(&mut self, id: JobId, volume: usize, stream: u64, ahead: u64) {
        let mut waited = Vec::new();
        let lost = self.job(id).lost;
        if lost {
            self.forget_read(id);
            self.volumes[volume].streams.failed(stream, &mut waited);
        } else {
            self.decompress(id);
            self.volumes[volume].streams.arrived(stream, ahead, &mut waited);
        }
        self.free_jobs.push(id);
        for job in waited {
            self.job(job).retry |= lost;
            self.part_done(job);
        }
    }

    /// Removes data that a failed or repeated read was to bring from a store's memory.
    fn forget_read(&mut self, id: JobId) {
        let job = &self.jobs[id as usize];
        let volume = &self.volumes[job.volume as usize];
        let (memory, block_bytes) = match volume.placement.target {
            Target::LogStore { store } => {
                (self.log_stores[store].memory(), self.hardware.log_stores[store].block_bytes)
            }
            Target::ReplicatedStore { store, node } => (self.replicated[store].memory(node), BLOCK_BYTES),
            _ => return,
        };
        for (start, bytes) in &job.pieces {
            let at = volume.store_base + start;
            (at / block_bytes..=(at + bytes - 1) / block_bytes).for_each(|block| memory.remove(block));
        }
    }

    fn sync_group(&mut self, id: JobId, controller: usize, group: usize) {
        // With a protected cache, or drives without caches, there is nothing to flush: no command is sent.
        let protected =
            self.controllers[controller].protected && self.controllers[controller].cache.is_some();
        let drives = self.drives_of(group);
        self.job(id).remaining = 1;
        if !protected {
            for drive in drives {
                if self.drives[drive].has_volatile_cache() {
                    self.job(id).remaining += 1;
                    self.send_to_drive(drive, Command { tag: id, op: Op::Flush, start: 0, bytes: 0 });
                }
            }
        }
        self.part_done(id);
    }

    pub(super) fn write_group(&mut self, id: JobId, controller: usize, group: usize) {
        let state = &self.controllers[controller];
        match &state.cache {
            Some(cache) if state.protected => {
                if !state.waiting.is_empty() || !cache.has_room(self.jobs[id as usize].bytes) {
                    self.controllers[controller].waits += 1;
                    self.controllers[controller].waiting.push_back(id);
                    self.press(controller);
                } else {
                    self.write_cached(id, controller, group);
                }
            }
            _ => {
                self.job(id).kind = Kind::WriteThrough;
                self.job(id).remaining = 1;
                self.copy_to_partner(id);
                for (start, bytes) in self.job(id).pieces.clone() {
                    self.write_drives(id, group, start, bytes);
                }
                self.part_done(id);
            }
        }
    }

    /// Writes into the cache, which has room, and acknowledges.
    pub(super) fn write_cached(&mut self, id: JobId, controller: usize, group: usize) {
        let pieces = self.job(id).pieces.clone();
        let volume = self.job(id).volume as usize;
        let (groups, tiering) = (&self.groups, &self.tiering);
        let state = &mut self.controllers[controller];
        if let Some(cache) = &mut state.cache {
            for (start, bytes) in pieces {
                let place = |at| column(groups, tiering, group, at);
                cache.write(self.now_ns, group as u32, start, start + bytes, place);
            }
            state.dirty_max_bytes = state.dirty_max_bytes.max(cache.dirty_bytes());
        }
        self.acknowledge(id, controller, volume);
        self.drain_destages(controller);
    }

    /// Time at which a write of a volume that arrives at `from_ns` has taken its acknowledgement lane, after earlier
    /// writes of the volume.
    pub(super) fn pass_lane(&mut self, controller: usize, volume: usize, from_ns: u64) -> u64 {
        let acknowledge_ns = self.controllers[controller].acknowledge_ns;
        match self.volumes[volume].lanes.iter_mut().min() {
            Some(lane) => {
                *lane = (*lane).max(from_ns) + acknowledge_ns;
                *lane
            }
            None => from_ns + acknowledge_ns,
        }
    }

    /// Acknowledges a write, after the controller's time and earlier writes of the volume.
    pub(super) fn acknowledge(&mut self, id: JobId, controller: usize, volume: usize) {
        let at_ns = self.pass_lane(controller, volume, self.now_ns);
        self.job(id).remaining = 1;
        self.at(at_ns, Happening::Done { job: id, drive: NO_DRIVE, read_bytes: 0 });
        self.copy_to_partner(id);
    }

    /// Sends a request that the controller has finished back to its host.
    pub(super) fn served(&mut self, id: JobId) {
        let job = &self.jobs[id as usize];
        if (job.retry || job.lost) && self.begins_anew(id) {
            return;
        }
        let mut at_ns = if self.job(id).compressed_bytes > 0 { self.decompress(id) } else { self.now_ns };
        let job = &self.jobs[id as usize];
        let (remote, volume, path) = (job.remote, job.volume as usize, job.path);
        let (controller, is_through) = (job.controller as usize, matches!(job.kind, Kind::WriteThrough));
        let bytes = if matches!(job.kind, Kind::Read) { job.bytes } else { 0 };
        if is_through {
            at_ns += self.controllers[controller].acknowledge_ns;
        }
        at_ns = self.pass_controller(controller, at_ns, bytes);
        if let Some(holder) = remote {
            at_ns = self.send_from(holder as usize, volume, at_ns, bytes);
        }
        if path != NO_PATH {
            for link in self.volumes[volume].placement.paths[path as usize].links.iter().rev() {
                at_ns = self.links[*link].send(at_ns, Way::Up, bytes);
            }
        }
        if at_ns > self.now_ns {
            self.at(at_ns, Happening::Complete(id));
        } else {
            self.complete(id);
        }
    }

    /// Handles a job whose drive died or whose data are lost. Returns whether it begins anew.
    #[inline(never)]
    fn begins_anew(&mut self, id: JobId) -> bool {
        if matches!(self.job(id).kind, Kind::Read) {
            self.forget_read(id);
        }
        let job = self.job(id);
        let is_retried = job.retry;
        if is_retried {
            (job.retry, job.lost, job.compressed_bytes) = (false, false, 0);
            self.arrive(id);
        }
        is_retried
    }

    /// Time at which data from another node arrive at the node of the volume.
    fn send_from(&mut self, holder: usize, volume: usize, at_ns: u64, bytes: u64) -> u64 {
        let Target::ReplicatedStore { store, node } = self.volumes[volume].placement.target else {
            return at_ns;
        };
        let nodes = &self.hardware.replicated_stores[store].nodes;
        let (from, to) = (nodes[holder].link, nodes[node].link);
        let sent_ns = self.links[from].send(at_ns, Way::Up, bytes);
        self.links[to].send(sent_ns, Way::Down, bytes)
    }

    #[inline(always)]
    pub(super) fn complete(&mut self, id: JobId) {
        let job = &self.jobs[id as usize];
        if let Some(state) = self.volumes.get_mut(job.volume as usize) {
            state.statistics.ends(self.now_ns, job.submitted_ns, job.kind, job.bytes);
        }
        if job.lost || job.no_room {
            let failure = if job.lost { StorageFailure::Lost } else { StorageFailure::NoSpace };
            self.failed.insert(job.request, failure);
            self.failed_requests += 1;
        }
        self.completed.push(job.request);
        self.free_jobs.push(id);
        self.requests_under_way -= 1;
    }
}
