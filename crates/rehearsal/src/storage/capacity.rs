//! Databases must fit into the storage that the solution file describes: a model answers faster than the disks would if the
//! databases lie on a small part of disks that are larger than described, or wrap around on smaller ones.
//!
//! Room is counted as the file states it: disks by data sheet, less what RAID and copies take. A thin pool and a store give
//! room as it is written, so their databases are counted together.
//!
//! Limits: what compression, deduplication and erasure coding of a replicated store save is not known before a test, so such a
//! store is not judged. Logs and the growth during the tests are not counted.

use std::collections::BTreeMap;

use solution::{Deployment, Disk, Solution, Store, VolumeInfo, gib_of_disks};

use super::{Builder, Outcome};

/// Data sheets round: a drive of 4 TB holds 4,000.787 GB.
const ROUNDED: f64 = 1.001;
const GIB: f64 = (1u64 << 30) as f64;

/// Bytes of the databases of a deployment that lie in a folder and in none of its other, deeper volumes.
fn database_bytes(deployment: &Deployment, dir: &str) -> u64 {
    let databases = deployment.instances.iter().flat_map(|instance| &instance.databases);
    let holder = |of: &str| {
        let volumes = deployment.volumes.iter().map(|volume| volume.dir.as_str());
        volumes.filter(|volume| of.starts_with(volume)).max_by_key(|volume| volume.len())
    };
    databases.filter(|database| holder(&database.dir) == Some(dir)).map(|database| database.bytes).sum()
}

/// Refuses databases that are larger than their volume.
pub(super) fn check_volumes(solution: &Solution, deployments: &[Deployment]) -> Outcome<()> {
    for deployment in deployments {
        let volumes = solution.volumes(&deployment.host)?;
        for tested in &deployment.volumes {
            let Some(info) = volumes.iter().find(|volume| volume.name == tested.name) else { continue };
            let Some((holds_gib, made_of)) = room_of_volume(solution, info)? else { continue };
            let needs_gib = database_bytes(deployment, &tested.dir) as f64 / GIB;
            if needs_gib > holds_gib * ROUNDED {
                let message = format!(
                    "the databases on volume `{}` need {needs_gib:.1} GiB, and it holds {holds_gib:.1} GiB{made_of}",
                    info.name
                );
                let at = format!("volume[{}]", info.entry);
                let help = "more or larger disks, or smaller databases ([sizing])";
                return Err(solution.error(&at, message, Some(help.into())));
            }
        }
    }
    Ok(())
}

/// What a volume holds, and what it is made of, in words; `None` if the file does not say.
fn room_of_volume(solution: &Solution, info: &VolumeInfo) -> Outcome<Option<(f64, String)>> {
    let volume = &solution.file.volume[info.entry];
    let Some(kind) = &volume.disk else {
        return Ok(info.capacity_gib.map(|gib| (gib, String::new())));
    };
    let disk = solution.disk(kind, &format!("volume[{}].disk", info.entry))?;
    let disks = volume.disks.unwrap_or(1);
    let on_disks = gib_of_disks(disk.capacity_gb, disks, volume.raid, disks);
    let made_of = format!(" ({disks} x `{kind}` of {} GB)", disk.capacity_gb);
    Ok(Some((info.capacity_gib.map_or(on_disks, |gib| gib.min(on_disks)), made_of)))
}

impl Builder<'_> {
    /// Refuses databases that are larger than the pool that their volumes lie in.
    pub(super) fn check_pools(&self, deployments: &[Deployment]) -> Outcome<()> {
        let mut held: BTreeMap<(String, String), u64> = BTreeMap::new();
        for deployment in deployments {
            let volumes = self.solution.volumes(&deployment.host)?;
            for tested in &deployment.volumes {
                let info = volumes.iter().find(|volume| volume.name == tested.name);
                let pool = info.and_then(|info| self.solution.file.volume[info.entry].pool.clone());
                if let Some(pool) = pool {
                    let key = (self.place_of(&deployment.host), pool);
                    *held.entry(key).or_default() += database_bytes(deployment, &tested.dir);
                }
            }
        }
        for ((_, name), bytes) in held {
            let entry = self.solution.file.pool.iter().position(|pool| pool.name == name).unwrap_or_default();
            let at = format!("pool[{entry}]");
            let Some((holds_gib, stored)) = self.room_of_pool(&name, &at)? else { continue };
            let needs_gib = bytes as f64 / GIB * stored;
            // Too few disks for a protection hold nothing, and the array refuses them by name.
            if holds_gib > 0.0 && needs_gib > holds_gib * ROUNDED {
                let message = format!(
                    "databases of {needs_gib:.1} GiB do not fit into pool `{name}` of {holds_gib:.1} GiB"
                );
                let help = "more or larger disks, or smaller databases ([sizing])";
                return Err(self.solution.error(&format!("{at}.disks"), message, Some(help.into())));
            }
        }
        Ok(())
    }

    /// GiB that a pool holds after RAID or copies, and how much it keeps of a byte written; `None` if that is not known before.
    fn room_of_pool(&self, name: &str, at: &str) -> Outcome<Option<(f64, f64)>> {
        let pool = self.solution.pool(name, at)?;
        let stored = match &self.spec.store {
            Some(Store::Replicated(spec))
                if spec.compression.is_some()
                    || spec.deduplication.is_some()
                    || spec.erasure_coding.is_some() =>
            {
                return Ok(None);
            }
            Some(Store::LogStructured { model, .. }) => {
                let store = self.assumptions.log_store(model);
                store.map_err(|error| self.bad("array.store", error))?.stored_per_written
            }
            _ => 1.0,
        };
        let disk = self.solution.disk(&pool.disk, at)?;
        let spares = match &self.spec.store {
            Some(Store::DynamicPool { spare_disks, .. }) => *spare_disks,
            _ => 0,
        };
        let disks = pool.disks.saturating_sub(spares);
        let slow_gib = gib_of_disks(disk.capacity_gb, disks, pool.raid, pool.group_disks.unwrap_or(disks));
        let fast: Option<(&Disk, u32)> = match (&pool.fast_disk, pool.fast_disks) {
            (Some(kind), Some(disks)) => Some((self.solution.disk(kind, at)?, disks)),
            _ => None,
        };
        let raid = pool.tiering.as_ref().and_then(|tiering| tiering.raid).unwrap_or(pool.raid);
        let fast_gib = fast.map_or(0.0, |(disk, disks)| gib_of_disks(disk.capacity_gb, disks, raid, disks));
        Ok(Some((slow_gib + fast_gib, stored)))
    }
}
