//! What can be wrong with a description of hardware.

/// Error: the parts do not make an array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// An index refers to a part that does not exist.
    #[error("{part}: there is no {kind} {index}; the description has {count}")]
    NoSuchPart {
        /// Part with the index.
        part: String,
        /// Kind of part that it refers to.
        kind: &'static str,
        /// Index.
        index: usize,
        /// Number of existing parts of that kind.
        count: usize,
    },
    /// Values of a part are not possible.
    #[error("{part}: {reason}")]
    BadPart {
        /// Name of the part.
        part: String,
        /// Reason and remedy.
        reason: String,
    },
    /// `assumptions.toml` does not contain a name.
    #[error("assumptions.toml has no {kind} \"{name}\"; it has: {known}")]
    UnknownName {
        /// Table of the assumptions.
        kind: &'static str,
        /// Unknown name.
        name: String,
        /// Known names in that table.
        known: String,
    },
    /// The file of assumptions cannot be parsed.
    #[error("assumptions: {0}")]
    BadAssumptions(String),
}
