//! The ratios that papers print, over the database disks of the part under test.

use solution::{Behind, HostSpec, Role, VolumeInfo};

use super::{Ratios, Use};
use crate::inputs::Inputs;
use crate::sizing::Sizing;

const GIB_PER_TIB: f64 = 1024.0;
const GB_PER_GIB: f64 = (1u64 << 30) as f64 / 1e9;

/// Disks and capacity of the part under test.
#[derive(Default)]
struct UnderTest {
    raw_gb: f64,
    formatted_gib: f64,
    effective_gib: f64,
    /// Size of the planned databases, GB.
    database_gb: f64,
    /// Size of the test databases, GiB.
    test_gib: f64,
}

impl UnderTest {
    /// Adds the first database volumes of each host under test, over all entries, as a run uses them.
    fn add_volumes(&mut self, inputs: &Inputs<'_>, sizing: &Sizing, volumes: &[Use]) {
        let solution = inputs.solution;
        let test_mib = solution.test_database_mib.unwrap_or(0);
        for used in volumes.iter().filter(|used| used.role == "database") {
            let tested = solution.hosts.iter().flat_map(|host| &host.volumes);
            let in_group = tested.filter(|volume| volume.is_under_test && volume.kind == used.entry).count();
            let count = f64::from(solution.dag.count) * in_group as f64;
            self.database_gb += count * f64::from(used.databases) * sizing.database_gb;
            self.test_gib += count * f64::from(used.databases) * test_mib as f64 / 1024.0;
            if let Behind::Disks { disk, disks, .. } = solution.volumes[used.entry].behind {
                self.raw_gb += count * f64::from(disks) * solution.disks[disk].capacity_gb;
                self.formatted_gib += count * used.formatted_gib.unwrap_or(0.0);
            }
        }
    }

    /// Adds pools: as many of a kind as the hosts under test need, since pools of a kind share the hosts evenly.
    fn add_pools(&mut self, inputs: &Inputs<'_>, pools: &[Use]) {
        let solution = inputs.solution;
        for (pool, used) in solution.pools.iter().zip(pools) {
            let is_in_it = |volume: &&VolumeInfo| {
                volume.role == Role::Database
                    && solution.volumes[volume.kind].behind == Behind::Pool(used.entry)
            };
            let hosts = |counts: fn(&&VolumeInfo) -> bool| {
                let here = |host: &&HostSpec| host.volumes.iter().filter(counts).any(|one| is_in_it(&one));
                solution.hosts.iter().filter(here).count()
            };
            let (all, tested) = (hosts(|_| true), hosts(|volume| volume.is_under_test));
            let count = (f64::from(used.count) * tested as f64 / all.max(1) as f64).ceil();
            self.raw_gb += count * f64::from(pool.disks) * solution.disks[pool.disk].capacity_gb;
            if let Some(fast) = pool.fast {
                let disks = count * f64::from(fast.disks);
                self.raw_gb += disks * solution.disks[fast.disk].capacity_gb;
            }
            self.formatted_gib += count * used.formatted_gib.unwrap_or(0.0);
            self.effective_gib += count * used.effective_gib.unwrap_or(0.0);
        }
    }
}

pub(super) fn ratios(inputs: &Inputs<'_>, sizing: &Sizing, volumes: &[Use], pools: &[Use]) -> Option<Ratios> {
    let mut tested = UnderTest::default();
    tested.add_volumes(inputs, sizing, volumes);
    tested.add_pools(inputs, pools);
    let UnderTest { raw_gb, formatted_gib, effective_gib, database_gb, test_gib } = tested;
    if raw_gb <= 0.0 || formatted_gib <= 0.0 {
        return None;
    }
    let (raw_tb, formatted_tib) = (raw_gb / 1000.0, formatted_gib / GIB_PER_TIB);
    let effective_tib = (effective_gib > 0.0).then_some(effective_gib / GIB_PER_TIB);
    let database_tib = database_gb / GIB_PER_TIB;
    let test_database_tib = inputs.solution.test_database_mib.map(|_| test_gib / GIB_PER_TIB);
    let shown = test_database_tib.unwrap_or(database_tib);
    Some(Ratios {
        raw_tb,
        formatted_tib,
        effective_tib,
        database_tib,
        test_database_tib,
        formatted_of_raw: formatted_gib * GB_PER_GIB / raw_gb,
        formatted_of_raw_as_printed: formatted_tib / raw_tb,
        database_of_formatted: shown / formatted_tib,
        database_of_raw_as_printed: shown / raw_tb,
        database_of_effective: effective_tib.map(|tib| shown / tib),
    })
}
