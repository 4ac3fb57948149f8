//! How redo shares its thread.

use world::{Duration, World};

/// Records replayed before others of the thread have their turn, if none of them is a page: reads that have
/// come make room for others only then.
const RECORDS_AT_A_TIME: usize = 16;

/// Lets the other tasks of the thread have their turn: replaying a log takes milliseconds, a read a fraction of one.
pub(super) struct Turns<'a> {
    world: &'a World,
    replayed: usize,
}

impl Turns<'_> {
    pub(super) fn new(world: &World) -> Turns<'_> {
        Turns { world, replayed: 0 }
    }

    /// One more record is replayed; `is_page`: it held a page as a whole.
    pub(super) async fn replayed(&mut self, is_page: bool) {
        self.replayed = if is_page { RECORDS_AT_A_TIME } else { self.replayed + 1 };
        if self.replayed >= RECORDS_AT_A_TIME {
            self.replayed = 0;
            self.world.sleep(Duration::ZERO).await;
        }
    }
}
