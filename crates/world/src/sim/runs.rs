//! A set of page numbers that lie mostly one after the other, as runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// Runs that neither overlap nor touch: where each begins and where it ends.
#[derive(Default)]
pub(super) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    pub fn contains(&self, index: u64) -> bool {
        self.0.range(..=index).next_back().is_some_and(|(_, end)| index < *end)
    }

    pub fn insert(&mut self, run: Range<u64>) {
        let Range { mut start, mut end } = run;
        while let Some((first, last)) = self.0.range(..=end).next_back().map(|(first, last)| (*first, *last))
            && last >= start
        {
            (start, end) = (start.min(first), end.max(last));
            self.0.remove(&first);
        }
        self.0.insert(start, end);
    }

    /// Takes out everything from `end` on.
    pub fn truncate(&mut self, end: u64) {
        drop(self.0.split_off(&end));
        if let Some(mut last) = self.0.last_entry() {
            *last.get_mut() = end.min(*last.get());
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
            let ends: Vec<_> = runs.0.iter().collect();
            assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "runs touch: {ends:?}");
        }
    }
}
