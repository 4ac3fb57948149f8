//! Storage that stops answering near the end of a window: what waits for it counts.

use std::cell::Cell;
use std::rc::Rc;

use results::judge::LatencyRule;
use results::{IoClass, Measure, Outcome, Row};
use solution::TestKind;
use world::sim::{
    FileId, FixedLatency, FixedLatencyTimes, RequestId, SimConfig, Simulation, StorageModel, StorageOp,
    StorageRequest, VolumeId,
};
use world::{Duration, Time};

use crate::small_campaign::{failures, run_tests};

/// Start and end of the time in which no read completes.
type Outage = Rc<Cell<(Time, Time)>>;

/// Storage that loses its path for reads for a time: reads submitted meanwhile complete at the end of that time.
struct LosesPath {
    storage: FixedLatency,
    outage: Outage,
    held: Vec<RequestId>,
}

impl StorageModel for LosesPath {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        self.storage.attach(volume, host, path);
    }

    fn set_file_size(&mut self, volume: VolumeId, file: FileId, bytes: u64) {
        self.storage.set_file_size(volume, file, bytes);
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        let (from, to) = self.outage.get();
        if request.op == StorageOp::Read && (from..to).contains(&now) {
            self.held.push(request.id);
        } else {
            self.storage.submit(now, request);
        }
    }

    fn next_completion(&self) -> Option<Time> {
        let back = (!self.held.is_empty()).then(|| self.outage.get().1);
        [self.storage.next_completion(), back].into_iter().flatten().min()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.storage.take_completions(now, completed);
        if now >= self.outage.get().1 {
            completed.append(&mut self.held);
        }
    }
}

/// Runs a performance test whose path is lost for 20 s, from `from_s` seconds after the start. Returns the failed
/// latency rules, and all rows.
fn with_outage(from_s: u64) -> (Vec<String>, Vec<Row>) {
    let outage = Outage::default();
    let times = FixedLatencyTimes {
        read_latency: Duration::from_millis(2),
        write_latency: Duration::from_millis(1),
        sync_latency: Duration::from_micros(500),
        ..FixedLatencyTimes::default()
    };
    let storage = FixedLatency::new(1, times);
    let storage = Box::new(LosesPath { storage, outage: outage.clone(), held: Vec::new() });
    let simulation = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
    simulation.host("a");
    ["/v1", "/v2"].into_iter().for_each(|volume| simulation.volume("a", volume, 16 << 30));
    let (outcome, _) = run_tests(&simulation, 1, |kind| kind == TestKind::Init);
    assert!(outcome.passed(), "{:?}", failures(&outcome));

    let lost = simulation.now() + Duration::from_secs(from_s);
    outage.set((lost, lost + Duration::from_secs(20)));
    let (outcome, rows) = run_tests(&simulation, 1, |kind| kind == TestKind::Performance);
    let failed = outcome.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail);
    let of_latency = failed.filter(|verdict| LatencyRule::from_name(&verdict.rule).is_some());
    (of_latency.map(|verdict| verdict.rule.clone()).collect(), rows)
}

/// The warm-up lasts at most 3 s and the window 10 s. The path is lost from second 9 until after the window.
#[test]
fn a_path_that_is_lost_until_after_the_window_breaks_the_limit_of_the_worst_sample() {
    let (failed, rows) = with_outage(9);
    assert!(failed.iter().any(|rule| rule == LatencyRule::ReadMax.name()), "{failed:?}");
    let waits = rows.iter().filter_map(|row| match row {
        Row::Sample(row) if row.measure == Measure::Waiting(IoClass::TransactionalRead) => Some(row),
        _ => None,
    });
    let longest = |is_host: bool| {
        let of = waits.clone().filter(|row| row.origin.instance.is_none() == is_host);
        of.map(|row| row.totals.latency_ns_max).max().unwrap_or(0)
    };
    assert!(longest(true) > 1_000_000_000, "each second the host says that reads wait");
    assert!(longest(false) > 1_000_000_000, "so does each sample of a database");
}

#[test]
fn storage_that_answers_until_the_end_has_no_waits_that_raise_a_latency() {
    let (failed, rows) = with_outage(3_600);
    assert_eq!(failed, [""; 0]);
    let of_host = rows.iter().filter(|row| {
        matches!(row, Row::Sample(row)
            if matches!(row.measure, Measure::Waiting(_)) && row.origin.instance.is_none())
    });
    assert!(of_host.count() < 5, "a wait of each second is kept only where it says more");
}
