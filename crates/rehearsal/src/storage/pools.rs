//! Pools that volumes share, as groups, thin pools or stores of [`array::Hardware`], and the flash in front of groups.
//!
//! * Of a pool that is a group volumes are cut one behind the other, in the order of the hosts and their volumes, each from the
//!   begin of a row on; of a thin pool they take chunks.
//! * A store knows what the databases of all tested hosts of its place hold, also of those that take no part.
//!
//! * A pool with a faster tier is two groups; its disks stand for both.
//!
//! Limits: a pool is one group of each kind of disk; all pools of a solution keep data alike.

use std::collections::BTreeSet;

use array::{DriveModel, Layout, LogStore, ReadCache, Snapshots, Target, ThinPool, TieredPool};
use solution::{Store, VolumeInfo};

use super::{Builder, Outcome, STRIPE_ELEMENT_BYTES};

impl Builder<'_> {
    /// The store, or the group, that a pool is at a place: made when its first volume asks for it.
    pub(super) fn shared(
        &mut self,
        place: &str,
        pool: &str,
        make: impl FnOnce(&mut Self) -> Outcome<usize>,
    ) -> Outcome<usize> {
        let key = (place.to_owned(), pool.to_owned());
        if let Some(known) = self.pools.get(&key) {
            return Ok(*known);
        }
        let made = make(self)?;
        self.pools.insert(key, made);
        Ok(made)
    }

    /// Room for a volume in a pool that is a group, of this layout or that of its protection.
    pub(super) fn in_pool(
        &mut self,
        place: &str,
        pool: &str,
        layout: Option<Layout>,
        (info, bytes): (&VolumeInfo, u64),
        at: &str,
    ) -> Outcome<Target> {
        let group = self.shared(place, pool, |builder| builder.pool_group(place, pool, layout, at))?;
        let described = self.solution.pool(pool, at)?;
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

    /// The group that a pool is, of this layout or that of its protection.
    fn pool_group(&mut self, place: &str, pool: &str, layout: Option<Layout>, at: &str) -> Outcome<usize> {
        let described = self.solution.pool(pool, at)?.clone();
        let entry = self.solution.file.pool.iter().position(|known| known.name == pool).unwrap_or_default();
        let refuse = |field: &str, message: &str, help: &str| {
            Err(self.solution.error(&format!("pool[{entry}].{field}"), message, Some(help.into())))
        };
        if layout.is_none() && described.group_disks.is_some_and(|disks| disks != described.disks) {
            return refuse(
                "group_disks",
                "one pool is modelled as one group",
                "describe each group as a pool",
            );
        }
        let fast = described.fast_disk.as_ref().zip(described.fast_disks.filter(|disks| *disks > 0));
        match (fast, &described.tiering) {
            (Some(_), None) => {
                return refuse("fast_disks", "two kinds of disks are modelled with tiering", "add tiering");
            }
            (None, Some(_)) => {
                return refuse("tiering", "needs a faster tier", "add fast_disk and fast_disks");
            }
            (Some(_), Some(_)) if layout.is_some() => {
                return refuse("tiering", "tiers are RAID groups, no dynamic pools", "leave store out");
            }
            _ => {}
        }
        if described.snapshots.is_some() && described.thin_chunk_kib.is_none() {
            return refuse("snapshots", "snapshots are modelled in chunks", "add thin_chunk_kib");
        }
        let layout = layout.map_or_else(|| self.layout(described.raid, &format!("pool[{entry}]")), Ok)?;
        let name = format!("{place} {pool}");
        let drives = self.add_drives(&described.disk, described.disks, &name, &format!("pool[{entry}]"))?;
        let group = self.add_group(&name, layout, drives, STRIPE_ELEMENT_BYTES);
        if let (Some((disk, disks)), Some(tiering)) = (fast, &described.tiering) {
            let path = format!("pool[{entry}]");
            let settings = self.assumptions.tiering(&tiering.model);
            let settings = settings.map_err(|error| self.bad(&format!("{path}.tiering.model"), error))?;
            let raid = tiering.raid.map(|raid| self.layout(raid, &format!("{path}.tiering")));
            let layout = raid.unwrap_or(Ok(layout))?;
            let name = format!("{name} fast");
            let drives = self.add_drives(disk, disks, &name, &path)?;
            let tiers = vec![self.add_group(&name, layout, drives, STRIPE_ELEMENT_BYTES), group];
            let (every_s, settled) = (tiering.every_min * 60.0, tiering.settled);
            self.hardware.tiered_pools.push(TieredPool { tiers, every_s, settled, ..settings });
        }
        Ok(group)
    }

    /// The next part of a group that is a pool.
    fn cut(&mut self, group: usize, bytes: u64, info: &VolumeInfo, at: &str) -> Outcome<Target> {
        let (capacity, row) = (self.group_bytes(group), self.row_bytes(group));
        let taken = self.taken_bytes.entry(group).or_default();
        let first_byte = *taken;
        *taken = first_byte + bytes.next_multiple_of(row);
        if first_byte + bytes > capacity {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let message = format!(
                "volume `{}` of {:.1} GiB does not fit into {}: {:.1} of {:.1} GiB are taken",
                info.name,
                gib(bytes),
                self.hardware.groups[group].name,
                gib(first_byte.min(capacity)),
                gib(capacity)
            );
            return Err(self.solution.error(&format!("{at}.capacity_gib"), message, None));
        }
        Ok(Target::Group { group, first_byte })
    }

    pub(super) fn log_store(
        &mut self,
        place: &str,
        pool: &str,
        model: &str,
        (cache_disk, cache_disks): (&str, u32),
        at: &str,
    ) -> Outcome<usize> {
        let (name, described) = (format!("{place} {pool}"), self.solution.pool(pool, at)?.clone());
        let drives = self.add_drives(&described.disk, described.disks, &name, at)?;
        let layout = self.layout(described.raid, at)?;
        let store = self.assumptions.log_store(model).map_err(|error| self.bad("array.store", error))?;
        let group = self.add_group(&name, layout, drives, store.stripe_element_bytes);
        let flash = self.add_drives(cache_disk, cache_disks, &format!("{name} flash"), "array.store")?;
        let resident_bytes = self.resident_bytes(place)?;
        self.hardware.log_stores.push(LogStore { name, group, flash, resident_bytes, ..store });
        Ok(self.hardware.log_stores.len() - 1)
    }

    /// Bytes of the databases of all tested hosts of a place, also of those that take no part in this rehearsal.
    pub(super) fn resident_bytes(&self, place: &str) -> Outcome<u64> {
        let mut bytes = 0;
        for host in self.solution.hosts_under_test()? {
            if self.place_of(&host.name) == place {
                let deployment = self.solution.deployment(Some(&host.name))?;
                let databases = deployment.instances.iter().flat_map(|instance| &instance.databases);
                bytes += databases.map(|database| database.bytes).sum::<u64>();
            }
        }
        Ok(bytes)
    }

    /// The flash caches for reads, one for each array.
    pub(super) fn add_read_caches(&mut self) -> Outcome<()> {
        let Some(spec) = &self.spec.read_cache else { return Ok(()) };
        let at = "array.read_cache";
        if matches!(self.spec.store, Some(Store::LogStructured { .. } | Store::Replicated(_))) {
            let message =
                "a store has flash of its own; a read cache stands in front of RAID groups and pools";
            return Err(self.solution.error(at, message, None));
        }
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
            let flash = self.add_drives(&spec.disk, spec.disks, &name, at)?;
            if flash.iter().any(|drive| matches!(self.hardware.drives[*drive].model, DriveModel::Rotating(_)))
            {
                let message = format!("`{}` is not a flash drive", spec.disk);
                return Err(self.solution.error(&format!("{at}.disk"), message, None));
            }
            let resident_bytes = self.resident_bytes(&place)?;
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
