//! A replicated store: nodes with flash and disks of their own, every byte on several nodes.
//!
//! * A request costs its node's storage software a time on one of its cores, then goes on. Writes of a volume
//!   are taken one after another, each for the acknowledge time of its controller.
//! * A write is acknowledged when the write logs of `replicas` nodes have it on flash. Drained in order of
//!   arrival, it is written to the place of its extent on each of them; a full log holds writes up. Logs on a
//!   node that has died are those of others: what it had logged is drained from the copies.
//! * A read is served from memory (exact LRU), from the write log (flash) while not drained, or from its extent: on
//!   its own node if a copy is there and alive, else over the network from another. Where extents lie, and what moves
//!   them, is in `extents`; bad copies and slow drives are in `drive_health`, what happens to cold data in `cold_data`,
//!   `strips` and `deduplication`.
//!
//! Left out: the metadata store, checksum time, sequential writes that pass by the write log.

use std::collections::VecDeque;

use world::FixedHashMap;

use super::cold_data::ColdData;
use super::drive_health::Health;
use super::extents::Extents;
use super::recopy::Recopies;
use super::{Array, Happening, JobId, Kind, NO_DRIVE, ns};
use crate::drive::DriveState;
use crate::hardware::{BLOCK_BYTES, ReplicatedStore, Target, VolumePlacement};
use crate::links::Way;
use crate::lru::Lru;
use crate::space::parts;

/// Largest number of drains at a time per drive of a node.
const DRAINS_PER_DRIVE: usize = 1;

struct Node {
    cores_free_ns: Vec<u64>,
    memory: Lru,
    log_bytes: u64,
    log_at: u64,
    waiting: VecDeque<JobId>,
    /// Written ranges that are not drained yet: first byte in the store, bytes.
    drain: VecDeque<(u64, u64)>,
    draining: usize,
    /// For each block: how often it is in `drain` or being drained.
    undrained: FixedHashMap<u64, u32>,
}

pub(super) struct ReplicatedState {
    nodes: Vec<Node>,
    pub extents: Extents,
    pub health: Health,
    pub recopies: Recopies,
    pub cold_data: ColdData,
    pub hits: u64,
    pub misses: u64,
}

impl ReplicatedState {
    /// Creates the store with the volumes in it, by address.
    pub fn new(
        store: &ReplicatedStore,
        drives: &[DriveState],
        volumes: &[&VolumePlacement],
    ) -> ReplicatedState {
        let node = |_| Node {
            cores_free_ns: vec![0; store.cores.max(1) as usize],
            memory: Lru::new(store.ram_cache_bytes / BLOCK_BYTES),
            log_bytes: 0,
            log_at: 0,
            waiting: VecDeque::new(),
            drain: VecDeque::new(),
            draining: 0,
            undrained: FixedHashMap::default(),
        };
        let cold_data = ColdData::new(store, volumes.iter().map(|volume| volume.bytes).sum());
        ReplicatedState {
            nodes: (0..store.nodes.len()).map(node).collect(),
            extents: Extents::new(store, drives, volumes, cold_data.stored_share(store)),
            health: Health::default(),
            recopies: Recopies::default(),
            cold_data,
            hits: 0,
            misses: 0,
        }
    }

    pub fn memory(&mut self, node: usize) -> &mut Lru {
        &mut self.nodes[node].memory
    }
}

impl Array {
    /// Passes a request through the storage software of a node; writes of a volume one after another.
    pub(super) fn enter_node(&mut self, id: JobId, store: usize, node: usize) {
        let mut work_ns = ns(self.hardware.replicated_stores[store].command_us);
        let is_write = matches!(self.job(id).kind, Kind::Write);
        if is_write {
            work_ns += self.fingerprint_ns(store, self.jobs[id as usize].bytes);
        }
        let mut at_ns = self.use_core(store, node, work_ns);
        if is_write {
            let (controller, volume) = (self.job(id).controller as usize, self.job(id).volume as usize);
            at_ns = self.pass_lane(controller, volume, at_ns);
        }
        self.at(at_ns, Happening::InNode(id));
    }

    /// Time at which the earliest free core of a node has done some work.
    pub(super) fn use_core(&mut self, store: usize, node: usize, work_ns: u64) -> u64 {
        let now_ns = self.now_ns;
        let cores = &mut self.replicated[store].nodes[node].cores_free_ns;
        cores.iter_mut().min().map_or(now_ns, |core| {
            *core = (*core).max(now_ns) + work_ns;
            *core
        })
    }

    pub(super) fn in_node(&mut self, id: JobId) {
        let volume = self.job(id).volume as usize;
        let Target::ReplicatedStore { store, node } = self.volumes[volume].placement.target else { return };
        match self.job(id).kind {
            Kind::Read => self.read_with_streams(id, volume, |array, job, start, bytes, _| {
                array.read_extents(job, volume, store, node, start, bytes);
            }),
            Kind::Write => self.write_to_logs(id, store, node),
            _ => self.served(id),
        }
    }

    fn read_extents(&mut self, id: JobId, volume: usize, store: usize, node: usize, start: u64, bytes: u64) {
        let extent_bytes = self.hardware.replicated_stores[store].extent_bytes;
        let base = self.volumes[volume].store_base;
        for (at, take) in parts((base + start, bytes), extent_bytes) {
            let kept_at = self.kept_at(store, at);
            let blocks_at = |at| at / BLOCK_BYTES..=(at + take - 1) / BLOCK_BYTES;
            let state = &mut self.replicated[store];
            let memory = &mut state.nodes[node].memory;
            let mut holds = |at| blocks_at(at).all(|block| memory.touch(block));
            let in_memory = holds(at) || (kept_at != at && holds(kept_at));
            if in_memory {
                state.hits += 1;
            } else {
                state.misses += 1;
                let in_log = blocks_at(at).any(|block| state.nodes[node].undrained.contains_key(&block));
                let read_at = if in_log { at } else { kept_at };
                blocks_at(read_at).for_each(|block| state.nodes[node].memory.insert(block));
                if in_log {
                    let drive = self.log_drive(store, node, at);
                    self.read_on(id, node, node, drive.map(|drive| (drive, at % (1 << 30))), take);
                } else {
                    self.count_extent_read(store, kept_at, take);
                    let extent = kept_at / extent_bytes;
                    match self.nearest_copy(store, node, extent) {
                        Some((holder, (drive, byte))) => {
                            let (into, length) = self.stored_range(id, store, kept_at, take);
                            let place = (drive, byte + into);
                            if self.read_bad_copy(id, store, extent, place, length) {
                                continue;
                            }
                            self.read_on(id, node, holder, Some(place), length);
                            if holder != node {
                                self.read_from_afar(store, node, extent);
                            }
                        }
                        None => {
                            let range = self.stored_range(id, store, kept_at, take);
                            let is_read = self.read_strip(id, store, node, extent, range);
                            self.job(id).lost |= !is_read;
                        }
                    }
                }
            }
        }
    }

    /// Reads from a drive of node `holder` for `node`, over the network if they differ.
    fn read_on(&mut self, id: JobId, node: usize, holder: usize, place: Option<(usize, u64)>, bytes: u64) {
        let Some((drive, byte)) = place else {
            self.job(id).lost = true;
            return;
        };
        if node != holder {
            self.job(id).remote = Some(holder as u32);
        }
        self.issue(id, &[(drive, byte, bytes)], false);
    }

    /// Working flash drive of a node for its write log.
    fn log_drive(&self, store: usize, node: usize, at: u64) -> Option<usize> {
        let flash = &self.hardware.replicated_stores[store].nodes[node].flash;
        let first = (at / BLOCK_BYTES) as usize;
        let (dead, health) = (&self.replicated[store].extents.dead, &self.replicated[store].health);
        let mut turn = (0..flash.len()).map(|k| flash[(first + k) % flash.len()]);
        let well = turn.clone().find(|drive| !dead[*drive] && !health.is_given_up(*drive));
        well.or_else(|| turn.find(|drive| !dead[*drive]))
    }

    fn write_to_logs(&mut self, id: JobId, store: usize, node: usize) {
        let limit = self.hardware.replicated_stores[store].write_log_bytes;
        let bytes = self.job(id).bytes;
        let state = &mut self.replicated[store].nodes[node];
        if !state.waiting.is_empty() || (state.log_bytes > 0 && state.log_bytes + bytes > limit) {
            state.waiting.push_back(id);
            let controller = self.job(id).controller as usize;
            self.controllers[controller].waits += 1;
            return;
        }
        self.log_write(id, store, node);
    }

    fn log_write(&mut self, id: JobId, store: usize, node: usize) {
        let settings = &self.hardware.replicated_stores[store];
        let (count, replicas) = (settings.nodes.len(), settings.replicas as usize);
        let log_bytes = settings.write_log_bytes.max(1);
        let volume = self.job(id).volume as usize;
        let base = self.volumes[volume].store_base;
        self.job(id).remaining = 1;
        for (start, bytes) in self.job(id).pieces.clone() {
            let at = base + start;
            let state = &mut self.replicated[store].nodes[node];
            state.log_bytes += bytes;
            let log_at = state.log_at;
            state.log_at = (state.log_at + bytes) % log_bytes;
            for block in at / BLOCK_BYTES..=(at + bytes - 1) / BLOCK_BYTES {
                *state.undrained.entry(block).or_insert(0) += 1;
                state.memory.insert(block);
            }
            state.drain.push_back((at, bytes));
            // The further copies take turns over the other nodes, as far as they live.
            let turn = (log_at / BLOCK_BYTES) as usize;
            let others = (0..count - 1).map(|k| (node + 1 + (turn + k) % (count - 1)) % count);
            let mut copies = 0;
            for holder in std::iter::once(node).chain(others) {
                if copies == replicas - 1 && holder != node {
                    break;
                }
                let Some(drive) = self.log_drive(store, holder, log_at) else { continue };
                if holder != node {
                    copies += 1;
                    self.send_between(id, store, node, holder, bytes);
                }
                self.issue(id, &[(drive, log_at / 4096 * 4096, bytes)], true);
            }
        }
        self.part_done(id);
        self.drain(store, node);
    }

    /// Sends a message between nodes, for which the job waits.
    pub(super) fn send_between(&mut self, id: JobId, store: usize, from: usize, to: usize, bytes: u64) {
        let nodes = &self.hardware.replicated_stores[store].nodes;
        let (from, to) = (nodes[from].link, nodes[to].link);
        let sent_ns = self.links[from].send(self.now_ns, Way::Up, bytes);
        let at_ns = self.links[to].send(sent_ns, Way::Down, bytes);
        self.job(id).remaining += 1;
        self.at(at_ns, Happening::Done { job: id, drive: NO_DRIVE, read_bytes: 0 });
    }

    /// Moves logged writes to the places of their extents.
    fn drain(&mut self, store: usize, node: usize) {
        let settings = &self.hardware.replicated_stores[store];
        let drives = settings.nodes[node].disks.len() + settings.nodes[node].flash.len();
        let extent_bytes = settings.extent_bytes;
        while self.replicated[store].nodes[node].draining < drives * DRAINS_PER_DRIVE {
            let state = &mut self.replicated[store].nodes[node];
            let Some((at, bytes)) = state.drain.pop_front() else { return };
            state.draining += 1;
            let kind = Kind::Drain { store: store as u32, node: node as u32, at, bytes };
            let id = self.new_job(kind);
            self.job(id).bytes = bytes;
            self.job(id).remaining = 1;
            let (mut from, end) = (at, at + bytes);
            while from < end {
                let take = (extent_bytes - from % extent_bytes).min(end - from);
                let extent = from / extent_bytes;
                self.count_extent_write(store, from);
                let on_flash = self.is_on_flash(store, extent);
                for holder in self.replica_nodes(store, extent) {
                    let place = self.place_in_tier(store, holder, extent, on_flash);
                    let place = place.map(|place| (holder, place));
                    let place = place.or_else(|| self.recopied_part(store, extent));
                    let Some((holder, (drive, byte))) = place else { continue };
                    if holder != node {
                        self.send_between(id, store, node, holder, take);
                    }
                    self.issue(id, &[(drive, byte + from % extent_bytes, take)], true);
                }
                from += take;
            }
            self.part_done(id);
        }
    }

    pub(super) fn drained(&mut self, store: usize, node: usize, at: u64, bytes: u64) {
        let limit = self.hardware.replicated_stores[store].write_log_bytes;
        let state = &mut self.replicated[store].nodes[node];
        state.draining -= 1;
        state.log_bytes -= bytes;
        for block in at / BLOCK_BYTES..=(at + bytes - 1) / BLOCK_BYTES {
            if let Some(count) = state.undrained.get_mut(&block) {
                *count -= 1;
                if *count == 0 {
                    state.undrained.remove(&block);
                }
            }
        }
        loop {
            let state = &mut self.replicated[store].nodes[node];
            let Some(id) = state.waiting.front().copied() else { break };
            let next = self.jobs[id as usize].bytes;
            if state.log_bytes > 0 && state.log_bytes + next > limit {
                break;
            }
            state.waiting.pop_front();
            self.log_write(id, store, node);
        }
        self.drain(store, node);
    }
}
