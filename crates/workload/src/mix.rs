//! What one batch does: 16 operations drawn from the mix, the same for the same (run seed, database, batch number).
//!
//! The mixes are those of the published runs: 40 % insert, 20 % delete, 5 % replace, 35 % read with 70 % lazy commits
//! (Exchange 2010 and later), 20/4/68/8 with 90 % lazy commits (Exchange 2003).

/// Number of operations in one batch transaction.
pub const BATCH_OPERATIONS: usize = 16;

/// Kind of an operation on one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Adds a row with a new id.
    Insert,
    /// Removes an existing row.
    Delete,
    /// Rewrites the long value of an existing row.
    Replace,
    /// Reads an existing row.
    Read,
    /// Logs on and opens a view: reads the folder and neighbouring rows among the newest.
    View,
    /// Reads the long value of an existing row.
    Body,
    /// Reads neighbouring entries of the index.
    Search,
    /// Takes the entry of an existing row out of the index and puts it back.
    IndexUpdate,
}

/// Classes of a load, in the order of their shares: what a class does, and its name.
pub const CLASSES: [(OperationKind, &str); 5] = [
    (OperationKind::View, "view and logon"),
    (OperationKind::Body, "body"),
    (OperationKind::Insert, "delivery"),
    (OperationKind::Search, "search"),
    (OperationKind::IndexUpdate, "index update"),
];

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Whether the commit of the operation is lazy.
    pub lazy: bool,
    /// Random number that picks the row, uniform over all 64 bits.
    pub pick: u64,
}

/// Mix of operations in percent; the rest are reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Share of inserts.
    pub insert_pct: f64,
    /// Share of deletes.
    pub delete_pct: f64,
    /// Share of replaces.
    pub replace_pct: f64,
    /// Shares of [`CLASSES`] instead of those above.
    pub classes: Option<[f64; CLASSES.len()]>,
    /// Share of commits that are lazy, among operations that change something, percent.
    pub lazy_pct: f64,
    /// Rows that an operation goes to.
    pub shape: BatchShape,
}

/// Rows that an operation of a batch goes to. The published counts per batch tell generations of the engine apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchShape {
    /// The row that it inserts, deletes, replaces or reads.
    OneRow,
    /// The row of another message as well: inserts and replaces rewrite it, deletes and reads read it. That makes 13
    /// more reads and 7 more writes per batch, at equal growth, as ESE 15.00.0516 made on the CS700 array.
    TwoRows,
}

impl Mix {
    /// Mix of Exchange 2010 and later.
    pub const EXCHANGE_2010: Mix = Mix {
        insert_pct: 40.0,
        delete_pct: 20.0,
        replace_pct: 5.0,
        classes: None,
        lazy_pct: 70.0,
        shape: BatchShape::OneRow,
    };

    /// The operations of one batch.
    pub fn batch(&self, run_seed: u64, database: u32, batch: u64) -> [Operation; BATCH_OPERATIONS] {
        let mut random =
            Random::new(run_seed ^ (u64::from(database) << 40) ^ batch.wrapping_mul(0xD1B5_4A32_D192_ED03));
        std::array::from_fn(|_| {
            let kind = self.kind_at(random.unit() * 100.0);
            Operation { kind, lazy: random.unit() * 100.0 < self.lazy_pct, pick: random.next_u64() }
        })
    }

    /// Kind of operation at this percentage of all.
    fn kind_at(&self, percent: f64) -> OperationKind {
        if let Some(shares) = self.classes {
            let mut below = 0.0;
            let is_it = |share: f64| {
                below += share;
                percent < below
            };
            return CLASSES[shares.into_iter().position(is_it).unwrap_or(CLASSES.len() - 1)].0;
        }
        if percent < self.insert_pct {
            OperationKind::Insert
        } else if percent < self.insert_pct + self.delete_pct {
            OperationKind::Delete
        } else if percent < self.insert_pct + self.delete_pct + self.replace_pct {
            OperationKind::Replace
        } else {
            OperationKind::Read
        }
    }
}

/// SplitMix64: a sequence that is a pure function of its seed (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts the random sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Next random number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Maps `pick` to `0..bound` without noticeable bias (bound is far below 2^64).
pub fn scale(pick: u64, bound: u64) -> u64 {
    ((u128::from(pick) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_function_of_seed_database_and_number() {
        let mix = Mix::EXCHANGE_2010;
        assert_eq!(mix.batch(1, 2, 3), mix.batch(1, 2, 3));
        assert_ne!(mix.batch(1, 2, 3), mix.batch(1, 2, 4));
        assert_ne!(mix.batch(1, 2, 3), mix.batch(1, 3, 3));
        assert_ne!(mix.batch(1, 2, 3), mix.batch(2, 2, 3));
    }

    #[test]
    fn shares_come_out_as_asked() {
        let mix = Mix::EXCHANGE_2010;
        let (mut inserts, mut deletes, mut replaces, mut reads, mut durable) = (0, 0, 0, 0, 0);
        for batch in 0..10_000 {
            for operation in mix.batch(7, 0, batch) {
                match operation.kind {
                    OperationKind::Insert => inserts += 1,
                    OperationKind::Delete => deletes += 1,
                    OperationKind::Replace => replaces += 1,
                    OperationKind::Read => reads += 1,
                    other => panic!("{other:?} is of a class"),
                }
                if operation.kind != OperationKind::Read && !operation.lazy {
                    durable += 1;
                }
            }
        }
        let share = |n: i32| f64::from(n) / 160_000.0 * 100.0;
        for (got, wanted) in [(inserts, 40.0), (deletes, 20.0), (replaces, 5.0), (reads, 35.0)] {
            assert!((share(got) - wanted).abs() < 0.5, "{} % instead of {wanted} %", share(got));
        }
        // 16 x 65 % x 30 % = 3.12 commits per batch wait for the log.
        assert!((f64::from(durable) / 10_000.0 - 3.12).abs() < 0.06);
    }

    #[test]
    fn a_load_by_classes_has_their_shares_and_no_other_operation() {
        let shares = [50.0, 25.0, 15.0, 0.0, 10.0];
        let mix = Mix { classes: Some(shares), ..Mix::EXCHANGE_2010 };
        let kinds: Vec<_> =
            (0..2_000).flat_map(|batch| mix.batch(7, 0, batch)).map(|operation| operation.kind).collect();
        for ((kind, name), wanted) in CLASSES.into_iter().zip(shares) {
            let count = kinds.iter().filter(|of| **of == kind).count();
            let share = count as f64 / kinds.len() as f64 * 100.0;
            assert!((share - wanted).abs() < 1.0, "{name}: {share} % instead of {wanted} %");
        }
    }

    #[test]
    fn scaling_stays_inside_and_reaches_both_ends() {
        assert_eq!(scale(0, 10), 0);
        assert_eq!(scale(u64::MAX, 10), 9);
        assert_eq!(scale(u64::MAX / 2, 10), 4);
    }
}
