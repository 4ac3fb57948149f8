//! How redo shares its thread.

use world::{Duration, World};

/// Number of records without a whole page after which replay lets other tasks run. At whole pages it does so at once,
/// because finished reads make room for others only then.
const RECORDS_AT_A_TIME: usize = 16;

/// Lets other tasks of the thread run during replay: replaying a log takes milliseconds, a read a fraction of one.
pub(super) struct ThreadShare<'a> {
    world: &'a World,
    replayed: usize,
}

impl ThreadShare<'_> {
    pub(super) fn new(world: &World) -> ThreadShare<'_> {
        ThreadShare { world, replayed: 0 }
    }

    /// Notes one more replayed record; `is_page`: it contained a whole page.
    pub(super) async fn replayed(&mut self, is_page: bool) {
        self.replayed = if is_page { RECORDS_AT_A_TIME } else { self.replayed + 1 };
        if self.replayed >= RECORDS_AT_A_TIME {
            self.replayed = 0;
            self.world.sleep(Duration::ZERO).await;
        }
    }
}
