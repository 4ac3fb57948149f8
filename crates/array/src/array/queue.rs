//! What is planned to happen, and when: of two things at the same time the one that was planned first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::job::Happening;

/// Bits of a heap's entry that name the place of what happens.
const PLACE_BITS: u32 = 24;

/// The queue of all that happens.
#[derive(Default)]
pub(super) struct Queue {
    /// Time, number in the order of planning and place in `planned`, in one number: so a heap compares and moves
    /// few bytes.
    heap: BinaryHeap<Reverse<u128>>,
    planned: Vec<Happening>,
    free: Vec<u32>,
    /// Of 40 bits: enough for a million a second over twelve days.
    number: u64,
}

impl Queue {
    pub fn plan(&mut self, at_ns: u64, happening: Happening) {
        let place = match self.free.pop() {
            Some(place) => {
                self.planned[place as usize] = happening;
                place
            }
            None => self.new_place(happening),
        };
        self.number += 1;
        let order = u128::from(self.number << PLACE_BITS | u64::from(place));
        self.heap.push(Reverse(u128::from(at_ns) << 64 | order));
    }

    /// All that is planned, in no order.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = Happening> {
        self.heap.iter().map(|Reverse(entry)| self.planned[place(*entry)])
    }

    #[cold]
    fn new_place(&mut self, happening: Happening) -> u32 {
        assert!(self.planned.len() < 1 << PLACE_BITS, "more is planned than the queue can name");
        self.planned.push(happening);
        self.planned.len() as u32 - 1
    }

    /// When the next thing happens.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| (entry >> 64) as u64)
    }

    /// Takes what happens next, if that is due by `until_ns`: when and what.
    #[inline]
    pub fn pop(&mut self, until_ns: u64) -> Option<(u64, Happening)> {
        let at_ns = self.next_ns().filter(|at_ns| *at_ns <= until_ns)?;
        let Reverse(entry) = self.heap.pop()?;
        let place = place(entry);
        self.free.push(place as u32);
        Some((at_ns, self.planned[place]))
    }
}

/// The place in `planned` that an entry of the heap names.
fn place(entry: u128) -> usize {
    entry as usize & ((1 << PLACE_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_queue_keeps_the_order_of_times_and_of_planning(
            steps in proptest::collection::vec((0u64..20, 0u64..4), 0..200),
        ) {
            let (mut queue, mut model, mut now_ns) = (Queue::default(), BTreeMap::new(), 0);
            let job = |happening| match happening {
                Happening::Arrive(job) => job,
                other => panic!("{other:?} was not planned"),
            };
            for (number, (later_ns, passes_ns)) in (0u32..).zip(steps) {
                queue.plan(now_ns + later_ns, Happening::Arrive(number));
                model.insert((now_ns + later_ns, number), ());
                now_ns += passes_ns;
                while let Some((at_ns, happening)) = queue.pop(now_ns) {
                    let first = model.pop_first().map(|(key, ())| key);
                    prop_assert_eq!(first, Some((at_ns, job(happening))));
                }
                prop_assert_eq!(queue.next_ns(), model.keys().next().map(|key| key.0));
                prop_assert!(queue.next_ns().is_none_or(|at_ns| at_ns > now_ns));
            }
        }
    }
}
