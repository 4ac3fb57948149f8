//! The storage of a solution as a model for the simulated world.

use world::sim::{FixedLatency, FixedLatencyTimes, StorageModel};

/// A model of the storage that the hosts of a rehearsal use.
pub struct Storage {
    /// What it is, in one line, for the report.
    pub description: String,
    /// The model.
    pub model: Box<dyn StorageModel>,
}

/// Storage of which nothing is known but that it answers quickly: every volume alike.
pub fn storage(seed: u64) -> Storage {
    let times = FixedLatencyTimes::default();
    let description = "every volume alike: 0.2 ms for a read, 0.1 ms for a write, 500 MB/s".into();
    Storage { description, model: Box::new(FixedLatency::new(seed, times)) }
}
