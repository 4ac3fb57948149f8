//! Members of the copy protocol that lie never change a healthy copy: the scenario on the real engine, in
//! simulated time. `fleet` tells it once more on real files and over the copy port.

pub mod scenario;

use std::rc::Rc;

use replication::HostId;
use scenario::{Ground, liars_change_nothing};
use world::sim::{SimConfig, Simulation};

#[test]
fn members_that_lie_never_change_a_healthy_copy() {
    let simulation = Simulation::new(1, SimConfig::default());
    let name = |host: u16| format!("h{host}");
    let hosts = (1..=3).map(|host| {
        let world = simulation.host(&name(host));
        ["/db", "/log"].iter().for_each(|volume| simulation.volume(&name(host), volume, 1 << 40));
        (HostId(host), (world, String::new()))
    });
    let addresses = (1..=3).map(|host| (HostId(host), format!("{}:7000", name(host))));
    let ground = Ground { hosts: hosts.collect(), addresses: addresses.collect(), guard: Rc::new(|_| None) };
    simulation.run_until(liars_change_nothing(&ground));
}
