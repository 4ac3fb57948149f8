//! After the load: hosts tell each other how their copies stand until all stand at the same place, and then
//! hold against each other what the pages say.
//!
//! Every host says the places of the pages that its copies took as a whole; all copies of a database together
//! name each page that has changed while they ran. So every host chooses the same places, and what it reads
//! there can be compared anywhere.
//!
//! Limits: a copy whose list is not there after [`LISTS_LIMIT_S`] counts as one that could not be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use replica::Replica;
use replica::wire::{Message, Standing};
use replication::{CopySpec, DatabaseId, HostId};
use serde::{Deserialize, Serialize};
use solution::DrillSpec;
use world::Duration;

use super::node::{Inner, Node};

/// Interval at which a host reports the state of its copies.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Time to wait for the lists of the other hosts, s.
const LISTS_LIMIT_S: u32 = 30;
/// Largest number of pages that a copy names, evenly chosen, because a frame holds no more.
const NAMED_MAX: usize = 500_000;
/// Largest number of compared pages of a database, evenly chosen among the changed ones.
const COMPARED_MAX: usize = 500;

/// Page digests of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Number of the database.
    pub database: usize,
    /// Number of changed pages, as far as the copies have named them.
    pub changed: usize,
    /// Digests of the chosen pages; `None` if they could not be read.
    pub digests: Option<BTreeMap<u32, u32>>,
}

impl Inner {
    /// Starts to report the state of this host's copies to the other hosts.
    pub(super) fn tell_standings(self: &Rc<Self>) {
        let (telling, world) = (Rc::downgrade(self), self.world.clone());
        drop(self.world.spawn(async move {
            while let Some(inner) = telling.upgrade().filter(|inner| !inner.stopped.get()) {
                for database in 0..inner.topology.databases.len() {
                    let Some(replica) = inner.replica(database) else { continue };
                    inner.tell_standing(database, &replica).await;
                }
                drop(inner);
                world.sleep(TELL_EVERY).await;
            }
        }));
    }

    async fn tell_standing(&self, database: usize, replica: &Replica) {
        // What an instance does by itself, clearing away what was deleted, waits in its log for the next
        // commit, and users have gone home. The next user of the instance finds a failure.
        if let Some(instance) = replica.instance() {
            let _ = instance.flush_log().await;
        }
        let own = HostId(self.host as u16);
        let before = self.standings.borrow().get(&(database, own)).cloned();
        let mut standing = standing_of(replica);
        let stands_still = before.as_ref().is_some_and(|before| {
            before.end == standing.end && standing.followed == standing.end && before.followed == standing.end
        });
        if stands_still {
            standing.taken = match before.and_then(|before| before.taken) {
                Some(taken) => Some(taken),
                None => replica.taken_pages().await.map(|taken| thinned(taken, NAMED_MAX)),
            };
        }
        self.standings.borrow_mut().insert((database, own), standing.clone());
        for copy in self.topology.databases[database].spec.others(own) {
            let database = DatabaseId(database as u16);
            self.send(copy.host, &Message::Standing { database, standing: standing.clone() });
        }
    }

    /// States of a database's existing copies; `None` if one has not reported since its log and replay stopped.
    fn standings_of(&self, database: usize, drill: &DrillSpec) -> Option<Vec<Standing>> {
        let mut absent = self.topology.absent(database, drill);
        absent.extend(self.left.borrow().iter().copied());
        let standings = self.standings.borrow();
        let there =
            self.topology.databases[database].spec.copies.iter().filter(|copy| !absent.contains(&copy.host));
        there
            .map(|copy| {
                let standing = standings.get(&(database, copy.host))?.clone();
                (standing.taken.is_some() || copy.is_lagged()).then_some(standing)
            })
            .collect()
    }
}

impl Node {
    /// Whether all copies of this host's databases hold and have replayed the same log. Call it after [`Node::close`].
    /// Copies that a permanent failure of `drill` removed are not waited for.
    pub fn is_settled(&self, drill: &DrillSpec) -> bool {
        let inner = &self.0;
        let mut here =
            (0..inner.topology.databases.len()).filter(|database| inner.replica(*database).is_some());
        here.all(|database| {
            let Some(standings) = inner.standings_of(database, drill) else { return false };
            let ends: BTreeSet<_> = standings.iter().map(|standing| standing.end).collect();
            ends.len() == 1 && standings.iter().any(|standing| standing.is_active)
        })
    }

    /// Digests of changed pages of the copies here, without lagged copies. Call it when all hosts have settled, or
    /// have given up waiting.
    pub async fn compare(&self, drill: &DrillSpec) -> Vec<Compared> {
        let inner = &self.0;
        let own = HostId(inner.host as u16);
        let mut compared = Vec::new();
        for (database, described) in inner.topology.databases.iter().enumerate() {
            let Some(replica) = inner.replica(database) else { continue };
            if described.spec.copy_on(own).is_some_and(CopySpec::is_lagged) {
                continue;
            }
            let mut standings = inner.standings_of(database, drill);
            for _ in 0..LISTS_LIMIT_S {
                if standings.is_some() {
                    break;
                }
                inner.world.sleep(TELL_EVERY).await;
                standings = inner.standings_of(database, drill);
            }
            let Some(standings) = standings else {
                compared.push(Compared { database, changed: 0, digests: None });
                continue;
            };
            let taken = standings.into_iter().filter_map(|standing| standing.taken).flatten();
            let changed: BTreeSet<u32> = taken.filter(|place| *place >= 2).collect();
            let places = thinned(changed.iter().copied().collect(), COMPARED_MAX);
            let digests = replica.digests(places).await;
            compared.push(Compared { database, changed: changed.len(), digests });
        }
        compared
    }
}

fn standing_of(replica: &Replica) -> Standing {
    let status = replica.status();
    let is_active = status.active_in.is_some();
    let report = status.report;
    let followed = if is_active { report.end } else { report.replayed };
    Standing { end: report.end, followed, is_active, taken: None }
}

/// At most `max` elements, evenly chosen.
fn thinned(places: Vec<u32>, max: usize) -> Vec<u32> {
    let step = places.len().div_ceil(max).max(1);
    places.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_chosen_evenly() {
        assert_eq!(thinned((0..10).collect(), 20), (0..10).collect::<Vec<u32>>());
        assert_eq!(thinned((0..10).collect(), 4), [0, 3, 6, 9]);
        assert_eq!(thinned(Vec::new(), 4), Vec::<u32>::new());
    }
}
