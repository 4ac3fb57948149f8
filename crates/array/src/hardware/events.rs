//! What happens to an array in the course of a simulation.

/// Planned event of the array.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A drive fails: its group works degraded, and a spare takes over.
    DriveFails {
        /// Drive that fails.
        drive: usize,
    },
    /// Drives like those of a dynamic pool are added to it, and pieces move to them until all are equally full.
    DrivesAdded {
        /// Group that serves as the pool.
        group: usize,
        /// Number of added drives.
        count: u32,
    },
    /// A clone of all volumes of a thin pool is taken, read from end to end by another host, and removed.
    CloneTaken {
        /// Thin pool that is cloned.
        pool: usize,
        /// Limit of the read rate, MB/s (10^6 bytes); 0: none.
        mb_per_s: f64,
    },
    /// Every access of a drive takes `factor` times as long from now on (1 = as before).
    DriveSlow {
        /// Drive that becomes slow.
        drive: usize,
        /// Factor on the normal time.
        factor: f64,
    },
    /// A link fails: paths over it are not used.
    LinkLost {
        /// Link that fails.
        link: usize,
    },
    /// A link works again.
    LinkRestored {
        /// Link that works again.
        link: usize,
    },
    /// A controller fails: its partner takes over.
    ControllerFails {
        /// Controller that fails.
        controller: usize,
    },
    /// Copies on a drive of a replicated store become bad: one in this many extents, each until it is rewritten.
    ExtentsRot {
        /// Drive with bad copies.
        drive: usize,
        /// One in this many extents is bad.
        one_in: u64,
    },
    /// A host moves to another node of its replicated store, with its volumes.
    HostMoves {
        /// Host that moves.
        host: String,
        /// Node, from 0; counted modulo the number of nodes.
        node: usize,
    },
    /// A node of a replicated store fails with all its drives. It must not run a host.
    NodeDies {
        /// Store of the node.
        store: usize,
        /// Node that fails.
        node: usize,
    },
    /// The battery of a cache fails: writes go through to the drives.
    CacheUnprotected {
        /// Controller of the cache.
        controller: usize,
    },
    /// The cache is protected again.
    CacheProtected {
        /// Controller of the cache.
        controller: usize,
    },
}
