//! A set of page numbers that lie mostly one after the other, as runs.

use std::ops::Range;

/// Ranges that neither overlap nor touch, in order. There are few, and a list is searched faster than a tree.
#[derive(Default)]
pub(super) struct Runs(Vec<Range<u64>>);

impl Runs {
    pub fn contains(&self, index: u64) -> bool {
        let at = self.0.partition_point(|run| run.end <= index);
        self.0.get(at).is_some_and(|run| run.start <= index)
    }

    pub fn insert(&mut self, run: Range<u64>) {
        let first = self.0.partition_point(|other| other.end < run.start);
        let behind = first + self.0[first..].partition_point(|other| other.start <= run.end);
        let joined = &self.0[first..behind];
        let start = joined.first().map_or(run.start, |first| first.start.min(run.start));
        let end = joined.last().map_or(run.end, |last| last.end.max(run.end));
        self.0.splice(first..behind, std::iter::once(start..end));
    }

    /// Removes everything from `end` on.
    pub fn truncate(&mut self, end: u64) {
        self.0.truncate(self.0.partition_point(|run| run.start < end));
        if let Some(last) = self.0.last_mut() {
            last.end = last.end.min(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn runs_hold_what_a_set_of_numbers_holds() {
        let (mut runs, mut numbers) = (Runs::default(), BTreeSet::new());
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..2_000 {
            if step % 50 == 49 {
                let end = next(120);
                runs.truncate(end);
                numbers.retain(|number| *number < end);
            } else {
                let start = next(100);
                let run = start..start + 1 + next(5);
                numbers.extend(run.clone());
                runs.insert(run);
            }
            assert!((0..130).all(|number| runs.contains(number) == numbers.contains(&number)), "step {step}");
            let ends = &runs.0;
            assert!(ends.windows(2).all(|pair| pair[0].end < pair[1].start), "runs touch: {ends:?}");
        }
    }
}
