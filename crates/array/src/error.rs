//! What can be wrong with a description of hardware.

/// The parts do not make an array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// An index points at nothing.
    #[error("{part}: there is no {kind} {index}; the description has {count}")]
    NoSuchPart {
        /// The part that points.
        part: String,
        /// What it points at.
        kind: &'static str,
        /// The index.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A part's values make no sense.
    #[error("{part}: {reason}")]
    BadPart {
        /// The part.
        part: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A name that `assumptions.toml` does not have.
    #[error("assumptions.toml has no {kind} \"{name}\"; it has: {known}")]
    UnknownName {
        /// Table.
        kind: &'static str,
        /// The name.
        name: String,
        /// Names in that table.
        known: String,
    },
    /// The file of assumptions cannot be read.
    #[error("assumptions: {0}")]
    BadAssumptions(String),
}
