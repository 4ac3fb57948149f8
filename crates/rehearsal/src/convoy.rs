//! Hosts of one simulation that wait for each other.

use std::cell::Cell;
use std::rc::Rc;

use world::LocalFuture;
use world::sync::Notify;

/// The hosts of a rehearsal.
#[derive(Clone)]
pub struct Convoy(Rc<State>);

struct State {
    members: Cell<usize>,
    arrived: Cell<usize>,
    point: Cell<u64>,
    passed: Notify,
}

/// One of the hosts; leaves the convoy when dropped.
pub struct Member(Convoy);

impl Convoy {
    pub fn of(members: usize) -> Convoy {
        Convoy(Rc::new(State {
            members: Cell::new(members),
            arrived: Cell::new(0),
            point: Cell::new(0),
            passed: Notify::new(),
        }))
    }

    fn pass_if_all_are_here(&self) {
        let state = &self.0;
        if state.arrived.get() >= state.members.get() {
            state.arrived.set(0);
            state.point.set(state.point.get() + 1);
            state.passed.notify_all();
        }
    }
}

impl Member {
    pub fn of(convoy: &Convoy) -> Member {
        Member(convoy.clone())
    }
}

impl campaign::convoy::Convoy for Member {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        let convoy = self.0.clone();
        let point = convoy.0.point.get();
        convoy.0.arrived.set(convoy.0.arrived.get() + 1);
        convoy.pass_if_all_are_here();
        Box::pin(async move {
            while convoy.0.point.get() == point {
                convoy.0.passed.wait().await;
            }
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.0.members.set(self.0.0.members.get() - 1);
        self.0.pass_if_all_are_here();
    }
}
