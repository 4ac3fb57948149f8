//! Who feels what.

use array::Path;

use super::*;
use crate::storage::StoreNode;

/// Volume on disks of its own, behind two controllers with a link to each, owned by the first.
fn volume(host: usize) -> VolumeParts {
    let way = |controller| Path { links: vec![2 * host + controller], controller };
    VolumeParts {
        host: format!("h{host}"),
        volume: "LUN".into(),
        drives: vec![2 * host, 2 * host + 1],
        pool: None,
        thin_pool: None,
        paths: vec![way(0), way(1)],
        remote_copy: Some((0, 99)),
        controller: 0,
        node: None,
    }
}

/// Indexes of the hosts that a fault of the first volume affects.
fn felt(kind: &FaultKind, parts: &[VolumeParts]) -> String {
    let felt = felt_by(kind, &parts[0], parts[0].drives.first().copied(), parts);
    felt.iter().map(|host| host.trim_start_matches('h')).collect()
}

#[test]
fn a_fault_is_felt_by_the_hosts_that_share_what_it_hits() {
    // The third host's volume is on the other controller, the fourth is on another array.
    let other_array = || {
        let way = |controller| Path { links: vec![10 + controller], controller };
        VolumeParts { paths: vec![way(2), way(3)], controller: 2, remote_copy: Some((1, 98)), ..volume(4) }
    };
    let parts = [volume(1), volume(2), VolumeParts { controller: 1, ..volume(3) }, other_array()];
    let wanted = [
        (FaultKind::DiskSlow { disk: 1, factor: 2.0 }, "1"),
        (FaultKind::CacheUnprotected, "12"),
        (FaultKind::RemoteCopyLost, "123"),
        // Who takes over is silent meanwhile, too.
        (FaultKind::ControllerFails, "123"),
        (FaultKind::PathLost, "13"),
    ];
    for (kind, hosts) in wanted {
        assert_eq!(felt(&kind, &parts), hosts, "{kind:?}");
    }
    let two_links = Path { links: vec![50], controller: 0 };
    let mut parts = parts;
    parts[0].paths.push(two_links);
    assert_eq!(
        felt(&FaultKind::PathLost, &parts),
        "1",
        "the other link to the controller carries everything"
    );
}

#[test]
fn a_fault_of_a_pool_or_store_is_felt_by_all_its_hosts() {
    let shared = |host, pool| VolumeParts {
        drives: (0..8).map(|drive| 8 * pool + drive).collect(),
        pool: Some(pool),
        thin_pool: Some(pool),
        ..volume(host)
    };
    let parts = [shared(1, 0), shared(2, 0), shared(3, 1)];
    let fails = FaultKind::DiskFails { disk: 1 };
    let of_pools = [FaultKind::DisksAdded { disks: 1 }, FaultKind::CloneRead { mib_per_s: None }];
    for kind in [&fails].into_iter().chain(&of_pools) {
        assert_eq!(felt(kind, &parts), "12", "{kind:?}");
    }
    let on_node = |host, store| VolumeParts {
        drives: vec![host],
        node: Some(StoreNode { store, node: host, nodes: 4, replicas: 2 }),
        ..volume(host)
    };
    let parts = [on_node(1, 0), on_node(2, 0), on_node(3, 1)];
    let rots = FaultKind::ExtentsRot { disk: 1, one_in: 2 };
    let of_nodes = [rots, FaultKind::NodeDies { node: None }, FaultKind::HostMoves { node: None }];
    for kind in [&fails].into_iter().chain(&of_nodes) {
        assert_eq!(felt(kind, &parts), "12", "{kind:?}");
    }
}
