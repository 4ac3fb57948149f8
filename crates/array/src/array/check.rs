//! Checks of a description: every index and value, and what two parts cannot share.

use std::collections::{BTreeMap, BTreeSet};

use super::{cold_data, read_cache, thin, tiering};
use crate::drive;
use crate::error::ArrayError;
use crate::hardware::{DriveModel, Hardware, Layout, ReplicatedStore, Target, VolumePlacement};

pub(super) fn bad(part: &str, reason: impl Into<String>) -> ArrayError {
    ArrayError::BadPart { part: part.into(), reason: reason.into() }
}

/// Checks that the index of `part` refers to an existing part.
fn known(part: &str, kind: &'static str, index: usize, count: usize) -> Result<(), ArrayError> {
    if index < count {
        return Ok(());
    }
    Err(ArrayError::NoSuchPart { part: part.into(), kind, index, count })
}

fn is_negative_or_no_number(number: &f64) -> bool {
    !number.is_finite() || *number < 0.0
}

/// Owner of each drive: a drive belongs to one part at most.
struct Owners {
    drives: usize,
    owner_of: BTreeMap<usize, String>,
}

impl Owners {
    fn take<'a>(
        &mut self,
        part: &str,
        drives: impl IntoIterator<Item = &'a usize>,
    ) -> Result<(), ArrayError> {
        for drive in drives {
            known(part, "drive", *drive, self.drives)?;
            if let Some(other) = self.owner_of.insert(*drive, part.into()) {
                return Err(bad(part, format!("drive {drive} belongs to {other}, too")));
            }
        }
        Ok(())
    }
}

pub(super) fn check(hardware: &Hardware) -> Result<(), ArrayError> {
    let mut owners = Owners { drives: hardware.drives.len(), owner_of: BTreeMap::new() };
    check_drives(hardware)?;
    hardware.groups.iter().try_for_each(|group| owners.take(&group.name, &group.drives))?;
    check_log_stores(hardware, &mut owners)?;
    for store in &hardware.replicated_stores {
        check_replicated_store(store, hardware.links.len(), &mut owners)?;
    }
    check_tiered_pools(hardware)?;
    check_thin_pools(hardware)?;
    check_read_caches(hardware, &mut owners)?;
    check_remote_copies(hardware)?;
    owners.take("spares", &hardware.spares)?;
    check_controllers(hardware)?;
    check_links(hardware)?;
    let mut names = BTreeSet::new();
    for volume in &hardware.volumes {
        let part = format!("{}:{}", volume.host, volume.path);
        if !names.insert((&volume.host, &volume.path)) {
            return Err(bad(&part, "is placed twice"));
        }
        check_volume(hardware, volume, &part)?;
    }
    Ok(())
}

fn check_drives(hardware: &Hardware) -> Result<(), ArrayError> {
    for part in &hardware.drives {
        part.link.map_or(Ok(()), |link| known(&part.name, "link", link, hardware.links.len()))?;
        drive::check(&part.model).map_err(|reason| bad(&part.name, reason))?;
    }
    Ok(())
}

fn check_log_stores(hardware: &Hardware, owners: &mut Owners) -> Result<(), ArrayError> {
    for store in &hardware.log_stores {
        known(&store.name, "group", store.group, hardware.groups.len())?;
        owners.take(&store.name, &store.flash)?;
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
    Ok(())
}

fn check_replicated_store(
    store: &ReplicatedStore,
    links: usize,
    owners: &mut Owners,
) -> Result<(), ArrayError> {
    for node in &store.nodes {
        known(&store.name, "link", node.link, links)?;
        owners.take(&store.name, node.flash.iter().chain(&node.disks))?;
        if node.flash.is_empty() {
            return Err(bad(&store.name, "every node needs flash for its write log"));
        }
    }
    if is_negative_or_no_number(&store.moves_mb_per_s) || store.tier_regions == 0 {
        return Err(bad(
            &store.name,
            "moves_mb_per_s is negative or not a number, or there are no tier_regions",
        ));
    }
    if [store.slow_drive_factor, store.slow_drive_s].iter().any(is_negative_or_no_number)
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
    Ok(())
}

fn check_tiered_pools(hardware: &Hardware) -> Result<(), ArrayError> {
    let mut tiers = BTreeSet::new();
    for pool in &hardware.tiered_pools {
        pool.tiers.iter().try_for_each(|tier| known("tiers", "group", *tier, hardware.groups.len()))?;
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
    Ok(())
}

fn check_thin_pools(hardware: &Hardware) -> Result<(), ArrayError> {
    for pool in &hardware.thin_pools {
        known(&pool.name, "group", pool.group, hardware.groups.len())?;
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
    Ok(())
}

fn check_read_caches(hardware: &Hardware, owners: &mut Owners) -> Result<(), ArrayError> {
    let mut cached = BTreeSet::new();
    for cache in &hardware.read_caches {
        read_cache::check(cache).map_err(|reason| bad(&cache.name, reason))?;
        owners.take(&cache.name, &cache.flash)?;
        if cache.flash.iter().any(|drive| !matches!(hardware.drives[*drive].model, DriveModel::Flash(_))) {
            return Err(bad(&cache.name, "a read cache is made of flash drives"));
        }
        for group in &cache.groups {
            known(&cache.name, "group", *group, hardware.groups.len())?;
            if !cached.insert(*group) || hardware.log_stores.iter().any(|store| store.group == *group) {
                return Err(bad(
                    &cache.name,
                    "one of its groups has a read cache, or is a log-structured store, already",
                ));
            }
        }
    }
    Ok(())
}

fn check_remote_copies(hardware: &Hardware) -> Result<(), ArrayError> {
    const PART: &str = "remote copy";
    for copy in &hardware.remote_copies {
        known(PART, "link", copy.link, hardware.links.len())?;
        copy.volumes.iter().try_for_each(|volume| known(PART, "volume", *volume, hardware.volumes.len()))?;
        if copy.region_bytes < 4096 || is_negative_or_no_number(&copy.acknowledge_us) {
            return Err(bad(PART, "needs regions of 4096 bytes at least, and a time to acknowledge"));
        }
        if copy.volumes.iter().any(|volume| hardware.volumes[*volume].target.is_store()) {
            return Err(bad(PART, "volumes of a store are not modelled with a copy at another site"));
        }
    }
    Ok(())
}

fn check_controllers(hardware: &Hardware) -> Result<(), ArrayError> {
    let count = hardware.controllers.len();
    for controller in &hardware.controllers {
        let name = &controller.name;
        controller.partner.map_or(Ok(()), |partner| known(name, "controller", partner, count))?;
        let times = [
            controller.command_us,
            controller.mb_per_s,
            controller.acknowledge_us,
            controller.failover_ms,
            controller.patrol_mb_per_s,
        ];
        if times.iter().any(is_negative_or_no_number) {
            return Err(bad(name, "a time or rate is negative or not a number"));
        }
        if let Some(cache) = &controller.write_cache
            && !(cache.dirty_max_pct > 0.0 && cache.dirty_max_pct <= 100.0 && cache.gather_ms >= 0.0)
        {
            return Err(bad(name, "dirty_max_pct lies above 0 and up to 100, gather_ms at 0 or above"));
        }
    }
    Ok(())
}

fn check_links(hardware: &Hardware) -> Result<(), ArrayError> {
    for link in &hardware.links {
        if [link.latency_us, link.mb_per_s, link.command_us].iter().any(is_negative_or_no_number) {
            return Err(bad(&link.name, "a time or rate is negative or not a number"));
        }
    }
    Ok(())
}

fn check_volume(hardware: &Hardware, volume: &VolumePlacement, part: &str) -> Result<(), ArrayError> {
    if volume.bytes < 4096 {
        return Err(bad(part, format!("holds {} bytes: it must hold 4096 at least", volume.bytes)));
    }
    let (controllers, links) = (hardware.controllers.len(), hardware.links.len());
    known(part, "controller", volume.owner, controllers)?;
    for path in &volume.paths {
        known(part, "controller", path.controller, controllers)?;
        path.links.iter().try_for_each(|link| known(part, "link", *link, links))?;
    }
    if !volume.paths.is_empty() && !volume.paths.iter().any(|path| path.controller == volume.owner) {
        return Err(bad(part, "no path leads to its owner"));
    }
    match volume.target {
        Target::Group { group, .. } => known(part, "group", group, hardware.groups.len()),
        Target::Thin { pool } => known(part, "thin pool", pool, hardware.thin_pools.len()),
        Target::LogStore { store } => known(part, "log store", store, hardware.log_stores.len()),
        Target::ReplicatedStore { store, node } => {
            known(part, "replicated store", store, hardware.replicated_stores.len())?;
            known(part, "node", node, hardware.replicated_stores[store].nodes.len())
        }
    }
}

/// Checks that volumes lie within their groups and do not overlap.
pub(super) fn check_overlap(
    hardware: &Hardware,
    capacity_of: impl Fn(usize) -> u64,
) -> Result<(), ArrayError> {
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
