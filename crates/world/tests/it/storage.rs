//! Storage models: latency, queues, completion in any order, volumes of several hosts on one model.

use std::cell::RefCell;

use world::sim::{
    FileId, RequestId, StorageFailure, StorageModel, StorageOp, StorageRequest, VolumeId, ZeroLatency,
};
use world::{Duration, ErrorKind, Time};

use super::*;

fn one_at_a_time() -> SimConfig {
    let times = FixedLatencyTimes {
        read_latency: Duration::from_millis(1),
        write_latency: Duration::from_millis(2),
        sync_latency: Duration::from_millis(5),
        bytes_per_second: 4_096_000,
        jitter: Duration::ZERO,
        parallel: 1,
    };
    SimConfig { storage: Box::new(FixedLatency::new(1, times)), ..SimConfig::default() }
}

#[test]
fn an_operation_takes_its_latency_and_its_bytes() {
    let (sim, world) = with_config(1, one_at_a_time());
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        let mut at_ms = Vec::new();
        write(&file, 0, buf(8192, 1)).await;
        at_ms.push(world.now().ns / 1_000_000);
        read(&file, 0, 4096).await;
        at_ms.push(world.now().ns / 1_000_000);
        file.sync().await.expect("syncs");
        at_ms.push(world.now().ns / 1_000_000);
        assert_eq!(at_ms, [2 + 2, 4 + 2, 6 + 5]);
    });
}

#[test]
fn requests_queue_on_their_volume_and_not_on_another() {
    for (second, done_ms) in [("/d/y", 6), ("/e/y", 3)] {
        let (sim, world) = with_config(1, one_at_a_time());
        sim.volume("a", "/e", 1 << 30);
        sim.run_until(async {
            let (x, y) = (create(&world, "/d/x").await, create(&world, second).await);
            futures_util::future::join(write(&x, 0, block(1)), write(&y, 0, block(1))).await;
        });
        assert_eq!(sim.now().ns, done_ms * 1_000_000);
    }
}

#[test]
fn jitter_comes_from_the_seed() {
    let run = |seed| {
        let (sim, world) = with_config(1, SimConfig { storage: slow_storage(seed), ..SimConfig::default() });
        sim.run_until(durable_file(&world, "/d/x", 4096, 1));
        sim.now()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Storage model that holds requests until four have come or 1 ms has passed, then completes the newest first.
#[derive(Default)]
struct Batching {
    held: Vec<RequestId>,
    due: Option<Time>,
    seen: Rc<RefCell<Vec<String>>>,
}

impl StorageModel for Batching {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        self.seen.borrow_mut().push(format!("{} is {host}:{path}", volume.0));
    }
    fn submit(&mut self, now: Time, request: StorageRequest) {
        if request.op == StorageOp::Write {
            self.seen.borrow_mut().push(format!("{} {}+{}", request.volume.0, request.offset, request.bytes));
        }
        self.held.push(request.id);
        let wait = if self.held.len() < 4 { Duration::from_millis(1) } else { Duration::ZERO };
        self.due = Some(self.due.map_or(now + wait, |due| due.min(now + wait)));
    }
    fn next_completion(&self) -> Option<Time> {
        self.due
    }
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        if self.due.is_some_and(|due| due <= now) {
            completed.extend(self.held.drain(..).rev());
            self.due = None;
        }
    }
}

#[test]
fn a_model_sees_volumes_of_all_hosts_and_may_complete_late_and_out_of_order() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let model = Batching { seen: seen.clone(), ..Batching::default() };
    let sim = Simulation::new(1, SimConfig { storage: Box::new(model), ..SimConfig::default() });
    let order = Rc::new(RefCell::new(Vec::new()));
    let tasks: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|host| {
            let world = sim.host(host);
            sim.volume(host, "/d", 1 << 30);
            let order = order.clone();
            world.clone().spawn(async move {
                let file = create(&world, "/d/x").await;
                let both = [0, 4096].map(|at| {
                    let (file, order) = (file.clone(), order.clone());
                    async move {
                        write(&file, at, block(1)).await;
                        order.borrow_mut().push(format!("{host}{at}"));
                    }
                });
                futures_util::future::join_all(both).await;
                file.sync().await.expect("syncs");
            })
        })
        .collect();
    sim.run_until(futures_util::future::join_all(tasks));
    assert_eq!(
        *order.borrow(),
        ["b0", "b4096", "a0", "a4096"],
        "hosts in the order in which the model completed them"
    );
    assert_eq!(sim.now().ns, 1_000_000, "four writes at once did not wait, the two syncs did");
    assert_eq!(
        *seen.borrow(),
        [
            "1 is a:/",
            "2 is a:/d",
            "3 is b:/",
            "4 is b:/d",
            "2 0+4096",
            "2 4096+4096",
            "4 0+4096",
            "4 4096+4096"
        ]
    );
}

/// Storage model that notes file sizes, loses the first write, and refuses all others for lack of space.
#[derive(Default)]
struct Geometry {
    inner: ZeroLatency,
    sizes: Rc<RefCell<Vec<u64>>>,
    writes: Vec<RequestId>,
}

impl StorageModel for Geometry {
    fn attach(&mut self, _volume: VolumeId, _host: &str, _path: &str) {}
    fn set_file_size(&mut self, _volume: VolumeId, _file: FileId, bytes: u64) {
        self.sizes.borrow_mut().push(bytes);
    }
    fn submit(&mut self, now: Time, request: StorageRequest) {
        if request.op == StorageOp::Write {
            self.writes.push(request.id);
        }
        self.inner.submit(now, request);
    }
    fn next_completion(&self) -> Option<Time> {
        self.inner.next_completion()
    }
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.inner.take_completions(now, completed);
    }
    fn take_failure(&mut self, id: RequestId) -> Option<StorageFailure> {
        let write = self.writes.iter().position(|write| *write == id)?;
        Some(if write == 0 { StorageFailure::Lost } else { StorageFailure::NoSpace })
    }
}

#[test]
fn a_model_learns_sizes_and_removals_and_can_fail_a_request() {
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let model = Geometry { sizes: sizes.clone(), ..Geometry::default() };
    let (sim, world) = with_config(1, SimConfig { storage: Box::new(model), ..SimConfig::default() });
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        file.set_size(1 << 20).await.expect("sizes");
        let error = file.write_at(0, block(1)).await.0.expect_err("the model fails it");
        assert!(error.to_string().contains("lost"), "{error}");
        let error = file.write_at(0, block(1)).await.0.expect_err("the model fails it");
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        drop(file);
        world.remove("/d/x").await.expect("removes");
        world.sync_dir("/d").await.expect("syncs");
    });
    assert_eq!(sizes.borrow()[..], [1 << 20, 0]);
}

/// Storage model that runs ahead as far as it may, and checks that the world keeps to what it announced.
struct Quiet {
    inner: FixedLatency,
    passed: Time,
    ran_ahead: Rc<RefCell<u32>>,
}

impl StorageModel for Quiet {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        self.inner.attach(volume, host, path);
    }
    fn submit(&mut self, now: Time, request: StorageRequest) {
        assert!(now >= self.passed, "submitted at {now:?}, which has passed");
        self.inner.submit(now, request);
    }
    fn next_completion(&self) -> Option<Time> {
        self.inner.next_completion()
    }
    fn run_ahead(&mut self, until: Option<Time>) -> Option<Time> {
        let completion = self.inner.next_completion();
        if let Some(passed) = until.into_iter().chain(completion).min() {
            *self.ran_ahead.borrow_mut() += u32::from(passed > self.passed);
            self.passed = self.passed.max(passed);
        }
        completion
    }
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.inner.take_completions(now, completed);
    }
}

#[test]
fn a_model_lets_time_pass_only_while_nothing_is_submitted() {
    let ran_ahead = Rc::new(RefCell::new(0));
    let inner = FixedLatency::new(1, FixedLatencyTimes::default());
    let model = Quiet { inner, passed: Time::default(), ran_ahead: ran_ahead.clone() };
    let (sim, world) = with_config(1, SimConfig { storage: Box::new(model), ..SimConfig::default() });
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        // Timers before, at and after completions; tasks that wake each other.
        let tasks: Vec<_> = (0..8u64)
            .map(|task| {
                let (file, world) = (file.clone(), world.clone());
                world.clone().spawn(async move {
                    for step in 0..20 {
                        write(&file, task * 4096, block(1)).await;
                        world.sleep(Duration::from_micros(task * step * 7)).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
    assert!(*ran_ahead.borrow() > 100, "{} times", ran_ahead.borrow());
}

/// Storage model with one processor per lane, which notes the lanes of requests and operations.
#[derive(Default)]
struct Lanes {
    inner: ZeroLatency,
    seen: Rc<RefCell<Vec<Option<u32>>>>,
}

impl StorageModel for Lanes {
    fn attach(&mut self, _volume: VolumeId, _host: &str, _path: &str) {}
    fn submit(&mut self, now: Time, request: StorageRequest) {
        self.seen.borrow_mut().push(request.lane);
        self.inner.submit(now, request);
    }
    fn next_completion(&self) -> Option<Time> {
        self.inner.next_completion()
    }
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.inner.take_completions(now, completed);
    }
    fn operation_time(&mut self, _now: Time, _host: &str, lane: u32) -> Duration {
        self.seen.borrow_mut().push(Some(lane));
        Duration::from_millis(3)
    }
}

#[test]
fn a_model_learns_the_lane_of_requests_and_operations_and_those_of_none_take_no_time() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let model = Lanes { seen: seen.clone(), ..Lanes::default() };
    let (sim, world) = with_config(1, SimConfig { storage: Box::new(model), ..SimConfig::default() });
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        write(&file, 0, block(1)).await;
        world.operation().await;
        let begun = world.now();
        assert_eq!(begun, Time::default(), "without a lane an operation takes no time");
        let lane = world.in_lane(7);
        let file = create(&lane, "/d/y").await;
        write(&file, 0, block(2)).await;
        lane.operation().await;
        assert_eq!(lane.now().since(begun), Duration::from_millis(3));
        assert_eq!(lane.name(), world.name());
    });
    assert_eq!(seen.borrow()[..], [None, Some(7), Some(7)]);
}
