//! The arbiter of a drill in the simulated world, on a host of its own. In the real one the controller of the
//! fleet has it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use replica::wire::Message;
use replica::{ArbiterHost, Network};
use replication::{DatabaseId, HostId};
use world::World;

use super::node::TICK;
use super::topology::{ARBITER, Topology};
use crate::CampaignError;
use crate::folders::make_folders;

/// Arbiter of a drill with its connections. Dropping it stops it as a crash would.
pub struct ArbiterNode {
    arbiter: Rc<ArbiterHost>,
    /// Network of the arbiter; open while the arbiter runs.
    _network: Rc<Network>,
}

impl ArbiterNode {
    /// Starts the arbiter with the records in `folder`.
    ///
    /// # Errors
    /// Failed I/O, or a record that is damaged.
    pub async fn start(
        world: &World,
        topology: &Topology,
        folder: &str,
        addresses: BTreeMap<HostId, String>,
    ) -> Result<ArbiterNode, CampaignError> {
        make_folders(world, folder).await?;
        let slot: Rc<RefCell<Weak<Network>>> = Rc::default();
        let sending = slot.clone();
        let to_copy = Rc::new(move |host: HostId, database: DatabaseId, message| {
            if let Some(network) = sending.borrow().upgrade() {
                network.send(host, &Message::FromArbiter { database, message });
            }
        });
        let specs: Vec<_> = topology.databases.iter().map(|database| database.spec.clone()).collect();
        let arbiter = Rc::new(ArbiterHost::start(world, folder, &specs, TICK, to_copy).await?);
        let to = Rc::downgrade(&arbiter);
        let receiver = Rc::new(move |_: HostId, message: Message| {
            if let (Some(arbiter), Message::ToArbiter(message)) = (to.upgrade(), message) {
                arbiter.receive(message);
            }
        });
        let network = Rc::new(Network::start(world, ARBITER, addresses, receiver).await?);
        *slot.borrow_mut() = Rc::downgrade(&network);
        Ok(ArbiterNode { arbiter, _network: network })
    }

    /// Events since the last call, with the number of the database.
    pub fn take_events(&self) -> Vec<(usize, replication::ArbiterEvent)> {
        let events = self.arbiter.take_events();
        events.into_iter().map(|(_, database, event)| (usize::from(database.0), event)).collect()
    }
}
