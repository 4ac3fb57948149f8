//! Parts of the storage model that no measurement has checked: no published paper has figures of them. A prediction
//! that rests on one says so.
//!
//! Invariant: each key that switches such a part on has a row in `tests/it/unmeasured.rs`, which asks the schema of the
//! solution file for all keys.

use std::collections::BTreeSet;

use solution::{Behind, FaultKind, HostSpec, PoolSpec, Solution, Store};

/// Unmeasured parts of the storage model that the volumes of these hosts use, each once.
pub(crate) fn unmeasured(solution: &Solution, hosts: &[&HostSpec]) -> Vec<&'static str> {
    let Some(array) = &solution.array else { return Vec::new() };
    let volumes = hosts.iter().flat_map(|host| &host.volumes).filter(|volume| volume.is_under_test);
    let used: BTreeSet<usize> = volumes
        .filter_map(|volume| match solution.volumes[volume.kind].behind {
            Behind::Pool(pool) => Some(pool),
            Behind::Disks { .. } | Behind::Unknown => None,
        })
        .collect();
    let in_pool = |is: fn(&PoolSpec) -> bool| used.iter().any(|pool| is(&solution.pools[*pool]));
    let has_fault = |is: fn(&FaultKind) -> bool| solution.faults.iter().any(|fault| is(&fault.kind));
    let store = array.replicated();
    let parts = [
        ("thin volumes", in_pool(|pool| pool.thin_chunk_kib.is_some())),
        ("snapshots", in_pool(|pool| pool.snapshots.is_some())),
        ("clones", has_fault(|kind| matches!(kind, FaultKind::CloneRead { .. }))),
        ("tiering", in_pool(|pool| pool.tiering.is_some())),
        ("dynamic pools", matches!(array.store, Some(Store::DynamicPool { .. })) && in_pool(|_| true)),
        ("read cache", array.read_cache.is_some()),
        ("remote copy", array.remote_copy.is_some()),
        ("tiers by reads", store.is_some_and(|store| store.tiers_by_reads == Some(true))),
        ("compression of cold data", store.is_some_and(|store| store.compression.is_some())),
        ("erasure coding of cold data", store.is_some_and(|store| store.erasure_coding.is_some())),
        ("deduplication", store.is_some_and(|store| store.deduplication.is_some())),
        ("bad copies of extents", has_fault(|kind| matches!(kind, FaultKind::ExtentsRot { .. }))),
        (
            "slow drives of a store",
            store.is_some() && has_fault(|kind| matches!(kind, FaultKind::DiskSlow { .. })),
        ),
    ];
    parts.into_iter().filter_map(|(part, is_on)| is_on.then_some(part)).collect()
}
