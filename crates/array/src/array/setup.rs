//! From a description to an array: checks of every index and value, then the parts.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use world::FixedHashMap;

use super::cold_data;
use super::log_store::LogStoreState;
use super::read_cache::{self, InFront, ReadCacheState};
use super::rebuild::RebuildState;
use super::remote_copy::RemoteCopyState;
use super::replicated::ReplicatedState;
use super::statistics::{DriveStatistics, VolumeStatistics};
use super::thin::{self, ThinMap, ThinState};
use super::tiering::{self, TieringState, capacity_bytes};
use super::{Array, ControllerState, Happening, VolumeState};
use crate::cache::Cache;
use crate::drive::{self, DriveState};
use crate::error::ArrayError;
use crate::hardware::{Drive, DriveModel, Hardware, Layout, Target, VolumePlacement};
use crate::links::LinkState;
use crate::raid::Raid;
use crate::space::Space;
use crate::streams::{SlowStreams, Streams};

fn bad(part: &str, reason: impl Into<String>) -> ArrayError {
    ArrayError::BadPart { part: part.into(), reason: reason.into() }
}

/// Checks one list's indexes.
struct Known<'a> {
    part: &'a str,
}

impl Known<'_> {
    fn check(&self, kind: &'static str, index: usize, count: usize) -> Result<(), ArrayError> {
        if index < count {
            return Ok(());
        }
        Err(ArrayError::NoSuchPart { part: self.part.into(), kind, index, count })
    }
}

fn check(hardware: &Hardware) -> Result<(), ArrayError> {
    let (drives, links) = (hardware.drives.len(), hardware.links.len());
    let (groups, controllers) = (hardware.groups.len(), hardware.controllers.len());
    for part in &hardware.drives {
        let known = Known { part: &part.name };
        part.link.map_or(Ok(()), |link| known.check("link", link, links))?;
        drive::check(&part.model).map_err(|reason| bad(&part.name, reason))?;
    }
    let mut owner_of_drive: BTreeMap<usize, String> = BTreeMap::new();
    let mut take = |part: &str, drive: usize| match owner_of_drive.insert(drive, part.into()) {
        Some(other) => Err(bad(part, format!("drive {drive} belongs to {other}, too"))),
        None => Ok(()),
    };
    for group in &hardware.groups {
        let known = Known { part: &group.name };
        for drive in &group.drives {
            known.check("drive", *drive, drives)?;
            take(&group.name, *drive)?;
        }
    }
    for store in &hardware.log_stores {
        let known = Known { part: &store.name };
        known.check("group", store.group, groups)?;
        for drive in &store.flash {
            known.check("drive", *drive, drives)?;
            take(&store.name, *drive)?;
        }
        if !(store.stored_per_written > 0.0
            && store.block_bytes >= 4096
            && store.segment_bytes > 0
            && store.cache_regions > 0)
        {
            return Err(bad(
                &store.name,
                "stored_per_written, block_bytes (4096 at least), segment_bytes and cache_regions must be set",
            ));
        }
    }
    for store in &hardware.replicated_stores {
        let known = Known { part: &store.name };
        for node in &store.nodes {
            known.check("link", node.link, links)?;
            for drive in node.flash.iter().chain(&node.disks) {
                known.check("drive", *drive, drives)?;
                take(&store.name, *drive)?;
            }
            if node.flash.is_empty() {
                return Err(bad(&store.name, "every node needs flash for its write log"));
            }
        }
        if !store.moves_mb_per_s.is_finite() || store.moves_mb_per_s < 0.0 || store.tier_regions == 0 {
            return Err(bad(
                &store.name,
                "moves_mb_per_s is negative or not a number, or there are no tier_regions",
            ));
        }
        let looks = [store.slow_drive_factor, store.slow_drive_s];
        if looks.iter().any(|number| !number.is_finite() || *number < 0.0)
            || (store.slow_drive_factor > 0.0 && (store.slow_drive_factor <= 1.0 || store.slow_drive_s < 1.0))
        {
            return Err(bad(
                &store.name,
                "slow_drive_factor is 0 or above 1, slow_drive_s 1 at least where drives are compared",
            ));
        }
        cold_data::check(store).map_err(|reason| bad(&store.name, reason))?;
        if store.replicas == 0 || store.nodes.len() < store.replicas as usize || store.extent_bytes < 65536 {
            return Err(bad(&store.name, "needs as many nodes as replicas, and extents of 64 KiB at least"));
        }
    }
    let mut tiers = BTreeSet::new();
    for pool in &hardware.tiered_pools {
        pool.tiers.iter().try_for_each(|tier| Known { part: "tiers" }.check("group", *tier, groups))?;
        let name = &hardware.groups[pool.base()].name;
        tiering::check(pool).map_err(|reason| bad(name, reason))?;
        for tier in &pool.tiers {
            let is_pool = matches!(hardware.groups[*tier].layout, Layout::DynamicPool { .. });
            let is_log = hardware.log_stores.iter().any(|store| store.group == *tier);
            let on_it = hardware.volumes.iter().any(|volume| hardware.group_of(volume.target) == Some(*tier));
            if is_pool || is_log || !tiers.insert(*tier) || (on_it && *tier != pool.base()) {
                let reason =
                    "a tier is a RAID group of one pool; volumes lie on the last one, which stands for all";
                return Err(bad(name, reason));
            }
        }
    }
    for pool in &hardware.thin_pools {
        Known { part: &pool.name }.check("group", pool.group, groups)?;
        thin::check(pool).map_err(|reason| bad(&pool.name, reason))?;
        let others = hardware.volumes.iter().any(|volume| match volume.target {
            Target::Thin { .. } => false,
            target => hardware.group_of(target) == Some(pool.group),
        });
        if others || hardware.thin_pools.iter().filter(|other| other.group == pool.group).count() > 1 {
            return Err(bad(&pool.name, "its group holds something else, too"));
        }
    }
    if hardware.clone_reads.read_bytes < 4096 || hardware.clone_reads.reads == 0 {
        return Err(bad("clone_reads", "needs reads of 4096 bytes at least, and one at a time"));
    }
    let mut cached = BTreeSet::new();
    for cache in &hardware.read_caches {
        let known = Known { part: &cache.name };
        read_cache::check(cache).map_err(|reason| bad(&cache.name, reason))?;
        for drive in &cache.flash {
            known.check("drive", *drive, drives)?;
            take(&cache.name, *drive)?;
            if !matches!(hardware.drives[*drive].model, DriveModel::Flash(_)) {
                return Err(bad(&cache.name, "a read cache is made of flash drives"));
            }
        }
        for group in &cache.groups {
            known.check("group", *group, groups)?;
            if !cached.insert(*group) || hardware.log_stores.iter().any(|store| store.group == *group) {
                return Err(bad(
                    &cache.name,
                    "one of its groups has a read cache, or is a log-structured store, already",
                ));
            }
        }
    }
    for copy in &hardware.remote_copies {
        let known = Known { part: "remote copy" };
        known.check("link", copy.link, links)?;
        copy.volumes.iter().try_for_each(|volume| known.check("volume", *volume, hardware.volumes.len()))?;
        if copy.region_bytes < 4096 || !(copy.acknowledge_us >= 0.0 && copy.acknowledge_us.is_finite()) {
            return Err(bad(
                "remote copy",
                "needs regions of 4096 bytes at least, and a time to acknowledge",
            ));
        }
        if copy.volumes.iter().any(|volume| hardware.volumes[*volume].target.is_store()) {
            return Err(bad(
                "remote copy",
                "volumes of a store are not modelled with a copy at another site",
            ));
        }
    }
    for spare in &hardware.spares {
        Known { part: "spares" }.check("drive", *spare, drives)?;
        take("spares", *spare)?;
    }
    for controller in &hardware.controllers {
        let known = Known { part: &controller.name };
        controller.partner.map_or(Ok(()), |partner| known.check("controller", partner, controllers))?;
        let times = [
            controller.command_us,
            controller.mb_per_s,
            controller.acknowledge_us,
            controller.failover_ms,
            controller.patrol_mb_per_s,
        ];
        if times.iter().any(|time| !time.is_finite() || *time < 0.0) {
            return Err(bad(&controller.name, "a time or rate is negative or not a number"));
        }
        if let Some(cache) = &controller.write_cache
            && !(cache.dirty_max_pct > 0.0 && cache.dirty_max_pct <= 100.0 && cache.gather_ms >= 0.0)
        {
            return Err(bad(
                &controller.name,
                "dirty_max_pct lies above 0 and up to 100, gather_ms at 0 or above",
            ));
        }
    }
    for link in &hardware.links {
        let numbers = [link.latency_us, link.mb_per_s, link.command_us];
        if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
            return Err(bad(&link.name, "a time or rate is negative or not a number"));
        }
    }
    let mut names = BTreeSet::new();
    for volume in &hardware.volumes {
        let part = format!("{}:{}", volume.host, volume.path);
        let known = Known { part: &part };
        if !names.insert((&volume.host, &volume.path)) {
            return Err(bad(&part, "is placed twice"));
        }
        if volume.bytes < 4096 {
            return Err(bad(&part, format!("holds {} bytes: it must hold 4096 at least", volume.bytes)));
        }
        known.check("controller", volume.owner, controllers)?;
        for path in &volume.paths {
            known.check("controller", path.controller, controllers)?;
            path.links.iter().try_for_each(|link| known.check("link", *link, links))?;
        }
        if !volume.paths.is_empty() && !volume.paths.iter().any(|path| path.controller == volume.owner) {
            return Err(bad(&part, "no path leads to its owner"));
        }
        match volume.target {
            Target::Group { group, .. } => known.check("group", group, groups)?,
            Target::Thin { pool } => known.check("thin pool", pool, hardware.thin_pools.len())?,
            Target::LogStore { store } => known.check("log store", store, hardware.log_stores.len())?,
            Target::ReplicatedStore { store, node } => {
                known.check("replicated store", store, hardware.replicated_stores.len())?;
                known.check("node", node, hardware.replicated_stores[store].nodes.len())?;
            }
        }
    }
    Ok(())
}

fn check_overlap(hardware: &Hardware, capacity_of: impl Fn(usize) -> u64) -> Result<(), ArrayError> {
    let mut slices: Vec<(usize, u64, u64, String)> = Vec::new();
    for volume in &hardware.volumes {
        if let Target::Group { group, first_byte } = volume.target {
            let name = format!("{}:{}", volume.host, volume.path);
            let (end, capacity) = (first_byte + volume.bytes, capacity_of(group));
            if end > capacity {
                let group = &hardware.groups[group].name;
                let reason = format!("ends at byte {end} of {group}, which has {capacity}: make it smaller");
                return Err(bad(&name, reason));
            }
            slices.push((group, first_byte, end, name));
        }
    }
    slices.sort();
    for pair in slices.windows(2) {
        if pair[0].0 == pair[1].0 && pair[0].2 > pair[1].1 {
            return Err(bad(&pair[1].3, format!("overlaps {} on the same group", pair[0].3)));
        }
    }
    Ok(())
}

fn drive_bytes(model: &DriveModel) -> u64 {
    match model {
        DriveModel::Rotating(disk) => disk.capacity_bytes,
        DriveModel::Flash(drive) => drive.capacity_bytes,
    }
}

/// Where the last volume of a group ends.
fn used_bytes(hardware: &Hardware, group: usize, capacity_bytes: u64) -> u64 {
    let on_it = hardware.volumes.iter().filter(|volume| hardware.group_of(volume.target) == Some(group));
    let ends = on_it.map(|volume| match volume.target {
        Target::Group { first_byte, .. } => first_byte + volume.bytes,
        _ => capacity_bytes,
    });
    ends.max().unwrap_or(0)
}

fn new_drive(drive: &Drive, index: usize, seed: u64) -> DriveState {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(index as u64);
    DriveState::new(&drive.model, random)
}

impl Array {
    /// Builds the array; equal hardware and seed give equal times.
    pub fn new(hardware: Hardware, seed: u64) -> Result<Array, ArrayError> {
        check(&hardware)?;
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
        let row_bytes = |group: usize| groups[group].data_units * hardware.groups[group].stripe_element_bytes;
        let mut tiering: Vec<Option<TieringState>> = groups.iter().map(|_| None).collect();
        for pool in &hardware.tiered_pools {
            let used_bytes = |capacity_bytes| used_bytes(&hardware, pool.base(), capacity_bytes);
            tiering[pool.base()] = Some(TieringState::new(pool, &groups, row_bytes, used_bytes));
        }
        let capacity_of = |group: usize| capacity_bytes(&groups, &tiering, group);
        check_overlap(&hardware, capacity_of)?;
        let drives = hardware.drives.iter().enumerate();
        let drives = drives.map(|(index, drive)| new_drive(drive, index, seed));
        let controllers = hardware.controllers.iter().map(|controller| ControllerState {
            alive: true,
            protected: true,
            cache: controller.write_cache.clone().map(Cache::new),
            gather_due_ns: None,
            waiting: VecDeque::new(),
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
        });
        let drives: Vec<DriveState> = drives.collect();
        let log_stores = hardware.log_stores.iter().enumerate().map(|(index, store)| {
            let group: &Raid = &groups[store.group];
            let flash = store.flash.iter().map(|drive| drives[*drive].capacity_bytes()).sum();
            let volumes =
                hardware.volumes.iter().filter(|volume| volume.target == Target::LogStore { store: index });
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
        });
        let log_stores = log_stores.collect();
        let replicated = hardware.replicated_stores.iter().enumerate().map(|(index, store)| {
            let is_on = |volume: &&VolumePlacement| {
                matches!(volume.target, Target::ReplicatedStore { store, .. } if store == index)
            };
            let volumes: Vec<&VolumePlacement> = hardware.volumes.iter().filter(is_on).collect();
            ReplicatedState::new(store, &drives, &volumes)
        });
        let replicated = replicated.collect();
        let thin_pools = hardware.thin_pools.iter().map(|pool| {
            let state = ThinState::new(pool, capacity_of(pool.group), row_bytes(pool.group));
            state.ok_or_else(|| bad(&pool.name, "its group has no room for a chunk"))
        });
        let thin_pools = thin_pools.collect::<Result<Vec<_>, _>>()?;
        let mut in_front = vec![None; groups.len()];
        let read_caches = hardware.read_caches.iter().enumerate().map(|(index, cache)| {
            let mut space_bytes = 0;
            for group in &cache.groups {
                in_front[*group] = Some(InFront { cache: index, base: space_bytes });
                let used_bytes = used_bytes(&hardware, *group, capacity_of(*group));
                space_bytes += used_bytes.next_multiple_of(cache.block_bytes);
            }
            let flash_bytes = cache.flash.iter().map(|drive| drives[*drive].capacity_bytes()).sum();
            ReadCacheState::new(cache, space_bytes, flash_bytes)
        });
        let read_caches = read_caches.collect();
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
            VolumeState {
                space: Space::new(placement.bytes),
                store_base,
                thin: ThinMap::default(),
                streams: Streams::new(ahead_bytes, slow, limit),
                owner: placement.owner,
                next_path: 0,
                lanes: vec![0; controller.acknowledge_lanes as usize],
                statistics: VolumeStatistics::default(),
                placement: placement.clone(),
            }
        });
        let volumes = volumes.collect();
        let mut array = Array {
            now_ns: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            drives,
            drive_statistics: vec![DriveStatistics::default(); hardware.drives.len()],
            drive_scheduled_ns: vec![0; hardware.drives.len()],
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
            controllers: controllers.collect(),
            volumes,
            rebuilds: Vec::<RebuildState>::new(),
            spares: hardware.spares.iter().copied().collect(),
            attached: FixedHashMap::default(),
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
        array.begin_patrols();
        array.begin_snapshots();
        (0..array.hardware.tiered_pools.len()).for_each(|pool| array.plan_relocation(pool));
        (0..array.replicated.len()).for_each(|store| array.look_later(store));
        Ok(array)
    }

    /// Puts in a drive that belongs to nothing yet.
    pub(super) fn add_drive(&mut self, drive: Drive) {
        self.drives.push(new_drive(&drive, self.drives.len(), self.seed));
        self.drive_statistics.push(DriveStatistics::default());
        self.drive_scheduled_ns.push(0);
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
