//! Clones of thin pools that another host reads from end to end beside the load: an off-host backup.
//!
//! * A clone is all volumes of a pool as of a time. It holds their chunks as a snapshot does (`thin`): the
//!   first write to a chunk after it takes a new one. When all of it has been read it goes, and what it alone
//!   held comes free.
//! * Its chunks are read where they are, volume by volume in the order of their addresses, this many reads at a
//!   time, at a set rate at most. What has no chunk is not read.
//! * The data pass the controller of the pool's first volume.
//!
//! Left out: clones that are written to, links and processors of the host that reads, what cannot be read any
//! more (it is passed over), data of the cache that are newer than the clone but not destaged yet.

use world::Time;

use super::{Array, Happening, JobId, Kind, NO_DRIVE, RebuildStatus};
use crate::hardware::Target;
use crate::space::VolumeRange;

/// State of a clone: being read, or removed.
pub(super) struct CloneState {
    /// Number of the clone among the snapshots and clones of its pool.
    pub mark: u32,
    /// Number of chunks that volumes have left since, which the clone holds.
    pub held_chunks: u64,
    /// Chunks still to be read, last one first.
    left: Vec<VolumeRange>,
    total_bytes: u64,
    begun_bytes: u64,
    under_way: u32,
    /// Limit of the read rate, MB/s; 0: none.
    mb_per_s: f64,
    next_read_ns: u64,
    /// Whether a timer for the next read is set.
    is_timed: bool,
    gone_at: Option<Time>,
}

impl CloneState {
    /// Creates the state. `left`: chunks to be read, last one first.
    pub fn new(mark: u32, left: Vec<VolumeRange>, mb_per_s: f64, now_ns: u64) -> CloneState {
        CloneState {
            mark,
            held_chunks: 0,
            total_bytes: left.iter().map(|(_, bytes)| bytes).sum(),
            left,
            begun_bytes: 0,
            under_way: 0,
            mb_per_s,
            next_read_ns: now_ns,
            is_timed: false,
            gone_at: None,
        }
    }

    pub fn is_alive(&self) -> bool {
        self.gone_at.is_none()
    }

    /// Removes the clone after all of it has been read.
    pub fn goes(&mut self, now_ns: u64) {
        self.gone_at = Some(Time { ns: now_ns });
    }
}

impl Array {
    /// Progress of the last clone of a thin pool: share that was read, and bytes that it alone held. `None` if there
    /// was no clone.
    pub fn clone_read(&self, pool: usize) -> Option<(RebuildStatus, u64)> {
        let state = self.thin_pools.get(pool)?;
        let clone = state.clones.last()?;
        let status = match clone.gone_at {
            Some(at) => RebuildStatus::Ended(at),
            None => RebuildStatus::UnderWay(clone.begun_bytes as f64 / clone.total_bytes.max(1) as f64),
        };
        Some((status, clone.held_chunks * state.chunk_bytes()))
    }

    /// Takes a clone of all volumes of a thin pool and begins to read it.
    pub(super) fn take_clone(&mut self, pool: usize, mb_per_s: f64) {
        if pool >= self.thin_pools.len() {
            return;
        }
        let volumes = self.volumes.iter().filter(|volume| volume.placement.target == Target::Thin { pool });
        let state = &mut self.thin_pools[pool];
        let mut left: Vec<VolumeRange> = volumes.flat_map(|volume| volume.thin.places(state)).collect();
        left.reverse();
        let clone = CloneState::new(state.mark(), left, mb_per_s, self.now_ns);
        state.clones.push(clone);
        self.read_clone(pool, self.thin_pools[pool].clones.len() - 1);
    }

    /// Starts reads of a clone up to the allowed number.
    pub(super) fn read_clone(&mut self, pool: usize, index: usize) {
        let settings = self.hardware.clone_reads.clone();
        let group = self.hardware.thin_pools[pool].group;
        loop {
            let clone = &mut self.thin_pools[pool].clones[index];
            if clone.under_way >= settings.reads {
                return;
            }
            let Some((start, bytes)) = clone.left.pop() else {
                if clone.under_way == 0 && clone.is_alive() {
                    clone.goes(self.now_ns);
                    self.thin_pools[pool].release();
                }
                return;
            };
            let take = bytes.min(settings.read_bytes);
            if self.now_ns < clone.next_read_ns {
                clone.left.push((start, bytes));
                if !std::mem::replace(&mut clone.is_timed, true) {
                    let at_ns = clone.next_read_ns;
                    self.at(at_ns, Happening::ReadClone { pool: pool as u32, index: index as u32 });
                }
                return;
            }
            if bytes > take {
                clone.left.push((start + take, bytes - take));
            }
            clone.begun_bytes += take;
            clone.under_way += 1;
            if clone.mb_per_s > 0.0 {
                let pause_ns = (take as f64 * 1e3 / clone.mb_per_s) as u64;
                clone.next_read_ns = clone.next_read_ns.max(self.now_ns) + pause_ns;
            }
            let id = self.new_job(Kind::ReadClone { pool: pool as u32, index: index as u32 });
            self.job(id).bytes = take;
            self.job(id).remaining = 1;
            self.read_drives(id, group, start, take, None);
            self.part_done(id);
        }
    }

    /// Handles the timer for the next read of a clone.
    pub(super) fn clone_read_due(&mut self, pool: usize, index: usize) {
        self.thin_pools[pool].clones[index].is_timed = false;
        self.read_clone(pool, index);
    }

    /// Sends a part of a clone that was read through the controller to the reading host.
    pub(super) fn pass_clone(&mut self, id: JobId, pool: u32, index: u32) {
        let target = Target::Thin { pool: pool as usize };
        let first = self.volumes.iter().find(|volume| volume.placement.target == target);
        let controller = first.map_or(0, |volume| volume.owner);
        let passed_ns = self.pass_controller(controller, self.now_ns, self.jobs[id as usize].bytes);
        self.job(id).kind = Kind::PassClone { pool, index };
        self.job(id).remaining = 1;
        self.at(passed_ns, Happening::Done { job: id, drive: NO_DRIVE, read_bytes: 0 });
    }

    /// Handles the arrival of a part of a clone at the reading host.
    pub(super) fn clone_passed(&mut self, pool: usize, index: usize) {
        self.thin_pools[pool].clones[index].under_way -= 1;
        self.read_clone(pool, index);
    }
}
