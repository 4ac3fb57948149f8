//! Simulations side by side: when they meet, in which order their messages are merged, how they end.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use world::sim::{Side, SideFn, SimConfig, Simulation, side_by_side};
use world::sync::Notify;
use world::{Duration, World};

/// Message of a side: the virtual time, ms, and the text.
type Said = (u64, String);

/// One side with its world, and a notification for tasks that wait for a meeting.
struct Visitor<'a> {
    side: &'a Side<Said>,
    world: World,
    met: Notify,
}

impl Visitor<'_> {
    fn say(&self, text: impl Into<String>) {
        self.side.send((self.world.now().ns / 1_000_000, text.into()));
    }

    async fn sleep_ms(&self, ms: u64) {
        self.world.sleep(Duration::from_millis(ms)).await;
    }

    async fn meet(&self) {
        self.side.meeting().arrive();
        self.met.wait().await;
    }
}

fn visit<T>(side: &Side<Said>, seed: u64, program: impl AsyncFnOnce(&Visitor<'_>) -> T) -> T {
    let simulation = Simulation::new(seed, SimConfig::default());
    side.attach(&simulation);
    let met = Notify::new();
    let here = met.clone();
    side.meeting().when_met(move || here.notify_all());
    let visitor = Visitor { side, world: simulation.host("h"), met };
    simulation.run_until(program(&visitor))
}

/// Side that works alone three times, ticks while it waits for the others, and reports all of it.
fn busy(n: u64) -> SideFn<'static, Said, u64> {
    Box::new(move |side| {
        visit(side, n, async |visitor| {
            for round in 0..3 {
                let work_ms = 7_000 * ((n + round) % 4 + 1) + 13 * n;
                for _ in 0..work_ms / 500 {
                    visitor.sleep_ms(500).await;
                    visitor.say(format!("{n} works"));
                }
                visitor.sleep_ms(work_ms % 500).await;
                visitor.say(format!("{n} arrives"));
                let is_met = Rc::new(Cell::new(false));
                let (ticking, world) = (is_met.clone(), visitor.world.clone());
                let ticks = visitor.world.spawn(async move {
                    let mut ticks = 0;
                    while !ticking.get() {
                        world.sleep(Duration::from_millis(250)).await;
                        ticks += 1;
                    }
                    ticks
                });
                visitor.meet().await;
                is_met.set(true);
                visitor.say(format!("{n} has met"));
                let ticks = ticks.await;
                visitor.say(format!("{n} waited for {ticks} ticks"));
            }
            visitor.world.now().ns
        })
    })
}

fn run(threads: usize, jobs: Vec<SideFn<'_, Said, u64>>) -> (Vec<u64>, Vec<(usize, Said)>) {
    let mut said = Vec::new();
    let ended = side_by_side(threads, jobs, |messages| said.extend(messages));
    (ended, said)
}

#[test]
fn sides_do_the_same_on_any_number_of_threads() {
    let (ended, said) = run(1, (0..5).map(busy).collect());
    for _ in 0..5 {
        for threads in [2, 4, 16] {
            let (ended_too, said_too) = run(threads, (0..5).map(busy).collect());
            assert_eq!(ended_too, ended, "{threads} threads");
            assert!(said_too == said, "{threads} threads");
        }
    }
}

#[test]
fn messages_are_merged_by_virtual_time_and_side() {
    let (_, said) = run(4, (0..5).map(busy).collect());
    let order: Vec<(u64, usize)> = said.iter().map(|(side, (at_ms, _))| (*at_ms, *side)).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn sides_meet_at_the_latest_arrival() {
    let (_, said) = run(2, (0..5).map(busy).collect());
    let of = |what: &str| -> Vec<u64> {
        said.iter().filter(|(_, (_, text))| text.ends_with(what)).map(|(_, (at_ms, _))| *at_ms).collect()
    };
    let (arrived, met) = (of("arrives"), of("has met"));
    for (arrived, met) in arrived.chunks(5).zip(met.chunks(5)) {
        assert_eq!(met, [arrived[4]; 5]);
    }
    let waits =
        said.iter().filter(|(_, (_, text))| text.ends_with("ticks") && !text.ends_with("for 1 ticks"));
    assert!(waits.count() > 8, "virtual time goes on for those that wait");
}

#[test]
fn side_that_withdraws_before_the_meeting_was_not_there() {
    let leaves: SideFn<'_, Said, u64> = Box::new(|side| {
        visit(side, 1, async |visitor| {
            visitor.sleep_ms(1_000).await;
            visitor.side.meeting().arrive();
            visitor.sleep_ms(1_500).await;
            visitor.side.meeting().withdraw();
            visitor.sleep_ms(30_000).await;
            visitor.meet().await;
            visitor.world.now().ns / 1_000_000
        })
    });
    let waits: SideFn<'_, Said, u64> = Box::new(|side| {
        visit(side, 2, async |visitor| {
            visitor.sleep_ms(2_600).await;
            visitor.meet().await;
            visitor.world.now().ns / 1_000_000
        })
    });
    assert_eq!(run(1, vec![leaves, waits]).0, [32_500; 2]);
}

#[test]
fn nobody_waits_for_a_side_that_has_ended() {
    let after = |ms: u64, meets: bool| -> SideFn<'static, Said, u64> {
        Box::new(move |side| {
            visit(side, ms, async |visitor| {
                visitor.sleep_ms(ms).await;
                if meets {
                    visitor.meet().await;
                }
                visitor.world.now().ns / 1_000_000
            })
        })
    };
    assert_eq!(
        run(1, vec![after(500, false), after(20_000, true), after(100, true)]).0,
        [500, 20_000, 20_000]
    );
    assert_eq!(run(2, vec![after(60_000, false), after(3, true)]).0, [60_000, 60_000]);
}

#[test]
fn panic_of_a_side_ends_all_of_them_and_is_passed_on() {
    let fails: SideFn<'_, Said, u64> = Box::new(|side| {
        visit(side, 1, async |visitor| {
            visitor.sleep_ms(25_000).await;
            panic!("the words of the side");
        })
    });
    let jobs = vec![busy(0), busy(1), fails, busy(2)];
    let panic = catch_unwind(AssertUnwindSafe(|| run(2, jobs))).expect_err("it panics");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the words of the side"));
}

#[test]
fn panic_of_what_merges_ends_all_sides() {
    let merge = |messages: Vec<(usize, Said)>| assert!(messages.is_empty(), "the words of the merger");
    let jobs = (0..5).map(busy).collect();
    let panic = catch_unwind(AssertUnwindSafe(|| side_by_side(2, jobs, merge))).expect_err("it panics");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the words of the merger"));
}
