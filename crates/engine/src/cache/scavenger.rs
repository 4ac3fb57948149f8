//! The task that frees pages, and what an opening that is dropped leaves of it: nothing.

use world::{Task, World};

use super::Cache;
use crate::error::Error;
use crate::signal::{Dropped, StopSignal};

/// Task that frees pages during an opening. Dropping it ends it together with everything that the instance has begun,
/// so a dropped opening leaves no task behind.
pub(crate) struct Scavenger {
    world: World,
    cache: Cache,
    dropped: Dropped,
    pub(crate) stop: StopSignal,
    task: Option<Task<()>>,
}

impl Scavenger {
    /// Starts the task. If it is dropped early, `dropped` learns of the opening.
    pub(crate) fn start(world: &World, cache: &Cache, dropped: &Dropped) -> Scavenger {
        let stop = StopSignal::new();
        let (scavenged, stopped, working) = (cache.clone(), stop.clone(), cache.poison().working());
        let task = world.spawn(async move {
            let _working = working;
            scavenged.scavenge(&stopped).await;
        });
        let (world, cache, dropped) = (world.clone(), cache.clone(), dropped.clone());
        Scavenger { world, cache, dropped, stop, task: Some(task) }
    }

    /// Passes the task on to the open instance.
    pub(crate) fn hand_over(mut self) -> Option<Task<()>> {
        self.task.take()
    }

    pub(crate) async fn end(mut self, why: &Error) {
        self.tell(why);
        if let Some(task) = self.task.take() {
            task.await;
        }
        self.cache.writes_ended().await;
    }

    fn tell(&self, why: &Error) {
        self.cache.poison().fail(why);
        self.stop.stop();
        self.cache.wake_scavenger();
    }
}

impl Drop for Scavenger {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.tell(&Error::Refused("its opening was dropped".to_owned()));
            self.dropped.add(&self.world, self.cache.poison());
        }
    }
}
