//! How the threads of a run really work, counted as it happens: what was asked for may have been refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::usage;

/// Counters of how a run's threads do their I/O.
#[derive(Default)]
pub(super) struct Modes {
    /// Number of threads with io_uring, and of those whose ring takes no registered buffers.
    pub rings: Count,
    pub rings_without_buffers: Count,
    /// Number of threads that poll.
    pub pollers: Count,
    /// Number of slabs used for I/O, and of those registered with a ring.
    pub slabs: Count,
    pub slabs_registered: Count,
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
        let [slabs, rings, pollers, shards, files] =
            [&self.slabs, &self.rings, &self.pollers, &self.shards, &self.files].map(Count::get);
        let [registered, without_buffers, bound, in_memory] =
            [&self.slabs_registered, &self.rings_without_buffers, &self.shards_bound, &self.files_in_memory]
                .map(Count::get);
        let parts = [
            (slabs > 0, registered, slabs, "slabs registered"),
            (without_buffers > 0, without_buffers, rings, "rings refuse registered buffers"),
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
