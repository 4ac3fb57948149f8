//! From a description to an array.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::check::{bad, check, check_overlap};
use super::log_store::LogStoreState;
use super::queue::Queue;
use super::read_cache::{InFront, ReadCacheState};
use super::rebuild::RebuildState;
use super::remote_copy::RemoteCopyState;
use super::replicated::ReplicatedState;
use super::statistics::{DriveStatistics, VolumeStatistics};
use super::thin::{ThinMap, ThinState};
use super::tiering::{TieringState, capacity_bytes};
use super::{Array, ControllerState, Happening, VolumeState, ns};
use crate::cache::Cache;
use crate::drive::DriveState;
use crate::error::ArrayError;
use crate::hardware::{Controller, Drive, DriveModel, Hardware, Target, VolumePlacement};
use crate::links::LinkState;
use crate::raid::Raid;
use crate::space::Space;
use crate::streams::{SlowStreams, Streams};

fn drive_bytes(model: &DriveModel) -> u64 {
    match model {
        DriveModel::Rotating(disk) => disk.capacity_bytes,
        DriveModel::Flash(drive) => drive.capacity_bytes,
    }
}

/// End of the last volume of a group.
fn used_bytes(hardware: &Hardware, group: usize, capacity_bytes: u64) -> u64 {
    let on_it = hardware.volumes.iter().filter(|volume| hardware.group_of(volume.target) == Some(group));
    let ends = on_it.map(|volume| match volume.target {
        Target::Group { first_byte, .. } => first_byte + volume.bytes,
        _ => capacity_bytes,
    });
    ends.max().unwrap_or(0)
}

/// Adds a drive after `drives`, whose models are `known`.
fn new_drive(drive: &Drive, known: &[Drive], drives: &[DriveState], seed: u64) -> DriveState {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(drives.len() as u64);
    let like = drives.iter().zip(known).find(|(_, known)| known.model == drive.model);
    DriveState::new(&drive.model, random, like.map(|(like, _)| like))
}

type Groups = (Vec<Raid>, Vec<Option<(usize, usize)>>);

/// Groups, with the group and slot of each drive.
fn new_groups(hardware: &Hardware, seed: u64) -> Result<Groups, ArrayError> {
    let mut groups = Vec::new();
    let mut drive_slots = vec![None; hardware.drives.len()];
    for (index, group) in hardware.groups.iter().enumerate() {
        let sizes = group.drives.iter().map(|drive| drive_bytes(&hardware.drives[*drive].model));
        let smallest = sizes.min().ok_or_else(|| bad(&group.name, "has no drives"))?;
        let raid = Raid::new(group, smallest, seed ^ index as u64);
        groups.push(raid.map_err(|reason| bad(&group.name, reason))?);
        for (slot, drive) in group.drives.iter().enumerate() {
            drive_slots[*drive] = Some((index, slot));
        }
    }
    Ok((groups, drive_slots))
}

fn new_controller(controller: &Controller) -> ControllerState {
    ControllerState {
        alive: true,
        protected: true,
        cache: controller.write_cache.clone().map(Cache::new),
        gather_due_ns: None,
        waiting: VecDeque::new(),
        command_ns: ns(controller.command_us),
        mb_per_s: controller.mb_per_s,
        acknowledge_ns: ns(controller.acknowledge_us),
        command_free_ns: 0,
        data_free_ns: 0,
        silent_until_ns: 0,
        patrol_next: Vec::new(),
        reads: 0,
        writes: 0,
        hits: 0,
        misses: 0,
        waits: 0,
        dirty_max_bytes: 0,
        busy_ns: 0,
        data_busy_ns: 0,
    }
}

fn new_log_store(hardware: &Hardware, index: usize, groups: &[Raid], drives: &[DriveState]) -> LogStoreState {
    let store = &hardware.log_stores[index];
    let group = &groups[store.group];
    let flash = store.flash.iter().map(|drive| drives[*drive].capacity_bytes()).sum();
    let volumes = hardware.volumes.iter().filter(|volume| volume.target == Target::LogStore { store: index });
    let owner = volumes.clone().next();
    let cache = owner.and_then(|volume| hardware.controllers[volume.owner].write_cache.as_ref());
    let memory = cache.map_or(0, |cache| (cache.bytes as f64 * cache.dirty_max_pct / 100.0) as u64);
    LogStoreState::new(
        store,
        group.capacity_bytes,
        group.data_units * group.element_bytes,
        volumes.map(|volume| volume.bytes).sum(),
        flash,
        memory,
    )
}

fn new_replicated(hardware: &Hardware, index: usize, drives: &[DriveState]) -> ReplicatedState {
    let is_on = |volume: &&VolumePlacement| matches!(volume.target, Target::ReplicatedStore { store, .. } if store == index);
    let volumes: Vec<&VolumePlacement> = hardware.volumes.iter().filter(is_on).collect();
    ReplicatedState::new(&hardware.replicated_stores[index], drives, &volumes)
}

type ReadCaches = (Vec<ReadCacheState>, Vec<Option<InFront>>);

/// Read caches, with the one in front of each group.
fn new_read_caches(
    hardware: &Hardware,
    drives: &[DriveState],
    capacity_of: impl Fn(usize) -> u64,
) -> ReadCaches {
    let mut in_front = vec![None; hardware.groups.len()];
    let read_caches = hardware.read_caches.iter().enumerate().map(|(index, cache)| {
        let mut space_bytes = 0;
        for group in &cache.groups {
            in_front[*group] = Some(InFront { cache: index, base: space_bytes });
            let used_bytes = used_bytes(hardware, *group, capacity_of(*group));
            space_bytes += used_bytes.next_multiple_of(cache.block_bytes);
        }
        let flash_bytes = cache.flash.iter().map(|drive| drives[*drive].capacity_bytes()).sum();
        ReadCacheState::new(cache, space_bytes, flash_bytes)
    });
    (read_caches.collect(), in_front)
}

/// Volumes; those of a store follow each other in its address space.
fn new_volumes(hardware: &Hardware) -> Vec<VolumeState> {
    let mut bases: BTreeMap<(bool, usize), u64> = BTreeMap::new();
    let volumes = hardware.volumes.iter().map(|placement| {
        let base = match placement.target {
            Target::Group { .. } | Target::Thin { .. } => None,
            Target::LogStore { store } => Some(bases.entry((false, store)).or_default()),
            Target::ReplicatedStore { store, .. } => Some(bases.entry((true, store)).or_default()),
        };
        let store_base = base.map_or(0, |base| {
            *base += placement.bytes;
            *base - placement.bytes
        });
        VolumeState {
            space: Space::new(placement.bytes),
            store_base,
            thin: ThinMap::default(),
            streams: new_streams(hardware, placement),
            owner: placement.owner,
            next_path: 0,
            lanes: vec![0; hardware.controllers[placement.owner].acknowledge_lanes as usize],
            statistics: VolumeStatistics::default(),
            placement: placement.clone(),
        }
    });
    volumes.collect()
}

fn new_streams(hardware: &Hardware, placement: &VolumePlacement) -> Streams {
    let controller = &hardware.controllers[placement.owner];
    let ahead_bytes = match placement.target {
        Target::ReplicatedStore { store, .. } => hardware.replicated_stores[store].read_ahead_bytes,
        _ => controller.read_ahead_bytes,
    };
    let (limit, element_bytes) = match placement.target {
        Target::Group { group, first_byte } => {
            (first_byte + placement.bytes, Some(hardware.groups[group].stripe_element_bytes))
        }
        target => {
            let group = hardware.group_of(target).filter(|_| !target.is_store());
            (placement.bytes, group.map(|group| hardware.groups[group].stripe_element_bytes))
        }
    };
    let pause_ns = (controller.read_ahead_pause_ms * 1e6) as u64;
    let slow = element_bytes.filter(|_| pause_ns > 0);
    let slow = slow.map(|element_bytes| SlowStreams { pause_ns, element_bytes });
    Streams::new(ahead_bytes, slow, limit)
}

impl Array {
    /// Builds the array. Equal hardware and seed give equal times.
    pub fn new(hardware: Hardware, seed: u64) -> Result<Array, ArrayError> {
        check(&hardware)?;
        let (groups, drive_slots) = new_groups(&hardware, seed)?;
        let row_bytes = |group: usize| groups[group].data_units * hardware.groups[group].stripe_element_bytes;
        let mut tiering: Vec<Option<TieringState>> = groups.iter().map(|_| None).collect();
        for pool in &hardware.tiered_pools {
            let used_bytes = |capacity_bytes| used_bytes(&hardware, pool.base(), capacity_bytes);
            tiering[pool.base()] = Some(TieringState::new(pool, &groups, row_bytes, used_bytes));
        }
        let capacity_of = |group: usize| capacity_bytes(&groups, &tiering, group);
        check_overlap(&hardware, capacity_of)?;
        let mut drives: Vec<DriveState> = Vec::with_capacity(hardware.drives.len());
        for drive in &hardware.drives {
            drives.push(new_drive(drive, &hardware.drives, &drives, seed));
        }
        let log_stores = 0..hardware.log_stores.len();
        let log_stores = log_stores.map(|index| new_log_store(&hardware, index, &groups, &drives)).collect();
        let replicated = 0..hardware.replicated_stores.len();
        let replicated = replicated.map(|index| new_replicated(&hardware, index, &drives)).collect();
        let thin_pools = hardware.thin_pools.iter().map(|pool| {
            let state = ThinState::new(pool, capacity_of(pool.group), row_bytes(pool.group));
            state.ok_or_else(|| bad(&pool.name, "its group has no room for a chunk"))
        });
        let thin_pools = thin_pools.collect::<Result<Vec<_>, _>>()?;
        let (read_caches, in_front) = new_read_caches(&hardware, &drives, capacity_of);
        let mut array = Array {
            now_ns: 0,
            queue: Queue::new(hardware.drives.len()),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            drives,
            drive_statistics: vec![DriveStatistics::default(); hardware.drives.len()],
            drive_links: hardware.drives.iter().map(|drive| drive.link).collect(),
            links: hardware.links.iter().map(LinkState::new).collect(),
            groups,
            log_stores,
            replicated,
            thin_pools,
            tiering,
            read_caches,
            in_front,
            remote_copies: hardware.remote_copies.iter().map(|_| RemoteCopyState::default()).collect(),
            seed,
            drive_slots,
            controllers: hardware.controllers.iter().map(new_controller).collect(),
            volumes: new_volumes(&hardware),
            rebuilds: Vec::<RebuildState>::new(),
            spares: hardware.spares.iter().copied().collect(),
            attached: Vec::new(),
            issued: Vec::new(),
            free_issued: Vec::new(),
            schedule: Vec::new(),
            stalled: Vec::new(),
            completed: Vec::new(),
            failed: BTreeMap::new(),
            requests_under_way: 0,
            unplaced_requests: 0,
            failed_requests: 0,
            statistics_since_ns: 0,
            done: Vec::new(),
            planned: Vec::new(),
            hardware,
        };
        array.begin_background_work();
        Ok(array)
    }

    /// Schedules the background work that begins at the start.
    fn begin_background_work(&mut self) {
        self.begin_patrols();
        self.begin_snapshots();
        (0..self.hardware.tiered_pools.len()).for_each(|pool| self.plan_relocation(pool));
        (0..self.replicated.len()).for_each(|store| self.look_later(store));
    }

    /// Adds a drive that belongs to no group yet.
    pub(super) fn add_drive(&mut self, drive: Drive) {
        self.queue.add_drive(self.drives.len());
        self.drives.push(new_drive(&drive, &self.hardware.drives, &self.drives, self.seed));
        self.drive_statistics.push(DriveStatistics::default());
        self.drive_links.push(drive.link);
        self.drive_slots.push(None);
        self.hardware.drives.push(drive);
    }

    fn begin_patrols(&mut self) {
        for index in 0..self.controllers.len() {
            if self.hardware.controllers[index].patrol_mb_per_s <= 0.0 {
                continue;
            }
            // A controller patrols the drives of the groups whose volumes it owns.
            let owned = self.hardware.volumes.iter().filter(|volume| volume.owner == index);
            let groups: BTreeSet<usize> =
                owned.filter_map(|volume| self.hardware.group_of(volume.target)).collect();
            let drives = groups.into_iter().flat_map(|group| self.drives_of(group));
            self.controllers[index].patrol_next = drives.map(|drive| (drive, 0)).collect();
            self.at(0, Happening::Patrol(index as u32));
        }
    }
}
