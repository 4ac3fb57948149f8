//! Room on the volumes while a load runs: the load ends before a volume is full.
//!
//! A volume that is full fails its writes, and that says nothing about how fast it is. A load that is as fast
//! as the storage lets it be cannot be predicted, so each tick looks at what is left.
//!
//! A task of its own asks for the free room, so that a file system that does not answer delays no sample.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::DatabaseConfig;
use results::{Comparison, Origin, Verdict};
use solution::Deployment;
use world::World;

use crate::error::CampaignError;
use crate::rule::Rule;

/// Number of logs that an instance may still write while a load drains and its databases are closed.
const LOGS_LEFT: u64 = 4;
/// Number of seconds for which a load may go on to take as much space as in the last one before it has ended.
const SECONDS_LEFT: u64 = 3;

/// Watch over the free space of a host's volumes.
pub(crate) struct Room {
    world: World,
    /// Folders of the volumes.
    dirs: Vec<String>,
    /// Bytes that must stay free on each volume; volumes may share a file system.
    reserve_bytes: u64,
    /// Free bytes at the last check; `None` if not known.
    free: Rc<RefCell<Vec<Option<u64>>>>,
    /// Free bytes at the check before.
    before: Vec<Option<u64>>,
    asking: Rc<Cell<bool>>,
}

impl Room {
    pub fn new(world: &World, deployment: &Deployment) -> Room {
        let extension_bytes = DatabaseConfig::new("").extension_bytes;
        let reserve = deployment.instances.iter().map(|instance| {
            LOGS_LEFT * instance.log_file_bytes + instance.databases.len() as u64 * extension_bytes
        });
        Room {
            world: world.clone(),
            dirs: deployment.volumes.iter().map(|volume| volume.dir.clone()).collect(),
            reserve_bytes: reserve.sum(),
            free: Rc::default(),
            before: Vec::new(),
            asking: Rc::default(),
        }
    }

    /// Refuses to continue a load if a volume was nearly full at the last check, and checks again.
    pub fn check(&mut self) -> Result<(), CampaignError> {
        if self.asking.get() {
            return Ok(());
        }
        let now = std::mem::take(&mut *self.free.borrow_mut());
        for (number, (dir, free)) in self.dirs.iter().zip(&now).enumerate() {
            let Some(free_bytes) = *free else { continue };
            let before = self.before.get(number).copied().flatten();
            let taken = before.map_or(0, |before| before.saturating_sub(free_bytes));
            let needed_bytes = self.reserve_bytes + taken * SECONDS_LEFT;
            if free_bytes < needed_bytes {
                return Err(CampaignError::NearlyFull { dir: dir.clone(), free_bytes, needed_bytes });
            }
        }
        self.before = now;
        self.ask();
        Ok(())
    }

    fn ask(&self) {
        self.asking.set(true);
        let (world, dirs) = (self.world.clone(), self.dirs.clone());
        let (free, asking) = (self.free.clone(), self.asking.clone());
        self.world.spawn_detached(async move {
            let mut answers = Vec::new();
            for dir in &dirs {
                // What is wrong with a volume that gives no answer, its I/O will say.
                answers.push(world.free_bytes(dir).await.ok());
            }
            *free.borrow_mut() = answers;
            asking.set(false);
        });
    }
}

/// Verdict on a run that ended because a volume had no room left: not proved, because a small volume is not a slow
/// one.
pub(crate) fn no_room(host: &str, error: &CampaignError) -> Verdict {
    let (free, needed) = match error {
        CampaignError::NearlyFull { free_bytes, needed_bytes, .. } => (*free_bytes, *needed_bytes),
        _ => (0, 1),
    };
    let rule = Rule {
        name: "volumes_have_room",
        text: "the volumes have room for what the load writes".into(),
        comparison: Comparison::AtLeast,
        unit: "bytes",
    };
    let verdict = rule.require(0, Origin::host(host), free as f64, needed as f64);
    Verdict { test: None, ..verdict }
}
