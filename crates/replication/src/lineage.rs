//! Which epoch wrote which part of a log, and so where the logs of two copies part.
//!
//! Invariant: an epoch has one writer, which goes on from the log that it held when the epoch began. So two logs whose
//! lineages agree up to an epoch hold the same bytes up to the end of the shorter one within that epoch.
//!
//! Limits: one entry (12 bytes) per activation of the database; entries are never dropped.

use serde::{Deserialize, Serialize};

use crate::types::{Epoch, Position};

/// The epochs of a log in order, each with the position at which it began.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lineage(Vec<(Epoch, Position)>);

impl Lineage {
    /// Lineage of a newly created database: epoch 0, held by every copy.
    #[must_use]
    pub fn first() -> Self {
        Lineage(vec![(Epoch(0), Position::START)])
    }

    /// Newest epoch of the lineage.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.last().map_or(Epoch(0), |&(epoch, _)| epoch)
    }

    /// The epochs in order, each with the position at which it began.
    #[must_use]
    pub fn epochs(&self) -> &[(Epoch, Position)] {
        &self.0
    }

    /// Returns this lineage with a new epoch that begins at `end`.
    #[must_use]
    pub fn continued(&self, epoch: Epoch, end: Position) -> Self {
        let mut entries = self.written(end).to_vec();
        entries.push((epoch, end));
        Lineage(entries)
    }

    /// Last position up to which two logs hold the same bytes: one of this lineage that ends at `end`, and one of
    /// `other` that ends at `other_end`.
    #[must_use]
    pub fn common(&self, end: Position, other: &Lineage, other_end: Position) -> Position {
        let (mine, others) = (self.written(end), other.written(other_end));
        let agreed = mine.iter().zip(others).take_while(|(a, b)| a == b).count();
        let ends_of_agreement = |entries: &[(Epoch, Position)], end| match entries.get(agreed) {
            Some(&(_, start)) => start,
            None => end,
        };
        ends_of_agreement(mine, end).min(ends_of_agreement(others, other_end)).min(end).min(other_end)
    }

    /// Epochs that wrote bytes before `end`.
    fn written(&self, end: Position) -> &[(Epoch, Position)] {
        let count = self.0.iter().take_while(|&&(_, start)| start < end).count();
        &self.0[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(generation: u32, offset: u32) -> Position {
        Position { generation, offset }
    }

    #[test]
    fn a_shorter_log_of_one_lineage_is_a_prefix() {
        let lineage = Lineage::first().continued(Epoch(1), Position::START);
        assert_eq!(lineage.common(at(5, 7), &lineage, at(9, 0)), at(5, 7));
    }

    #[test]
    fn logs_part_where_a_later_epoch_began_elsewhere() {
        let old = Lineage::first().continued(Epoch(1), Position::START);
        let new = old.continued(Epoch(2), at(4, 3));
        assert_eq!(old.common(at(6, 0), &new, at(9, 0)), at(4, 3));
        assert_eq!(new.common(at(9, 0), &old, at(6, 0)), at(4, 3));
        assert_eq!(old.common(at(4, 3), &new, at(9, 0)), at(4, 3), "nothing was written behind the fork");
    }

    #[test]
    fn an_epoch_without_bytes_leaves_no_trace() {
        let old = Lineage::first().continued(Epoch(1), Position::START);
        let empty = old.continued(Epoch(2), at(4, 0));
        let next = empty.continued(Epoch(3), at(4, 0));
        assert_eq!(next, old.continued(Epoch(3), at(4, 0)));
    }

    #[test]
    fn two_epochs_from_one_position_part_there() {
        let old = Lineage::first().continued(Epoch(1), Position::START);
        let (left, right) = (old.continued(Epoch(2), at(4, 0)), old.continued(Epoch(3), at(4, 0)));
        assert_eq!(left.common(at(5, 0), &right, at(7, 0)), at(4, 0));
    }
}
