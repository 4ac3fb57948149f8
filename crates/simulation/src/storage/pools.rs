//! Pools that volumes share, as groups, thin pools or stores of [`array::Hardware`], and the flash in front of groups.
//!
//! * Of a pool that is a group volumes are cut one behind the other, in the order of the hosts and their
//!   volumes, each from the begin of a row on; of a thin pool they take chunks.
//! * A store knows what the databases of all tested hosts of its place hold, also of those that take no part.
//! * A pool with a faster tier is two groups; its disks stand for both.
//!
//! Limits: a pool is one group of each kind of disk; all pools of a solution keep data alike.

use std::collections::BTreeSet;

use array::{DriveModel, Layout, LogStore, ReadCache, Snapshots, Target, ThinPool, TieredPool};
use solution::{Behind, Store, VolumeInfo, fits, gib_of_disks};

use super::{Builder, Outcome, layout};

const GIB: f64 = (1u64 << 30) as f64;

impl Builder<'_> {
    /// Reserves room for a volume in its pool.
    pub(super) fn in_pool(
        &mut self,
        number: usize,
        place: &str,
        pool: usize,
        (info, bytes): (&VolumeInfo, u64),
        at: &str,
    ) -> Outcome<Target> {
        match &self.spec.store {
            Some(Store::LogStructured { model, cache_disk, cache_disks }) => {
                let cache = (cache_disk.as_str(), *cache_disks);
                let store =
                    self.shared(place, pool, |builder| builder.log_store(place, pool, model, cache))?;
                Ok(Target::LogStore { store })
            }
            Some(Store::Replicated(spec)) => {
                let store =
                    self.shared(place, pool, |builder| builder.replicated_store(place, pool, spec))?;
                Ok(Target::ReplicatedStore { store, node: number % spec.nodes as usize })
            }
            Some(Store::DynamicPool { .. }) | None => self.in_group(place, pool, (info, bytes), at),
        }
    }

    /// Store or RAID group of a pool at a place; created when its first volume needs it.
    fn shared(
        &mut self,
        place: &str,
        pool: usize,
        make: impl FnOnce(&mut Self) -> Outcome<usize>,
    ) -> Outcome<usize> {
        let key = (place.to_owned(), pool);
        if let Some(known) = self.pools.get(&key) {
            return Ok(*known);
        }
        let made = make(self)?;
        self.pools.insert(key, made);
        Ok(made)
    }

    /// Reserves room for a volume in a pool that is a RAID group.
    fn in_group(
        &mut self,
        place: &str,
        pool: usize,
        (info, bytes): (&VolumeInfo, u64),
        at: &str,
    ) -> Outcome<Target> {
        let group = self.shared(place, pool, |builder| builder.pool_group(place, pool))?;
        let described = &self.solution.pools[pool];
        let Some(chunk_kib) = described.thin_chunk_kib else { return self.cut(group, bytes, info, at) };
        if let Some(pool) = self.hardware.thin_pools.iter().position(|thin| thin.group == group) {
            return Ok(Target::Thin { pool });
        }
        let snapshots = described
            .snapshots
            .map(|snapshots| Snapshots { every_s: snapshots.every_min * 60.0, keep: snapshots.keep });
        let name = self.hardware.groups[group].name.clone();
        self.hardware.thin_pools.push(ThinPool { name, group, chunk_bytes: chunk_kib << 10, snapshots });
        Ok(Target::Thin { pool: self.hardware.thin_pools.len() - 1 })
    }

    /// RAID group of a pool, and that of its faster tier.
    fn pool_group(&mut self, place: &str, pool: usize) -> Outcome<usize> {
        let (described, path) = (&self.solution.pools[pool], format!("pool[{pool}]"));
        let layout_of_pool = match &self.spec.store {
            Some(Store::DynamicPool { model, spare_disks }) => {
                let kind = self.assumptions.dynamic_pool(model);
                let kind = kind.map_err(|error| self.bad("array.store.model", error))?;
                Layout::DynamicPool {
                    width: kind.width,
                    piece_bytes: kind.piece_bytes,
                    spare_drives: *spare_disks,
                }
            }
            _ => layout(described.raid),
        };
        let name = format!("{place} {}", described.name);
        let element_bytes = self.stripe_element_bytes();
        let drives = self.add_drives(&self.solution.disks[described.disk], described.disks, &name, &path)?;
        let group = self.add_group(&name, layout_of_pool, drives, element_bytes);
        if let (Some(fast), Some(tiering)) = (described.fast, &described.tiering) {
            let settings = self.assumptions.tiering(&tiering.model);
            let settings = settings.map_err(|error| self.bad(&format!("{path}.tiering.model"), error))?;
            let name = format!("{name} fast");
            let drives = self.add_drives(&self.solution.disks[fast.disk], fast.disks, &name, &path)?;
            let tiers = vec![self.add_group(&name, layout(tiering.raid), drives, element_bytes), group];
            let (every_s, settled) = (tiering.every_min * 60.0, tiering.settled);
            self.hardware.tiered_pools.push(TieredPool { tiers, every_s, settled, ..settings });
        }
        Ok(group)
    }

    /// Reserves the next part of a RAID group that serves as a pool.
    fn cut(&mut self, group: usize, bytes: u64, info: &VolumeInfo, at: &str) -> Outcome<Target> {
        let (capacity, row) = (self.group_bytes(group), self.row_bytes(group));
        let taken = self.taken_bytes.entry(group).or_default();
        let first_byte = *taken;
        *taken = first_byte + bytes.next_multiple_of(row);
        if first_byte + bytes > capacity {
            let message = format!(
                "volume `{}` of {:.1} GiB does not fit into {}: {:.1} of {:.1} GiB are taken",
                info.name,
                bytes as f64 / GIB,
                self.hardware.groups[group].name,
                first_byte.min(capacity) as f64 / GIB,
                capacity as f64 / GIB
            );
            return Err(self.solution.error(&format!("{at}.capacity_gib"), message, None));
        }
        Ok(Target::Group { group, first_byte })
    }

    fn log_store(
        &mut self,
        place: &str,
        pool: usize,
        model: &str,
        (cache_disk, cache_disks): (&str, u32),
    ) -> Outcome<usize> {
        let described = &self.solution.pools[pool];
        let name = format!("{place} {}", described.name);
        let drives = self.add_drives(
            &self.solution.disks[described.disk],
            described.disks,
            &name,
            &format!("pool[{pool}]"),
        )?;
        let store = self.assumptions.log_store(model).map_err(|error| self.bad("array.store", error))?;
        let stated_kib = self.spec.stripe_element_kib_of_store();
        let element_bytes = stated_kib.map_or(store.stripe_element_bytes, |kib| kib << 10);
        let group = self.add_group(&name, layout(described.raid), drives, element_bytes);
        let flash = self.add_drives(
            self.solution.disk(cache_disk),
            cache_disks,
            &format!("{name} flash"),
            "array.store",
        )?;
        self.check_log_store(place, pool, store.stored_per_written)?;
        let resident_bytes = self.resident_bytes(place);
        self.hardware.log_stores.push(LogStore { name, group, flash, resident_bytes, ..store });
        Ok(self.hardware.log_stores.len() - 1)
    }

    /// Refuses databases that are larger than a log-structured store, after the reduction that its kind achieves.
    /// Other pools are checked when the file is read.
    fn check_log_store(&self, place: &str, pool: usize, stored_per_written: f64) -> Outcome<()> {
        let solution = self.solution;
        let hosts = solution.hosts_under_test().into_iter().filter(|host| solution.place_of(host) == place);
        let volumes = hosts.flat_map(|host| host.volumes.iter().map(move |volume| (host, volume)));
        let held = volumes.filter(|(_, volume)| solution.volumes[volume.kind].behind == Behind::Pool(pool));
        let bytes: u64 = held.map(|(host, volume)| host.database_bytes(Some(&volume.name))).sum();
        let described = &self.solution.pools[pool];
        let capacity_gb = self.solution.disks[described.disk].capacity_gb;
        let holds_gib = gib_of_disks(capacity_gb, described.disks, described.raid, described.group_disks);
        let needs_gib = bytes as f64 / GIB * stored_per_written;
        if fits(needs_gib, holds_gib) {
            return Ok(());
        }
        let message = format!(
            "databases of {needs_gib:.1} GiB do not fit into pool `{}` of {holds_gib:.1} GiB",
            described.name
        );
        let help = "more or larger disks, or smaller databases ([sizing])";
        Err(self.solution.error(&format!("pool[{pool}].disks"), message, Some(help.into())))
    }

    /// Bytes of the databases of all tested hosts at a place, also of those outside this simulation.
    pub(super) fn resident_bytes(&self, place: &str) -> u64 {
        let hosts = self.solution.hosts_under_test();
        let here = hosts.iter().filter(|host| self.solution.place_of(host) == place);
        here.map(|host| host.database_bytes(None)).sum()
    }

    /// Adds the flash read caches, one for each array.
    pub(super) fn add_read_caches(&mut self) -> Outcome<()> {
        let Some(spec) = &self.spec.read_cache else { return Ok(()) };
        let at = "array.read_cache";
        let settings = self.assumptions.read_cache("default").map_err(|error| self.bad(at, error))?;
        for (place, controllers) in self.arrays.clone() {
            let volumes = self.hardware.volumes.iter().filter(|volume| controllers.contains(&volume.owner));
            let groups: BTreeSet<usize> = volumes
                .filter_map(|volume| match volume.target {
                    Target::Group { group, .. } => Some(group),
                    Target::Thin { pool } => Some(self.hardware.thin_pools[pool].group),
                    _ => None,
                })
                .collect();
            let name = format!("{place} read cache");
            let flash = self.add_drives(self.solution.disk(&spec.disk), spec.disks, &name, at)?;
            if flash.iter().any(|drive| matches!(self.hardware.drives[*drive].model, DriveModel::Rotating(_)))
            {
                let message = format!("`{}` is not a flash drive", spec.disk);
                return Err(self.solution.error(&format!("{at}.disk"), message, None));
            }
            let resident_bytes = self.resident_bytes(&place);
            let groups = groups.into_iter().collect();
            self.hardware.read_caches.push(ReadCache {
                name,
                groups,
                flash,
                resident_bytes,
                ..settings.clone()
            });
        }
        Ok(())
    }
}
