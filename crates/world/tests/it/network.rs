//! The network: streams in order, delay, loss, partition, reset.

use world::sim::{Link, Outcome};
use world::{Connection, Duration, ErrorKind, Listener};

use super::*;

fn two_hosts(link: Link) -> (Simulation, World, World) {
    let sim = Simulation::new(1, SimConfig { link, ..SimConfig::default() });
    let (a, b) = (sim.host("a"), sim.host("b"));
    (sim, a, b)
}

async fn connected(a: &World, b: &World) -> (Connection, Connection, Listener) {
    let listener = b.listen("b:7").await.expect("listens");
    let (there, here) = futures_util::future::join(a.connect("b:7"), listener.accept()).await;
    (there.expect("connects"), here.expect("accepts"), listener)
}

async fn receive_all(connection: &Connection, bytes: usize) -> Vec<u8> {
    let mut received = Vec::new();
    while received.len() < bytes {
        let more = connection.receive(7).await.expect("receives");
        assert!(!more.is_empty() && more.len() <= 7);
        received.extend(more);
    }
    received
}

fn is_cut<T>(result: world::Result<T>) -> bool {
    result.err().is_some_and(|error| error.kind == ErrorKind::Disconnected)
}

#[test]
fn bytes_arrive_in_order_in_spite_of_jitter_and_loss_and_not_before_the_delay() {
    let delay = Duration::from_millis(10);
    let (sim, a, b) = two_hosts(Link { delay, jitter: Duration::from_millis(30), loss: 0.3 });
    sim.run_until(async {
        let (there, here, _listener) = connected(&a, &b).await;
        let before = a.now();
        for chunk in 0..50u8 {
            there.send(vec![chunk; 3]).await.expect("sends");
        }
        drop(there);
        assert_eq!(a.now(), before, "sending does not wait");
        let received = receive_all(&here, 150).await;
        assert_eq!(received, (0..50).flat_map(|chunk| [chunk; 3]).collect::<Vec<u8>>());
        let took = b.now() - before;
        assert!(took >= delay);
        assert!(took >= Duration::from_millis(200), "a lost segment is sent again later");
        assert_eq!(here.receive(1).await.expect("the end"), Vec::<u8>::new());
        assert!(is_cut(here.send(vec![1]).await), "nobody is there to receive");
    });
}

#[test]
fn a_sender_waits_when_nobody_receives() {
    let (sim, a, b) = two_hosts(Link::default());
    let (there, here, listener) = sim.run_until(connected(&a, &b));
    let flood = async {
        for _ in 0..100 {
            there.send(vec![1; 100_000]).await.expect("sends");
        }
    };
    let mut flood = std::pin::pin!(flood);
    assert_eq!(sim.run_until_crash_or(flood.as_mut()), Outcome::Stuck { waiting_tasks: 0 });
    let drain = async {
        let mut received = 0;
        while received < 10_000_000 {
            received += here.receive(1 << 20).await.expect("receives").len();
        }
    };
    sim.run_until(futures_util::future::join(flood, drain));
    drop(listener);
}

#[test]
fn connecting_needs_a_host_and_a_listener() {
    let (sim, a, b) = two_hosts(Link::default());
    sim.run_until(async {
        assert_eq!(a.connect("c:7").await.err().map(|error| error.kind), Some(ErrorKind::NotFound));
        assert!(is_cut(a.connect("b:7").await));
        let listener = b.listen("b:7").await.expect("listens");
        assert_eq!(b.listen("b:7").await.err().map(|error| error.kind), Some(ErrorKind::AlreadyExists));
        assert_eq!(b.listen("a:7").await.err().map(|error| error.kind), Some(ErrorKind::PermissionDenied));
        drop(listener);
        assert!(is_cut(a.connect("b:7").await), "the listener is gone");
    });
}

#[test]
fn a_partition_holds_everything_back_until_it_heals() {
    let (sim, a, b) = two_hosts(Link::default());
    sim.run_until(async {
        let (there, here, listener) = connected(&a, &b).await;
        there.send(vec![1]).await.expect("is under way");
        sim.partition("a", "b");
        there.send(vec![2]).await.expect("is held back");
        let second = Duration::from_secs(1);
        let received =
            futures_util::future::select(Box::pin(here.receive(9)), Box::pin(b.sleep(second))).await;
        assert!(matches!(received, futures_util::future::Either::Right(_)), "nothing arrives");
        drop(received);
        assert!(is_cut(a.connect("b:7").await), "connecting times out");
        sim.heal("b", "a");
        assert_eq!(receive_all(&here, 2).await, [1, 2]);
        drop(listener);
    });
}

#[test]
fn a_crash_resets_streams_after_what_was_sent_but_not_through_a_partition() {
    for partitioned in [false, true] {
        let (sim, a, b) = two_hosts(Link::default());
        sim.run_until(async {
            let (there, here, _listener) = connected(&a, &b).await;
            here.send(vec![5]).await.expect("sends");
            if partitioned {
                sim.partition("a", "b");
            }
            sim.crash("b");
            if partitioned {
                let waiting = Box::pin(there.receive(1));
                let minute = Box::pin(a.sleep(Duration::from_secs(60)));
                let either = futures_util::future::select(waiting, minute).await;
                assert!(matches!(either, futures_util::future::Either::Right(_)), "no news gets through");
                drop(either);
                there.send(vec![1]).await.expect("it knows nothing yet");
                sim.heal("a", "b");
            }
            assert_eq!(receive_all(&there, 1).await, [5]);
            assert!(is_cut(there.receive(1).await));
            assert!(is_cut(there.send(vec![1]).await));
        });
        let b = sim.restart("b");
        sim.run_until(async {
            let (there, here, _listener) = connected(&a, &b).await;
            there.send(vec![6]).await.expect("sends");
            assert_eq!(receive_all(&here, 1).await, [6], "the address is free again");
        });
    }
}

#[test]
fn a_sender_that_waits_for_room_learns_of_a_reset() {
    let (sim, a, b) = two_hosts(Link::default());
    let (there, here, _listener) = sim.run_until(connected(&a, &b));
    let flood = a.spawn(async move {
        loop {
            if let Err(error) = there.send(vec![1; 100_000]).await {
                return error.kind;
            }
        }
    });
    sim.run_until(a.sleep(Duration::from_secs(1)));
    sim.crash("b");
    assert_eq!(sim.run_until(flood), ErrorKind::Disconnected);
    drop(here);
}

#[test]
fn links_can_differ() {
    let (sim, a, b) = two_hosts(Link::default());
    sim.set_link("b", "a", Link { delay: Duration::from_secs(1), jitter: Duration::ZERO, loss: 0.0 });
    sim.run_until(async {
        let (there, here, _listener) = connected(&a, &b).await;
        assert_eq!(a.now().ns, 2_000_000_000, "connecting takes a round trip");
        there.send(vec![1]).await.expect("sends");
        receive_all(&here, 1).await;
        assert_eq!(a.now().ns, 3_000_000_000);
    });
}
