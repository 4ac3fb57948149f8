//! The hosts' side of modelled storage: processors and queues, in front of the model of the array.
//!
//! * Each request takes a time of one of its host's processors, and waits while it is busy. The time itself
//!   adds nothing to its latency: links have their latency from figures that hosts measured, which hold it
//!   already.
//! * A volume takes a limited number of requests at a time; others wait in the host, in their order.
//! * Operations of the load take processor time, too.
//! * What an instance does takes turns on one processor, as on the thread of a real one. That thread sees what
//!   the storage has completed when it has done what it was doing before. Other requests, of a checksum or a
//!   backup, take any free processor.
//!
//! Limits: processors do nothing else; all volumes of all hosts have the same depth.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use array::HostCosts;
use results::StoragePart;
use world::sim::{FileId, RequestId, StorageFailure, StorageModel, StorageRequest, VolumeId};
use world::{Duration, Time};

/// Processors and request queues of the hosts, in front of the array. Clones share their state.
#[derive(Clone)]
pub struct Hosts(Rc<RefCell<HostsState>>);

struct HostsState {
    costs: HostCosts,
    array: Box<dyn StorageModel>,
    hosts: Vec<Host>,
    /// Volumes by number; `None` for volumes of other hosts.
    volumes: Vec<Option<Volume>>,
    /// Requests that the array is working on; the array knows them by their index here.
    under_way: Vec<Sent>,
    free: Vec<u64>,
    failed: BTreeMap<RequestId, StorageFailure>,
    /// Requests that wait for a processor, by the time when they get one.
    held: BTreeMap<(Time, u64), StorageRequest>,
    /// Completed requests whose processor is busy, by the time when it sees them.
    unseen: BTreeMap<(Time, u64), RequestId>,
    sequence: u64,
    since: Time,
}

/// Request as the host knows it.
#[derive(Clone, Copy)]
struct Sent {
    id: RequestId,
    volume: VolumeId,
    lane: Option<u32>,
}

struct Host {
    name: String,
    /// Time at which each processor becomes free.
    processors_free: Vec<Time>,
    requests: u64,
    operations: u64,
}

impl Host {
    /// Time at which the processor of a lane becomes free.
    fn processor_of(&mut self, lane: u32) -> &mut Time {
        let processors = self.processors_free.len();
        &mut self.processors_free[lane as usize % processors]
    }
}

struct Volume {
    host: usize,
    under_way: u32,
    waiting: VecDeque<StorageRequest>,
}

impl Hosts {
    /// Places hosts with their processors in front of `array`.
    pub fn new(costs: HostCosts, hosts: &[(String, u32)], array: Box<dyn StorageModel>) -> Hosts {
        let hosts = hosts.iter().map(|(name, processors)| Host {
            name: name.clone(),
            processors_free: vec![Time::default(); (*processors).max(1) as usize],
            requests: 0,
            operations: 0,
        });
        Hosts(Rc::new(RefCell::new(HostsState {
            costs,
            array,
            hosts: hosts.collect(),
            volumes: Vec::new(),
            under_way: Vec::new(),
            free: Vec::new(),
            failed: BTreeMap::new(),
            held: BTreeMap::new(),
            unseen: BTreeMap::new(),
            sequence: 0,
            since: Time::default(),
        })))
    }

    /// Starts a new window of [`Hosts::report`].
    pub fn reset(&self, now: Time) {
        let mut state = self.0.borrow_mut();
        state.since = now;
        state.hosts.iter_mut().for_each(|host| (host.requests, host.operations) = (0, 0));
    }

    /// Utilisation of each host's processors since the last reset.
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

impl HostsState {
    fn volume(&mut self, id: VolumeId) -> Option<&mut Volume> {
        self.volumes.get_mut(id.0 as usize)?.as_mut()
    }

    /// Submits a request as soon as a processor of its host has handled it.
    fn dispatch(&mut self, now: Time, request: StorageRequest) {
        let sent = Sent { id: request.id, volume: request.volume, lane: request.lane };
        let id = match self.free.pop() {
            Some(id) => {
                self.under_way[id as usize] = sent;
                id
            }
            None => {
                self.under_way.push(sent);
                self.under_way.len() as u64 - 1
            }
        };
        let request = StorageRequest { id: RequestId(id), ..request };
        let start = self.pass_processor(now, request.volume, request.lane);
        if start > now {
            self.sequence += 1;
            self.held.insert((start, self.sequence), request);
        } else {
            self.array.submit(now, request);
        }
    }

    /// Occupies a processor of the volume's host for a request, and returns the time at which that begins.
    fn pass_processor(&mut self, now: Time, volume: VolumeId, lane: Option<u32>) -> Time {
        let Some(volume) = self.volume(volume) else { return now };
        volume.under_way += 1;
        let host = volume.host;
        let host = &mut self.hosts[host];
        host.requests += 1;
        let free = match lane {
            Some(lane) => host.processor_of(lane),
            None => host.processors_free.iter_mut().min().expect("a host has a processor"),
        };
        let start = (*free).max(now);
        free.ns = start.ns + (self.costs.io_us * 1e3) as u64;
        start
    }

    /// Submits the requests whose processor time has begun.
    fn release(&mut self, now: Time) {
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), request) = entry.remove_entry();
            self.array.submit(at, request);
        }
    }

    /// Handles a completion of the array: submits the next request of its volume. Returns the request's own identifier
    /// if its processor sees it now.
    fn completed(&mut self, now: Time, id: RequestId) -> Option<RequestId> {
        let Sent { id: own, volume: at, lane } = self.under_way[id.0 as usize];
        if let Some(failure) = self.array.take_failure(id) {
            self.failed.insert(own, failure);
        }
        self.free.push(id.0);
        let seen = self.seen(now, at, lane);
        if let Some(volume) = self.volume(at) {
            volume.under_way -= 1;
            if let Some(next) = volume.waiting.pop_front() {
                self.dispatch(now, next);
            }
        }
        if seen <= now {
            return Some(own);
        }
        self.sequence += 1;
        self.unseen.insert((seen, self.sequence), own);
        None
    }

    /// Time at which the processor of a lane has done what it was doing.
    fn seen(&mut self, now: Time, volume: VolumeId, lane: Option<u32>) -> Time {
        let host = self.volume(volume).map(|volume| volume.host);
        let busy_until = host.zip(lane).map(|(host, lane)| *self.hosts[host].processor_of(lane));
        busy_until.unwrap_or(now)
    }
}

impl StorageModel for Hosts {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        let state = &mut *self.0.borrow_mut();
        if let Some(host) = state.hosts.iter().position(|known| known.name == host) {
            let index = volume.0 as usize;
            state.volumes.resize_with(state.volumes.len().max(index + 1), || None);
            state.volumes[index] = Some(Volume { host, under_way: 0, waiting: VecDeque::new() });
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
        let depth = state.costs.queue_depth;
        match state.volume(request.volume) {
            Some(volume) if volume.under_way >= depth => volume.waiting.push_back(request),
            _ => state.dispatch(now, request),
        }
    }

    fn next_completion(&self) -> Option<Time> {
        let state = self.0.borrow();
        earlier(state.array.next_completion(), earlier(first(&state.held), first(&state.unseen)))
    }

    fn run_ahead(&mut self, until: Option<Time>) -> Option<Time> {
        let state = &mut *self.0.borrow_mut();
        let seen = first(&state.unseen);
        let until = earlier(until, seen);
        loop {
            let held = first(&state.held);
            let completion = state.array.run_ahead(earlier(until, held));
            match held.filter(|at| until.is_none_or(|until| *at <= until)) {
                Some(at) if completion.is_none_or(|completion| completion > at) => state.release(at),
                _ => return earlier(earlier(completion, held), seen),
            }
        }
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        let state = &mut *self.0.borrow_mut();
        while let Some(entry) = state.unseen.first_entry().filter(|entry| entry.key().0 <= now) {
            completed.push(entry.remove());
        }
        state.release(now);
        let mut done = Vec::new();
        loop {
            state.array.take_completions(now, &mut done);
            if done.is_empty() {
                return;
            }
            completed.extend(done.drain(..).filter_map(|id| state.completed(now, id)));
        }
    }

    fn operation_time(&mut self, now: Time, host: &str, lane: u32) -> Duration {
        let state = &mut *self.0.borrow_mut();
        let Some(host) = state.hosts.iter_mut().find(|known| known.name == host) else {
            return Duration::ZERO;
        };
        host.operations += 1;
        let free = host.processor_of(lane);
        free.ns = (*free).max(now).ns + (state.costs.operation_us * 1e3) as u64;
        free.since(now)
    }

    fn take_failure(&mut self, id: RequestId) -> Option<StorageFailure> {
        let failed = &mut self.0.borrow_mut().failed;
        if failed.is_empty() { None } else { failed.remove(&id) }
    }
}

/// Time of the first of those that wait.
fn first<T>(waiting: &BTreeMap<(Time, u64), T>) -> Option<Time> {
    waiting.first_key_value().map(|((at, _), _)| *at)
}

/// Earlier of two times, if there are any.
fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use world::sim::{FixedLatency, FixedLatencyTimes, StorageOp};

    use super::*;

    /// Hosts in front of a storage that reads in 100 us.
    fn model(costs: HostCosts, processors: u32) -> Hosts {
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
        hosts
    }

    fn submit(hosts: &mut Hosts, id: u64, lane: Option<u32>) {
        let (id, volume, file) = (RequestId(id), VolumeId(1), FileId(1));
        let read = StorageRequest { id, lane, volume, file, op: StorageOp::Read, offset: 0, bytes: 4096 };
        hosts.submit(Time::default(), read);
    }

    /// Completion times of all that is under way, us.
    fn all_us(hosts: &mut Hosts) -> Vec<u64> {
        let (mut times_us, mut done) = (Vec::new(), Vec::new());
        while let Some(at) = hosts.next_completion() {
            hosts.take_completions(at, &mut done);
            times_us.extend(done.drain(..).map(|_| at.ns / 1000));
        }
        times_us
    }

    /// Completion times of `count` reads of a lane that are submitted at once, us.
    fn completions_us(costs: HostCosts, processors: u32, lane: Option<u32>, count: u64) -> Vec<u64> {
        let mut hosts = model(costs, processors);
        (0..count).for_each(|id| submit(&mut hosts, id, lane));
        all_us(&mut hosts)
    }

    #[test]
    fn requests_wait_for_a_processor_only_when_all_are_busy() {
        let costs = HostCosts { io_us: 10.0, operation_us: 0.0, queue_depth: 100 };
        let us = |count| completions_us(costs.clone(), 2, None, count);
        assert_eq!(us(2), [100, 100], "the time itself is part of the link's");
        assert_eq!(us(5), [100, 100, 110, 110, 120]);
    }

    #[test]
    fn requests_and_operations_of_a_lane_take_turns_on_a_processor() {
        let costs = HostCosts { io_us: 10.0, operation_us: 100.0, queue_depth: 100 };
        let hosts = [("h".to_owned(), 2)];
        let array = Box::new(FixedLatency::new(1, FixedLatencyTimes::default()));
        let mut hosts = Hosts::new(costs.clone(), &hosts, array);
        let mut after_us =
            |now_us: u64, lane| hosts.operation_time(Time { ns: now_us * 1000 }, "h", lane).as_micros();
        assert_eq!([after_us(0, 0), after_us(0, 0), after_us(50, 0)], [100, 200, 250]);
        assert_eq!([after_us(50, 1), after_us(50, 3), after_us(1000, 0)], [100, 200, 100]);
        assert_eq!(hosts.operation_time(Time::default(), "other", 0), Duration::ZERO);
        assert_eq!(completions_us(costs, 2, Some(1), 3), [100, 110, 120], "the other processor is free");
    }

    #[test]
    fn a_busy_processor_sees_a_completion_when_it_has_done_what_it_was_doing() {
        let costs = HostCosts { io_us: 10.0, operation_us: 500.0, queue_depth: 100 };
        for (lane, wanted_us) in [(Some(0), 510), (Some(1), 100), (None, 100)] {
            let mut hosts = model(costs.clone(), 2);
            submit(&mut hosts, 0, lane);
            hosts.operation_time(Time::default(), "h", 0);
            assert_eq!(all_us(&mut hosts), [wanted_us], "{lane:?}");
        }
    }

    #[test]
    fn a_volume_takes_no_more_requests_at_a_time_than_its_depth() {
        let costs = HostCosts { io_us: 0.0, operation_us: 0.0, queue_depth: 2 };
        assert_eq!(completions_us(costs, 1, None, 5), [100, 100, 200, 200, 300]);
    }
}
