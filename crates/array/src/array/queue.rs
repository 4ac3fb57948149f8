//! What is planned to happen, and when: of two things at the same time the one that was planned first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::job::Happening;

/// Number of bits of an order that hold the drive.
const DRIVE_BITS: u32 = 24;
/// Order after all planned events.
const NEVER: u128 = u128::MAX;
/// Time that never comes, ns.
pub(super) const NEVER_NS: u64 = u64::MAX;

/// Packs time, planning number and drive into one number, for a single comparison. The planning number has 40 bits: a
/// million a second over twelve days.
fn order(at_ns: u64, number: u64, drive: u32) -> u128 {
    u128::from(at_ns) << 64 | u128::from(number << DRIVE_BITS | u64::from(drive))
}

fn time_ns(order: u128) -> u64 {
    (order >> 64) as u64
}

#[derive(Clone, Copy)]
struct Planned {
    order: u128,
    happening: Happening,
}

/// Reversed, because a heap returns the greatest.
impl Ord for Planned {
    fn cmp(&self, other: &Planned) -> Ordering {
        other.order.cmp(&self.order)
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Planned) -> bool {
        self.order == other.order
    }
}

impl Eq for Planned {}

/// Times at which drives are ready, with the earliest on top: a tournament tree. A new time needs one walk from its
/// leaf to the root, where a heap would need two.
struct Tournament {
    /// Full binary tree with the root at 1: each node has the lesser order of its children. Drives are the leaves.
    orders: Vec<u128>,
    /// Order at the root.
    first: u128,
}

impl Tournament {
    fn new(drives: usize) -> Tournament {
        Tournament { orders: vec![NEVER; 2 * drives.next_power_of_two().max(1)], first: NEVER }
    }

    /// Adds a drive at the end.
    fn add_drive(&mut self, drives: usize) {
        if drives == self.orders.len() / 2 {
            let before = std::mem::replace(self, Tournament::new(drives + 1));
            let orders = before.orders[drives..].iter();
            orders.zip(0..).for_each(|(order, drive)| self.set(drive, *order));
        }
    }

    fn leaf(&self, drive: u32) -> usize {
        self.orders.len() / 2 + drive as usize
    }

    fn set(&mut self, drive: u32, order: u128) {
        let mut at = self.leaf(drive);
        self.orders[at] = order;
        while at > 1 {
            let other = self.orders[at ^ 1];
            let least = self.orders[at].min(other);
            at /= 2;
            self.orders[at] = least;
        }
        self.first = self.orders[at];
    }
}

/// Queue of the array's events.
pub(super) struct Queue {
    /// Earliest event except those of drives. It is kept outside of the heap, which is usually empty.
    first: Planned,
    heap: BinaryHeap<Planned>,
    drives: Tournament,
    number: u64,
}

const NOTHING: Planned = Planned { order: NEVER, happening: Happening::Scheduled(u32::MAX) };

impl Queue {
    /// Creates a queue for this number of drives.
    pub fn new(drives: usize) -> Queue {
        assert!(drives <= 1 << DRIVE_BITS, "more drives than an order can name");
        Queue { first: NOTHING, heap: BinaryHeap::new(), drives: Tournament::new(drives), number: 0 }
    }

    /// Adds a drive after `drives` others.
    pub fn add_drive(&mut self, drives: usize) {
        self.drives.add_drive(drives);
    }

    #[inline]
    pub fn plan(&mut self, at_ns: u64, happening: Happening) {
        self.number += 1;
        let mut later = Planned { order: order(at_ns, self.number, 0), happening };
        if later.order < self.first.order {
            std::mem::swap(&mut later, &mut self.first);
        }
        if later.order != NEVER {
            self.plan_later(later);
        }
    }

    #[inline(never)]
    fn plan_later(&mut self, planned: Planned) {
        self.heap.push(planned);
    }

    /// Sets the time at which a drive is ready, in place of its last one.
    #[inline]
    pub fn plan_drive(&mut self, drive: u32, at_ns: Option<u64>) {
        let planned = self.drives.orders[self.drives.leaf(drive)];
        match at_ns {
            Some(at_ns) if time_ns(planned) != at_ns => {
                self.number += 1;
                self.drives.set(drive, order(at_ns, self.number, drive));
            }
            Some(_) => {}
            None if planned != NEVER => self.drives.set(drive, NEVER),
            None => {}
        }
    }

    /// Planned events except those of drives, in no order.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = Happening> {
        let first = Some(&self.first).filter(|first| first.order != NEVER);
        first.into_iter().chain(&self.heap).map(|planned| planned.happening)
    }

    /// Time of the next event; [`NEVER_NS`] if there is none.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        time_ns(self.first.order.min(self.drives.first))
    }

    /// Takes the next event up to `until_ns`, with its time. A ready drive keeps its entry until its next time is set.
    #[inline]
    pub fn pop(&mut self, until_ns: u64) -> Option<(u64, Happening)> {
        let drive = self.drives.first;
        let at_ns = time_ns(drive.min(self.first.order));
        if at_ns > until_ns || at_ns == NEVER_NS {
            return None;
        }
        if drive < self.first.order {
            let index = drive as u32 & ((1 << DRIVE_BITS) - 1);
            return Some((at_ns, Happening::DriveReady(index)));
        }
        let next = self.heap.pop().unwrap_or(NOTHING);
        Some((at_ns, std::mem::replace(&mut self.first, next).happening))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_queue_keeps_the_order_of_times_and_of_planning(
            steps in proptest::collection::vec((0u64..20, 0u64..4, 0u32..12), 0..200),
        ) {
            let (mut queue, mut model, mut now_ns) = (Queue::new(5), BTreeMap::new(), 0);
            for (number, (later_ns, passes_ns, drive)) in (0u32..).zip(steps) {
                let at_ns = now_ns + 1 + later_ns;
                if drive < 5 {
                    let is_planned = |(time_ns, happens): (&(u64, u32), &String)| {
                        (*happens == format!("{:?}", Happening::DriveReady(drive))).then_some(*time_ns)
                    };
                    let before = model.iter().find_map(is_planned);
                    if before.is_none_or(|(time_ns, _)| time_ns != at_ns) {
                        before.and_then(|key| model.remove(&key));
                        model.insert((at_ns, number), format!("{:?}", Happening::DriveReady(drive)));
                    }
                    queue.plan_drive(drive, Some(at_ns));
                } else {
                    queue.plan(at_ns, Happening::Arrive(number));
                    model.insert((at_ns, number), format!("{:?}", Happening::Arrive(number)));
                }
                now_ns += passes_ns;
                while let Some((at_ns, happening)) = queue.pop(now_ns) {
                    if let Happening::DriveReady(drive) = happening {
                        queue.plan_drive(drive, None);
                    }
                    let first = model.pop_first().map(|((at_ns, _), happens)| (at_ns, happens));
                    prop_assert_eq!(Some((at_ns, format!("{happening:?}"))), first);
                }
                let next_ns = model.keys().next().map_or(NEVER_NS, |key| key.0);
                prop_assert!(next_ns > now_ns, "what is due was popped");
                prop_assert_eq!(queue.next_ns(), next_ns);
            }
        }
    }
}
