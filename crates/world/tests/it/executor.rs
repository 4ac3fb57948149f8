//! The executor: virtual time, order, determinism, teardown.

use std::cell::RefCell;
use std::future::pending;

use world::sim::{Outcome, RequestId, StorageModel, StorageRequest, VolumeId, ZeroLatency};
use world::sync::Notify;
use world::{Duration, Time};

use super::*;

/// Several tasks with I/O, sleeps, messages and random numbers.
async fn program(world: World) -> u64 {
    let file = create(&world, "/d/x").await;
    let tasks: Vec<_> = (0..8u64)
        .map(|task| {
            let (file, own) = (file.clone(), world.clone());
            world.spawn(async move {
                let mut sum = 0;
                for round in 0..20 {
                    let at = own.random_u64() % 64 * 4096;
                    write(&file, at, block(round)).await;
                    own.sleep(Duration::from_nanos(own.random_u64() % 1000)).await;
                    sum += read(&file, at, 4096).await[0] as u64 * (task + 1);
                    file.sync().await.expect("syncs");
                }
                sum
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await;
    }
    sum
}

fn run(seed: u64) -> (u64, u64, Time) {
    let (sim, world) = with_config(seed, SimConfig { storage: slow_storage(seed), ..SimConfig::default() });
    let sum = sim.run_until(program(world));
    sim.restart("a");
    (sum, sim.trace_hash(), sim.now())
}

#[test]
fn equal_seeds_give_equal_traces_and_other_seeds_other_ones() {
    let first = run(1);
    assert_eq!(first, run(1));
    let others: std::collections::BTreeSet<u64> = (0..10).map(|seed| run(seed).1).collect();
    assert_eq!(others.len(), 10);
}

#[test]
fn the_trace_depends_on_every_part_of_an_operation() {
    let trace = |host: &str, path: &str, offset: u64, len: usize, at_ns: u64, is_write: bool| {
        let sim = Simulation::new(1, SimConfig::default());
        let worlds = [sim.host("a"), sim.host("b")];
        let world = if host == "a" { &worlds[0] } else { &worlds[1] };
        sim.volume(host, "/d", 1 << 40);
        sim.run_until(async {
            world.sleep(Duration::from_nanos(at_ns)).await;
            let file = create(world, path).await;
            if is_write {
                write(&file, offset, buf(len, 1)).await;
            } else {
                let _ = file.read_at(offset, buf(len, 1)).await;
            }
        });
        sim.trace_hash()
    };
    let base = trace("a", "/d/x", 0, 4096, 10, true);
    assert_eq!(base, trace("a", "/d/x", 0, 4096, 10, true));
    assert_ne!(base, trace("b", "/d/x", 0, 4096, 10, true), "host");
    assert_ne!(base, trace("a", "/d/y", 0, 4096, 10, true), "path");
    assert_ne!(base, trace("a", "/d/x", 4096, 4096, 10, true), "offset");
    assert_ne!(base, trace("a", "/d/x", 0, 8192, 10, true), "length");
    assert_ne!(base, trace("a", "/d/x", 0, 4096, 11, true), "time");
    assert_ne!(base, trace("a", "/d/x", 0, 4096, 10, false), "kind");
}

#[test]
fn timers_fire_by_time_and_then_by_order_of_creation() {
    let (sim, world) = with_faults(1, Faults::default());
    let order = Rc::new(RefCell::new(Vec::new()));
    for (name, ms) in [('c', 20), ('a', 10), ('d', 20), ('b', 10)] {
        let (own, order) = (world.clone(), order.clone());
        drop(world.spawn(async move {
            own.sleep(Duration::from_millis(ms)).await;
            order.borrow_mut().push((name, own.now().ns / 1_000_000));
        }));
    }
    sim.run_until(world.sleep(Duration::from_secs(1)));
    assert_eq!(*order.borrow(), [('a', 10), ('b', 10), ('c', 20), ('d', 20)]);
    assert_eq!(sim.now().ns, 1_000_000_000, "time passes without waiting for it");
}

#[test]
fn a_dropped_sleep_does_not_hold_time_up() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        for _ in 0..5000 {
            let hour = Box::pin(world.sleep(Duration::from_secs(3600)));
            let tick = Box::pin(world.sleep(Duration::from_nanos(1)));
            futures_util::future::select(tick, hour).await;
        }
    });
    assert_eq!(sim.run_until_crash_or(pending::<()>()), Outcome::Stuck { waiting_tasks: 0 });
    assert_eq!(sim.now().ns, 5000, "no hour passed");
}

#[test]
fn a_deadlock_is_told_with_the_number_of_waiting_tasks() {
    let (sim, world) = with_faults(1, Faults::default());
    let notify = Notify::new();
    for _ in 0..3 {
        let notify = notify.clone();
        drop(world.spawn(async move { notify.wait().await }));
    }
    assert_eq!(sim.run_until_crash_or(notify.wait()), Outcome::Stuck { waiting_tasks: 3 });
}

#[test]
#[should_panic(expected = "deadlock: the future and 0 tasks wait")]
fn a_deadlock_panics_where_nobody_asked_for_it() {
    let (sim, _world) = with_faults(1, Faults::default());
    sim.run_until(pending::<()>());
}

#[test]
fn io_under_way_goes_on_when_nobody_waits_for_it() {
    let read_latency = Duration::from_nanos(1);
    let times = FixedLatencyTimes { read_latency, jitter: Duration::ZERO, ..FixedLatencyTimes::default() };
    let (sim, world) =
        with_config(1, SimConfig { storage: Box::new(FixedLatency::new(1, times)), ..SimConfig::default() });
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        let issued = Box::pin(file.write_at(0, block(2)));
        let tick = Box::pin(world.sleep(Duration::from_nanos(1)));
        drop(futures_util::future::select(issued, tick).await);
        assert_eq!(read(&file, 0, 4096).await[0], 1, "not yet: reads overtake it");
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&file, 0, 4096).await[0], 2);
    });
}

#[test]
fn shards_run_as_tasks_of_their_host_and_the_totals_cover_all_of_them() {
    let (sim, world) = with_faults(1, Faults::default());
    assert_eq!(world.shards(), 2);
    let (sender, receiver) = world::channel::oneshot::channel();
    world.spawn_shard(1, move |shard| {
        Box::pin(async move {
            create(&shard, "/d/x").await.sync().await.expect("syncs");
            let _ = sender.send((shard.name().to_string(), shard.random_u64()));
        })
    });
    let (name, random) = sim.run_until(receiver).expect("answers");
    assert_eq!((name.as_str(), world.io_totals().syncs), ("a", 1));
    assert_ne!(random, world.random_u64(), "each shard draws its own numbers");
}

#[test]
fn hosts_have_calendars_of_their_own_and_a_clock_that_starts_with_them() {
    let sim = Simulation::new(1, SimConfig::default());
    let worlds: Vec<World> = ["a", "b", "c"].iter().map(|name| sim.host(name)).collect();
    let clocks: std::collections::BTreeSet<_> = worlds.iter().map(|world| world.wall_clock()).collect();
    assert_eq!(clocks.len(), 3);
    let before = worlds[0].wall_clock();
    sim.run_until(worlds[0].sleep(Duration::from_secs(5)));
    assert_eq!(worlds[0].wall_clock().unix_ms, before.unix_ms + 5000);
    assert_eq!(worlds[0].now().ns, 5_000_000_000);
    let restarted = sim.restart("a");
    assert_eq!(restarted.now().ns, 0);
    assert_eq!(restarted.wall_clock().unix_ms, before.unix_ms + 5000);
    sim.run_until(restarted.sleep_until(Time { ns: 7 }));
    assert_eq!(restarted.now().ns, 7);
}

#[test]
fn tasks_of_a_crashed_host_are_gone_and_those_of_others_run_on() {
    let sim = Simulation::new(1, SimConfig::default());
    let (a, b) = (sim.host("a"), sim.host("b"));
    let ticks = [Rc::new(RefCell::new(0)), Rc::new(RefCell::new(0))];
    for (world, ticks) in [(&a, &ticks[0]), (&b, &ticks[1])] {
        let (own, ticks) = (world.clone(), ticks.clone());
        drop(world.spawn(async move {
            loop {
                own.sleep(Duration::from_millis(1)).await;
                *ticks.borrow_mut() += 1;
            }
        }));
    }
    sim.run_until(b.sleep(Duration::from_micros(5500)));
    sim.crash("a");
    sim.run_until(b.sleep(Duration::from_millis(5)));
    assert_eq!((*ticks[0].borrow(), *ticks[1].borrow()), (5, 10));
    assert_eq!(sim.task_count(), 1);
    drop(a.spawn(async {}));
    assert_eq!(sim.task_count(), 1, "a dead host starts nothing");
}

#[test]
fn a_task_that_kills_its_own_host_ends_there_and_leaves_its_place_to_another() {
    let sim = Rc::new(Simulation::new(1, SimConfig::default()));
    let (a, b) = (sim.host("a"), sim.host("b"));
    let log = Rc::new(RefCell::new(Vec::new()));
    let (own, killer) = (log.clone(), sim.clone());
    let other = b.clone();
    drop(a.spawn(async move {
        killer.crash("a");
        let spawned = own.clone();
        drop(other.spawn(async move { spawned.borrow_mut().push("the other's task runs") }));
        other.sleep(Duration::from_millis(1)).await;
        own.borrow_mut().push("the dead task runs on");
    }));
    sim.run_until(b.sleep(Duration::from_millis(2)));
    assert_eq!(*log.borrow(), ["the other's task runs"]);
    assert_eq!(Rc::strong_count(&sim), 1);
}

#[test]
fn an_operation_of_a_dead_host_never_completes() {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("a");
    sim.crash("a");
    let outcome = sim.run_until_crash_or(async { world.entry("/").await.is_ok() });
    assert_eq!(outcome, Outcome::Stuck { waiting_tasks: 0 });
}

#[test]
fn notifications_wake_in_the_order_of_waiting_and_are_passed_on_by_those_who_leave() {
    let (sim, world) = with_faults(1, Faults::default());
    let notify = Notify::new();
    let order = Rc::new(RefCell::new(Vec::new()));
    let leaver = notify.wait();
    for name in ["first", "second", "third"] {
        let (notify, order) = (notify.clone(), order.clone());
        drop(world.spawn(async move {
            notify.wait().await;
            order.borrow_mut().push(name);
        }));
    }
    let tick = || sim.run_until(world.sleep(Duration::from_nanos(1)));
    tick();
    assert!(notify.notify_one(), "the leaver has waited longest");
    tick();
    assert!(order.borrow().is_empty());
    drop(leaver);
    tick();
    assert_eq!(*order.borrow(), ["first"]);
    drop(notify.wait());
    assert_eq!(notify.waiting(), 2, "who left without a notification is not counted");
    notify.notify_all();
    tick();
    assert_eq!(*order.borrow(), ["first", "second", "third"]);
    assert!(!notify.notify_one());
}

/// Storage model whose marker shows whether the simulation still holds it.
struct Marked {
    inner: ZeroLatency,
    _marker: Rc<()>,
}

impl StorageModel for Marked {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        self.inner.attach(volume, host, path);
    }
    fn submit(&mut self, now: Time, request: StorageRequest) {
        self.inner.submit(now, request);
    }
    fn next_completion(&self) -> Option<Time> {
        self.inner.next_completion()
    }
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.inner.take_completions(now, completed);
    }
}

#[test]
fn dropping_the_simulation_frees_everything_that_holds_a_world_of_it() {
    let (core, task) = (Rc::new(()), Rc::new(()));
    let model = Marked { inner: ZeroLatency::default(), _marker: core.clone() };
    let (sim, world) = with_config(1, SimConfig { storage: Box::new(model), ..SimConfig::default() });
    let file = sim.run_until(adopted_file(&world, "/d/x", 10));
    for host in ["a", "b"] {
        let (own, file, marker) = (sim.host(host), file.clone(), task.clone());
        drop(own.clone().spawn(async move {
            let listener = own.listen(&format!("{}:1", own.name())).await.expect("listens");
            let waiting =
                own.spawn(async move { listener.accept().await.expect("accepts").receive(1).await });
            let connection = own.connect("a:1").await.expect("connects");
            let sleeper = own.sleep(Duration::from_secs(1));
            let never = async {
                waiting.await.expect("never happens");
                drop((marker, connection, file));
            };
            futures_util::future::join(never, sleeper).await;
        }));
    }
    sim.run_until(world.sleep(Duration::from_millis(1)));
    let unfinished = Box::pin({
        let file = file.clone();
        async move { file.write_at(0, block(1)).await.0 }
    });
    let _ = sim.run_until(futures_util::future::select(unfinished, Box::pin(async {})));
    assert!(Rc::strong_count(&task) > 1 && Rc::strong_count(&core) > 1);
    drop(sim);
    assert_eq!(Rc::strong_count(&task), 1, "tasks are gone with the simulation");
    drop((world, file));
    assert_eq!(Rc::strong_count(&core), 1, "no circle keeps the core");
}

#[test]
fn host_that_stands_still_runs_no_task_and_only_a_suspend_stops_its_monotonic_clock() {
    let second = Duration::from_secs(1);
    for stand_still in [Simulation::stop, Simulation::suspend] {
        let (sim, world) = with_config(1, SimConfig::default());
        let clock = sim.host("clock");
        let (own, woken) = (world.clone(), std::rc::Rc::new(RefCell::new(None)));
        let seen = woken.clone();
        drop(world.spawn(async move {
            own.sleep(second * 2).await;
            *seen.borrow_mut() = Some((own.now(), own.boot_time()));
        }));
        sim.run_until(clock.sleep(second));
        stand_still(&sim, "a");
        sim.run_until(clock.sleep(second * 60));
        assert_eq!(*woken.borrow(), None, "no task runs");
        sim.resume("a");
        sim.run_until(clock.sleep(second * 2));
        let (now, boot_time) = woken.borrow().expect("the task goes on");
        let is_suspend = now < boot_time;
        let at = |seconds: u64| Time { ns: seconds * 1_000_000_000 };
        let wanted = if is_suspend { (at(2), at(62)) } else { (at(61), at(61)) };
        assert_eq!((now, boot_time), wanted);
        assert_eq!(world.boot_time().ns - world.now().ns, if is_suspend { at(60).ns } else { 0 });
    }
}
