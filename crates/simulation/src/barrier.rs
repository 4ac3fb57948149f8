//! Hosts that wait for each other: those of one storage domain in their simulation, and these with the other domains.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::rc::Rc;

use world::LocalFuture;
use world::sim::Meeting;
use world::sync::Notify;

/// Barrier between the hosts of a simulation.
#[derive(Clone)]
pub struct SharedBarrier(Rc<BarrierState>);

struct BarrierState {
    members: Cell<usize>,
    arrived: Cell<usize>,
    point: Cell<u64>,
    passed: Notify,
    /// Meeting point with the hosts of other storage domains, after all hosts of this one have arrived.
    meeting: Option<Meeting>,
}

/// Membership of one host in the barrier. Dropping it removes the host.
pub struct HostBarrier(SharedBarrier);

impl SharedBarrier {
    pub fn of(members: usize, meeting: Option<Meeting>) -> SharedBarrier {
        let state = Rc::new(BarrierState {
            members: Cell::new(members),
            arrived: Cell::new(0),
            point: Cell::new(0),
            passed: Notify::new(),
            meeting,
        });
        if let Some(meeting) = &state.meeting {
            let weak = Rc::downgrade(&state);
            meeting.when_met(move || weak.upgrade().iter().for_each(|state| state.pass()));
        }
        SharedBarrier(state)
    }
}

impl BarrierState {
    fn all_are_here(&self) -> bool {
        self.arrived.get() >= self.members.get()
    }

    fn pass_if_all_are_here(&self) {
        match &self.meeting {
            _ if !self.all_are_here() => {}
            Some(meeting) => meeting.arrive(),
            None => self.pass(),
        }
    }

    fn pass(&self) {
        self.arrived.set(0);
        self.point.set(self.point.get() + 1);
        self.passed.notify_all();
    }
}

impl HostBarrier {
    pub fn of(shared: &SharedBarrier) -> HostBarrier {
        HostBarrier(shared.clone())
    }
}

/// Arrival of a host at the barrier. If the host leaves before all have arrived, its arrival does not count.
struct Arrival {
    barrier: SharedBarrier,
    point: u64,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let state = &self.barrier.0;
        if state.point.get() == self.point {
            state.arrived.set(state.arrived.get() - 1);
            if let (Some(meeting), false) = (&state.meeting, state.all_are_here()) {
                meeting.withdraw();
            }
        }
    }
}

impl campaign::barrier::Barrier for HostBarrier {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        let arrival = Arrival { barrier: self.0.clone(), point: self.0.0.point.get() };
        self.0.0.arrived.set(self.0.0.arrived.get() + 1);
        self.0.0.pass_if_all_are_here();
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
        self.0.0.pass_if_all_are_here();
    }
}
