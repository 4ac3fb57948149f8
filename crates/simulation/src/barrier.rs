//! SharedBarrier of one simulation that wait for each other.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::rc::Rc;

use world::LocalFuture;
use world::sync::Notify;

/// The hosts of a simulation.
#[derive(Clone)]
pub struct SharedBarrier(Rc<State>);

struct State {
    members: Cell<usize>,
    arrived: Cell<usize>,
    point: Cell<u64>,
    passed: Notify,
}

/// One of the hosts; leaves the barrier when dropped.
pub struct HostBarrier(SharedBarrier);

impl SharedBarrier {
    pub fn of(members: usize) -> SharedBarrier {
        SharedBarrier(Rc::new(State {
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

impl HostBarrier {
    pub fn of(shared: &SharedBarrier) -> HostBarrier {
        HostBarrier(shared.clone())
    }
}

/// A host at a point. If it goes before all have come, it was not there.
struct Arrival {
    barrier: SharedBarrier,
    point: u64,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let state = &self.barrier.0;
        if state.point.get() == self.point {
            state.arrived.set(state.arrived.get() - 1);
        }
    }
}

impl campaign::barrier::Barrier for HostBarrier {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        let arrival = Arrival { barrier: self.0.clone(), point: self.0.0.point.get() };
        self.0.0.arrived.set(self.0.0.arrived.get() + 1);
        self.0.pass_if_all_are_here();
        Box::pin(async move {
            let state = &arrival.barrier.0;
            while state.point.get() == arrival.point {
                state.passed.wait().await;
            }
        })
    }
}

impl Drop for HostBarrier {
    fn drop(&mut self) {
        self.0.0.members.set(self.0.0.members.get() - 1);
        self.0.pass_if_all_are_here();
    }
}
