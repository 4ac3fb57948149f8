//! The hosts' side of modelled storage: processors and queues, in front of the model of the array.
//!
//! * Each request takes a time of one of its host's processors; it waits when all are busy. The time itself
//!   adds nothing to its latency: links have their latency from figures that hosts measured, which hold it
//!   already.
//! * A volume takes so many requests at a time; others wait in the host, in their order.
//! * Operations of the load take processor time, too. It is counted, and delays nothing.
//!
//! Limits: processors do nothing else; all volumes of all hosts have the same depth.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use array::HostCosts;
use results::StoragePart;
use world::sim::{FileId, RequestId, StorageFailure, StorageModel, StorageRequest, VolumeId};
use world::{FixedHashMap, Time};

/// Handle on the hosts' side; clones are the same.
#[derive(Clone)]
pub struct Hosts(Rc<RefCell<State>>);

struct State {
    costs: HostCosts,
    array: Box<dyn StorageModel>,
    hosts: Vec<Host>,
    volumes: BTreeMap<VolumeId, Volume>,
    /// Where requests went that the array works on.
    under_way: FixedHashMap<u64, VolumeId>,
    /// Requests that wait for a processor, by the time when they get one.
    held: BTreeMap<(Time, u64), StorageRequest>,
    sequence: u64,
    since: Time,
}

struct Host {
    name: String,
    /// When each processor is free.
    processors_free: Vec<Time>,
    requests: u64,
    operations: u64,
}

struct Volume {
    host: usize,
    under_way: u32,
    waiting: VecDeque<StorageRequest>,
}

impl Hosts {
    /// Hosts by name with their processors, in front of `array`.
    pub fn new(costs: HostCosts, hosts: &[(String, u32)], array: Box<dyn StorageModel>) -> Hosts {
        let hosts = hosts.iter().map(|(name, processors)| Host {
            name: name.clone(),
            processors_free: vec![Time::default(); (*processors).max(1) as usize],
            requests: 0,
            operations: 0,
        });
        Hosts(Rc::new(RefCell::new(State {
            costs,
            array,
            hosts: hosts.collect(),
            volumes: BTreeMap::new(),
            under_way: FixedHashMap::default(),
            held: BTreeMap::new(),
            sequence: 0,
            since: Time::default(),
        })))
    }

    /// Operations that the load of a host has done.
    pub fn operations(&self, host: &str, count: u64) {
        if let Some(host) = self.0.borrow_mut().hosts.iter_mut().find(|known| known.name == host) {
            host.operations += count;
        }
    }

    /// Begins a new window of [`Hosts::report`].
    pub fn reset(&self, now: Time) {
        let mut state = self.0.borrow_mut();
        state.since = now;
        state.hosts.iter_mut().for_each(|host| (host.requests, host.operations) = (0, 0));
    }

    /// The processors of each host since the last reset.
    pub fn report(&self, now: Time, test: u32) -> Vec<StoragePart> {
        let state = self.0.borrow();
        let seconds = now.since(state.since).as_secs_f64().max(1e-9);
        let part = |host: &Host| {
            let processors = host.processors_free.len() as f64;
            let HostCosts { io_us, operation_us, .. } = state.costs;
            let busy_s = (host.requests as f64 * io_us + host.operations as f64 * operation_us) / 1e6;
            StoragePart {
                test,
                kind: "processor".to_owned(),
                name: format!("{} {processors} processors", host.name),
                seconds,
                busy_share: busy_s / seconds / processors,
                ..StoragePart::default()
            }
        };
        state.hosts.iter().map(part).collect()
    }
}

impl State {
    /// Sends a request on its way, as soon as a processor has looked at it.
    fn dispatch(&mut self, now: Time, request: StorageRequest) {
        let Some(volume) = self.volumes.get_mut(&request.volume) else {
            self.array.submit(now, request);
            return;
        };
        volume.under_way += 1;
        self.under_way.insert(request.id.0, request.volume);
        let host = &mut self.hosts[volume.host];
        host.requests += 1;
        let free = host.processors_free.iter_mut().min().expect("a host has a processor");
        let start = (*free).max(now);
        free.ns = start.ns + (self.costs.io_us * 1e3) as u64;
        if start > now {
            self.sequence += 1;
            self.held.insert((start, self.sequence), request);
        } else {
            self.array.submit(now, request);
        }
    }

    /// Submits what has got its processor by now.
    fn release(&mut self, now: Time) {
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), request) = entry.remove_entry();
            self.array.submit(at, request);
        }
    }
}

impl StorageModel for Hosts {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        let state = &mut *self.0.borrow_mut();
        if let Some(host) = state.hosts.iter().position(|known| known.name == host) {
            state.volumes.insert(volume, Volume { host, under_way: 0, waiting: VecDeque::new() });
        }
        state.array.attach(volume, host, path);
    }

    fn set_file_size(&mut self, volume: VolumeId, file: FileId, bytes: u64) {
        self.0.borrow_mut().array.set_file_size(volume, file, bytes);
    }

    fn fill_file(&mut self, volume: VolumeId, file: FileId) {
        self.0.borrow_mut().array.fill_file(volume, file);
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        let state = &mut *self.0.borrow_mut();
        match state.volumes.get_mut(&request.volume) {
            Some(volume) if volume.under_way >= state.costs.queue_depth => volume.waiting.push_back(request),
            _ => state.dispatch(now, request),
        }
    }

    fn next_completion(&self) -> Option<Time> {
        let state = self.0.borrow();
        let held = state.held.first_key_value().map(|((at, _), _)| *at);
        [state.array.next_completion(), held].into_iter().flatten().min()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        let state = &mut *self.0.borrow_mut();
        loop {
            state.release(now);
            let first = completed.len();
            state.array.take_completions(now, completed);
            for id in &completed[first..] {
                let Some(at) = state.under_way.remove(&id.0) else { continue };
                let Some(volume) = state.volumes.get_mut(&at) else { continue };
                volume.under_way -= 1;
                if let Some(next) = volume.waiting.pop_front() {
                    state.dispatch(now, next);
                }
            }
            if completed.len() == first {
                return;
            }
        }
    }

    fn take_failure(&mut self, id: RequestId) -> Option<StorageFailure> {
        self.0.borrow_mut().array.take_failure(id)
    }
}

#[cfg(test)]
mod tests {
    use world::Duration;
    use world::sim::{FixedLatency, FixedLatencyTimes, StorageOp};

    use super::*;

    /// When each of `count` reads completes that are submitted at once.
    fn completions_us(costs: HostCosts, processors: u32, count: u64) -> Vec<u64> {
        let times = FixedLatencyTimes {
            read_latency: Duration::from_micros(100),
            bytes_per_second: u64::MAX,
            jitter: Duration::ZERO,
            parallel: 1000,
            ..FixedLatencyTimes::default()
        };
        let mut hosts =
            Hosts::new(costs, &[("h".to_owned(), processors)], Box::new(FixedLatency::new(1, times)));
        hosts.attach(VolumeId(1), "h", "/v");
        for id in 0..count {
            let (volume, file) = (VolumeId(1), FileId(1));
            let id = RequestId(id);
            hosts.submit(
                Time::default(),
                StorageRequest { id, volume, file, op: StorageOp::Read, offset: 0, bytes: 4096 },
            );
        }
        let (mut times_us, mut done) = (Vec::new(), Vec::new());
        while let Some(at) = hosts.next_completion() {
            hosts.take_completions(at, &mut done);
            times_us.extend(done.drain(..).map(|_| at.ns / 1000));
        }
        times_us
    }

    #[test]
    fn requests_wait_for_a_processor_only_when_all_are_busy() {
        let costs = HostCosts { io_us: 10.0, operation_us: 0.0, queue_depth: 100 };
        assert_eq!(completions_us(costs.clone(), 2, 2), [100, 100], "the time itself is part of the link's");
        assert_eq!(completions_us(costs, 2, 5), [100, 100, 110, 110, 120]);
    }

    #[test]
    fn a_volume_takes_no_more_requests_at_a_time_than_its_depth() {
        let costs = HostCosts { io_us: 0.0, operation_us: 0.0, queue_depth: 2 };
        assert_eq!(completions_us(costs, 1, 5), [100, 100, 200, 200, 300]);
    }
}
