//! What happens to an array in the course of a simulation.

/// Something that happens at a given time.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A drive dies: its group works degraded, and a spare takes over.
    DriveFails {
        /// The drive.
        drive: usize,
    },
    /// Drives like those of a dynamic pool are added to it, and pieces move to them until all are equally full.
    DrivesAdded {
        /// The group that is the pool.
        group: usize,
        /// How many.
        count: u32,
    },
    /// A clone of all volumes of a thin pool is taken, read from end to end by another host, and removed.
    CloneTaken {
        /// The pool.
        pool: usize,
        /// Cap of the reads; 0 = none. MB = 10^6 bytes.
        mb_per_s: f64,
    },
    /// Every access of a drive takes `factor` times as long from now on (1 = as before).
    DriveSlow {
        /// The drive.
        drive: usize,
        /// Multiple of the normal time.
        factor: f64,
    },
    /// A link is lost: the paths over it are not used.
    LinkLost {
        /// The link.
        link: usize,
    },
    /// A link is back.
    LinkRestored {
        /// The link.
        link: usize,
    },
    /// A controller dies: its partner takes over.
    ControllerFails {
        /// The controller.
        controller: usize,
    },
    /// Copies on a drive of a replicated store are bad: one in so many extents, until each is written again.
    ExtentsRot {
        /// The drive.
        drive: usize,
        /// One in so many.
        one_in: u64,
    },
    /// A host goes on on another node of its replicated store, and its volumes with it.
    HostMoves {
        /// The host.
        host: String,
        /// The node, from 0; beyond the last one they begin anew.
        node: usize,
    },
    /// A node of a replicated store dies, with all its drives and their copies. Hosts on it are not looked at.
    NodeDies {
        /// The store.
        store: usize,
        /// The node.
        node: usize,
    },
    /// The cache is no longer protected: writes go through to the drives.
    CacheUnprotected {
        /// The controller.
        controller: usize,
    },
    /// The cache is protected again.
    CacheProtected {
        /// The controller.
        controller: usize,
    },
}
