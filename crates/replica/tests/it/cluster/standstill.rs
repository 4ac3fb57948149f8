//! The host of the active copy stands still for 60 s.

use super::*;

/// When the arbiter takes the lease as expired, the copy's own clock must say so too. The harness reads that clock
/// while the host stands still, as the host does when it goes on.
fn holder_stands_still(stand_still: fn(&Simulation, &str)) {
    let mut cluster = Cluster::new(4, 3, Dial::Lossless);
    let holder = cluster.run_until_level(20_000).unwrap();
    stand_still(&cluster.sim, &name(holder));
    cluster.run(5_000).unwrap();
    let next = cluster.active();
    assert!(next.len() == 1 && next[0] != holder, "another copy has taken over: {next:?}");
    cluster.clients.set(false);
    cluster.run(55_000).unwrap();
    cluster.clients.set(true);
    cluster.sim.resume(&name(holder));
    cluster.run(2_000).unwrap();
    cluster.check_all().unwrap();
}

#[test]
fn suspended_host_finds_its_lease_over() {
    holder_stands_still(Simulation::suspend);
}

#[test]
fn stopped_process_finds_its_lease_over() {
    holder_stands_still(Simulation::stop);
}
