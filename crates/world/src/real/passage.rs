//! How long this program holds its operations: until the kernel gets them, and after the kernel has completed them.
//!
//! A thread works in turns: it looks for completions, then runs the tasks that they wake, and gives the kernel what
//! these begin.
//!
//! Invariant: what is told is not less than what the program held. A completion that the thread found without waiting
//! for it counts as held since the thread had looked before, so the rest of a latency is really spent below.
//!
//! Limits: the time in the call that submits is the kernel's.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use slab::Slab;

/// Times of the operations of one thread between begin and end.
pub(super) struct Passages {
    under_way: RefCell<Slab<UnderWay>>,
    /// Operations that the kernel has not received yet.
    here: RefCell<Vec<usize>>,
    turn_began: Cell<Instant>,
    /// Time at which the thread began to look for completions.
    look_began: Cell<Instant>,
    /// Earliest time at which the kernel may have completed what this turn finds.
    unseen_since: Cell<Instant>,
}

struct UnderWay {
    begun: Instant,
    left: Instant,
}

impl Passages {
    pub fn new(now: Instant) -> Passages {
        Passages {
            under_way: RefCell::default(),
            here: RefCell::default(),
            turn_began: Cell::new(now),
            look_began: Cell::new(now),
            unseen_since: Cell::new(now),
        }
    }

    /// Notes the begin of an operation and returns its slot.
    pub fn begin(&self, now: Instant) -> usize {
        let slot = self.under_way.borrow_mut().insert(UnderWay { begun: now, left: now });
        self.here.borrow_mut().push(slot);
        slot
    }

    /// Notes that the kernel receives all begun operations.
    pub fn leave(&self, now: Instant) {
        let mut under_way = self.under_way.borrow_mut();
        for slot in self.here.borrow_mut().drain(..) {
            // It may have ended already: then the slot is empty, or belongs to another one that leaves now, too.
            if let Some(operation) = under_way.get_mut(slot) {
                operation.left = now;
            }
        }
    }

    /// Notes the end of a turn: the thread submits and looks for completions.
    pub fn look(&self, now: Instant) {
        self.leave(now);
        self.look_began.set(now);
    }

    /// Notes the begin of a turn, with the completions that were found.
    pub fn turn(&self, now: Instant) {
        let (began, look_began) = (self.turn_began.replace(now), self.look_began.get());
        // A thread that waited longer than it had worked was there when they came.
        let was_there =
            now.saturating_duration_since(look_began) > look_began.saturating_duration_since(began);
        self.unseen_since.set(if was_there { now } else { began });
    }

    /// Notes a completion. Returns how long the program held the operation.
    pub fn end(&self, slot: usize, now: Instant) -> Duration {
        let operation = self.under_way.borrow_mut().remove(slot);
        let back = self.unseen_since.get().max(operation.left);
        operation.left.saturating_duration_since(operation.begun) + now.saturating_duration_since(back)
    }

    /// Notes that an operation's future was dropped, so that its time is not needed.
    pub fn forget(&self, slot: usize) {
        self.under_way.borrow_mut().remove(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_program_is_charged_for_an_operation_before_it_leaves_and_while_its_completion_is_not_seen() {
        let start = Instant::now();
        let passages = Passages::new(start);
        passages.turn(start);
        let (first, second) = (passages.begin(start + MS), passages.begin(start + 2 * MS));
        passages.leave(start + 3 * MS);
        let late = passages.begin(start + 4 * MS);
        passages.look(start + 5 * MS);
        passages.turn(start + 105 * MS);
        assert_eq!(
            passages.end(first, start + 106 * MS),
            3 * MS,
            "2 before it left, 1 in the turn that found it"
        );
        assert_eq!(passages.end(late, start + 107 * MS), 3 * MS, "1 until the thread looked, 2 in the turn");

        passages.look(start + 135 * MS);
        passages.turn(start + 136 * MS);
        let held = passages.end(second, start + 136 * MS);
        assert_eq!(
            held,
            32 * MS,
            "1 before it left; it may have been complete when the thread began to work"
        );
    }

    #[test]
    fn an_operation_that_ended_before_the_others_left_leaves_its_slot_to_the_next() {
        let start = Instant::now();
        let passages = Passages::new(start);
        let gone = passages.begin(start);
        passages.forget(gone);
        let next = passages.begin(start + MS);
        assert_eq!(next, gone);
        passages.look(start + 2 * MS);
        passages.turn(start + 9 * MS);
        assert_eq!(passages.end(next, start + 9 * MS), MS);
    }
}
