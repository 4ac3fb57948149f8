//! A replicated store: nodes with flash and disks of their own, every byte on several nodes.
//!
//! * A request costs its node's storage software a time on one of its cores, then goes on. Writes of a volume are taken one
//!   after another, each for the acknowledge time of its controller.
//! * A write is acknowledged when the write logs of `replicas` nodes have it on flash. Drained in order of arrival, it
//!   is written to the place of its extent on each of them; a full log holds writes up.
//! * A read is served from memory (exact LRU), from the write log (flash) while not drained, or from its extent: on
//!   its own node if a copy is there and alive, else over the network from another.
//! * An extent lies on one drive of a node, which one and where on it is a hash. As many extents as fit lie on flash, the
//!   others on disks; that share is the same on all nodes.
//! * A drive that is lost is read around, and its extents are copied from the other nodes to where there is room.
//!
//! Left out: moving extents between tiers while the simulation runs, the metadata store, erasure coding, deduplication,
//! compression, checksum time, sequential writes that pass by the write log.

use std::collections::VecDeque;

use smallvec::SmallVec;
use world::FixedHashMap;

use super::{Array, Happening, JobId, Kind, NO_DRIVE, ns};
use crate::drive::DriveState;
use crate::hardware::{ReplicatedStore, Target};
use crate::links::Way;
use crate::lru::Lru;
use crate::mix;

/// Unit of the memory cache and of the write log's index.
const BLOCK_BYTES: u64 = 32 << 10;
/// Drains under way per drive of a node.
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
    /// How often a block stands in `drain`, or is being drained.
    undrained: FixedHashMap<u64, u32>,
}

pub(super) struct ReplicatedState {
    nodes: Vec<Node>,
    /// Of 2^32 extents, those on flash.
    on_flash: u64,
    /// Share of each disk that extents use.
    disk_used_share: f64,
    dead: Vec<bool>,
    /// Bytes of lost drives that are still to be copied, and copies begun.
    recopy_bytes: u64,
    recopied: u64,
    pub hits: u64,
    pub misses: u64,
}

impl ReplicatedState {
    pub fn new(store: &ReplicatedStore, drives: &[DriveState]) -> ReplicatedState {
        let room = |pick: fn(&crate::hardware::StoreNode) -> &Vec<usize>| -> f64 {
            let all = store.nodes.iter().flat_map(pick);
            all.map(|drive| drives[*drive].capacity_bytes() as f64).sum()
        };
        let stored = (store.resident_bytes * u64::from(store.replicas)).max(1) as f64;
        let flash = room(|node| &node.flash) * store.flash_for_extents_pct / 100.0;
        let disks = room(|node| &node.disks);
        let share = if disks > 0.0 { (flash / stored).min(1.0) } else { 1.0 };
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
        ReplicatedState {
            nodes: (0..store.nodes.len()).map(node).collect(),
            on_flash: (share * (1u64 << 32) as f64) as u64,
            disk_used_share: if disks > 0.0 { (stored * (1.0 - share) / disks).min(1.0) } else { 1.0 },
            dead: vec![false; drives.len()],
            recopy_bytes: 0,
            recopied: 0,
            hits: 0,
            misses: 0,
        }
    }
}

impl Array {
    /// The storage software takes its time, then the request goes on; writes of a volume one after another.
    pub(super) fn enter_node(&mut self, id: JobId, store: usize, node: usize) {
        let command_ns = ns(self.hardware.replicated_stores[store].command_us);
        let now_ns = self.now_ns;
        let cores = &mut self.replicated[store].nodes[node].cores_free_ns;
        let mut at_ns = cores.iter_mut().min().map_or(now_ns, |core| {
            *core = (*core).max(now_ns) + command_ns;
            *core
        });
        if matches!(self.job(id).kind, Kind::Write) {
            let (controller, volume) = (self.job(id).controller as usize, self.job(id).volume as usize);
            at_ns = self.pass_lane(controller, volume, at_ns);
        }
        self.at(at_ns, Happening::InNode(id));
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

    /// Nodes that hold an extent, its own node first if it holds one.
    fn holders(&self, store: usize, node: usize, extent: u64) -> SmallVec<[usize; 3]> {
        let settings = &self.hardware.replicated_stores[store];
        let count = settings.nodes.len() as u64;
        let hash = mix(extent ^ self.seed);
        let local = hash % 10_000 < (settings.local_reads_pct * 100.0) as u64;
        let mut holders = SmallVec::new();
        if local {
            holders.push(node);
        }
        let mut next = hash >> 32;
        while (holders.len() as u64) < u64::from(settings.replicas).min(count) {
            let candidate = (next % count) as usize;
            if !holders.contains(&candidate) && (candidate != node || count <= u64::from(settings.replicas)) {
                holders.push(candidate);
            }
            next += 1;
        }
        holders
    }

    /// Drive and byte of an extent on a node; `None` if the drive is lost.
    fn extent_place(&self, store: usize, node: usize, extent: u64) -> Option<(usize, u64)> {
        let settings = &self.hardware.replicated_stores[store];
        let state = &self.replicated[store];
        let node = &settings.nodes[node];
        let hash = mix(mix(extent) ^ self.seed);
        let on_flash = node.disks.is_empty() || (!node.flash.is_empty() && (hash >> 32) < state.on_flash);
        let (drives, share) = if on_flash {
            (&node.flash, settings.flash_for_extents_pct / 100.0)
        } else {
            (&node.disks, state.disk_used_share)
        };
        let drive = drives[(hash % drives.len() as u64) as usize];
        let extents = (self.drives[drive].capacity_bytes() as f64 * share) as u64 / settings.extent_bytes;
        let byte = mix(hash) % extents.max(1) * settings.extent_bytes;
        (!state.dead[drive]).then_some((drive, byte))
    }

    fn read_extents(&mut self, id: JobId, volume: usize, store: usize, node: usize, start: u64, bytes: u64) {
        let extent_bytes = self.hardware.replicated_stores[store].extent_bytes;
        let base = self.volumes[volume].store_base;
        let (mut at, end) = (base + start, base + start + bytes);
        while at < end {
            let take = (extent_bytes - at % extent_bytes).min(end - at);
            let blocks = at / BLOCK_BYTES..=(at + take - 1) / BLOCK_BYTES;
            let state = &mut self.replicated[store];
            let memory = &mut state.nodes[node].memory;
            let in_memory = blocks.clone().all(|block| memory.touch(block));
            if in_memory {
                state.hits += 1;
            } else {
                state.misses += 1;
                blocks.clone().for_each(|block| memory.insert(block));
                let in_log = blocks.clone().any(|block| state.nodes[node].undrained.contains_key(&block));
                if in_log {
                    let drive = self.log_drive(store, node, at);
                    self.read_on(id, node, node, drive.map(|drive| (drive, at % (1 << 30))), take);
                } else {
                    let extent = at / extent_bytes;
                    let holders = self.holders(store, node, extent);
                    let found = holders.iter().find_map(|holder| {
                        self.extent_place(store, *holder, extent).map(|place| (*holder, place))
                    });
                    let into = at % extent_bytes;
                    match found {
                        Some((holder, (drive, byte))) => {
                            self.read_on(id, node, holder, Some((drive, byte + into)), take);
                        }
                        None => self.job(id).lost = true,
                    }
                }
            }
            at += take;
        }
    }

    /// Reads on a drive of `holder` for `node`: over the network if they differ.
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

    /// A flash drive of a node that is well, for its write log.
    fn log_drive(&self, store: usize, node: usize, at: u64) -> Option<usize> {
        let flash = &self.hardware.replicated_stores[store].nodes[node].flash;
        let first = (at / BLOCK_BYTES) as usize;
        let dead = &self.replicated[store].dead;
        (0..flash.len()).map(|k| flash[(first + k) % flash.len()]).find(|drive| !dead[*drive])
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
            for copy in 0..replicas.min(count) {
                // The further copies take turns over the other nodes.
                let turn = (log_at / BLOCK_BYTES) as usize;
                let holder =
                    if copy == 0 { node } else { (node + 1 + (turn + copy - 1) % (count - 1)) % count };
                let Some(drive) = self.log_drive(store, holder, log_at) else { continue };
                if holder != node {
                    self.send_between(id, store, node, holder, bytes);
                }
                self.issue(id, &[(drive, log_at / 4096 * 4096, bytes)], true);
            }
        }
        self.part_done(id);
        self.drain(store, node);
    }

    /// A message from node to node that the job waits for.
    fn send_between(&mut self, id: JobId, store: usize, from: usize, to: usize, bytes: u64) {
        let nodes = &self.hardware.replicated_stores[store].nodes;
        let (from, to) = (nodes[from].link, nodes[to].link);
        let sent_ns = self.links[from].send(self.now_ns, Way::Up, bytes);
        let at_ns = self.links[to].send(sent_ns, Way::Down, bytes);
        self.job(id).remaining += 1;
        self.at(at_ns, Happening::Done { job: id, drive: NO_DRIVE, read_bytes: 0 });
    }

    /// Brings logged writes to the places of their extents.
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
                for holder in self.holders(store, node, extent) {
                    let Some((drive, byte)) = self.extent_place(store, holder, extent) else { continue };
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

    /// A drive of a store is lost: its extents are read elsewhere, and copied from there.
    pub(super) fn lose_extents(&mut self, drive: usize) {
        for index in 0..self.hardware.replicated_stores.len() {
            let store = &self.hardware.replicated_stores[index];
            let on_flash = store.nodes.iter().any(|node| node.flash.contains(&drive));
            if !on_flash && !store.nodes.iter().any(|node| node.disks.contains(&drive)) {
                continue;
            }
            let share = store.flash_for_extents_pct / 100.0;
            let state = &mut self.replicated[index];
            let share = if on_flash { share } else { state.disk_used_share };
            state.dead[drive] = true;
            state.recopy_bytes += (self.drives[drive].capacity_bytes() as f64 * share) as u64;
            for _ in 0..self.hardware.rebuild.steps.max(1) {
                self.recopy(index);
            }
        }
    }

    /// Copies the next extent: from a drive of one node to a drive of another.
    pub(super) fn recopy(&mut self, store: usize) {
        let settings = &self.hardware.replicated_stores[store];
        let (bytes, count) = (settings.extent_bytes, settings.nodes.len() as u64);
        let state = &mut self.replicated[store];
        if state.recopy_bytes == 0 {
            return;
        }
        state.recopy_bytes = state.recopy_bytes.saturating_sub(bytes);
        state.recopied += 1;
        let hash = mix(self.seed ^ state.recopied << 20);
        let from_node = hash % count;
        let to_node = (from_node + 1 + (hash >> 40) % (count - 1).max(1)) % count;
        let place = |node: u64, extent: u64| self.extent_place(store, node as usize, extent);
        // Another extent if the hash hits a lost drive: at most a few tries, for the loss is the exception.
        let find = |node: u64| (0..64).find_map(|k| place(node, mix(hash + k) >> 20));
        if let (Some((source, from)), Some((target, to))) = (find(from_node), find(to_node)) {
            let id = self.new_job(Kind::Recopy { store: store as u32 });
            self.job(id).bytes = bytes;
            self.job(id).then_write.push((target, to, bytes));
            self.issue(id, &[(source, from, bytes)], false);
        }
    }
}
