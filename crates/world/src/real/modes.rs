//! How the threads of a run really work, counted as it happens: what was asked for may have been refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::usage;

/// Counters of how a run's threads do their I/O.
#[derive(Default)]
pub(super) struct Modes {
    /// Number of threads with io_uring.
    pub rings: Count,
    /// Number of threads that poll.
    pub pollers: Count,
    /// Number of shards, and of those bound to a core.
    pub shards: Count,
    pub shards_bound: Count,
    /// Number of opened files, and of those in memory.
    pub files: Count,
    pub files_in_memory: Count,
}

/// Counter that only grows.
#[derive(Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Modes {
    /// Text for the report, behind driver and mode; leaves out what was not used.
    pub fn describe(&self) -> String {
        let [rings, pollers, shards, files] =
            [&self.rings, &self.pollers, &self.shards, &self.files].map(Count::get);
        let [bound, in_memory] = [&self.shards_bound, &self.files_in_memory].map(Count::get);
        let parts = [
            (rings > 0 && pollers > 0, pollers, rings + pollers, "threads poll"),
            (shards > 0, bound, shards, "shards bound to a core"),
            (in_memory > 0, in_memory, files, "files in memory"),
        ];
        let told = parts.into_iter().filter(|(is_told, ..)| *is_told);
        let mut text: String =
            told.map(|(_, share, all, what)| format!(", {share} of {all} {what}")).collect();
        if shards > 0
            && let Some(bytes) = usage::large_page_bytes()
        {
            text += &format!(", {} MiB in large pages", bytes >> 20);
        }
        text
    }
}
