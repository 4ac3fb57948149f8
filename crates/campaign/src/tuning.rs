//! Finds the highest load inside the thresholds, or the sessions for the target.

use results::{IoClass, IoStats, Origin, Outcome, Parameter, Severity, TuningStep, Verdict};
use solution::{TestSpec, Thresholds};
use world::Duration;

use crate::error::CampaignError;
use crate::host::OpenOptions;
use crate::load::Mode;
use crate::running::{Campaign, Running};
use crate::tune::{Found, Search, Step};

/// Most sessions that tuning tries.
const SESSIONS_MAX: u32 = 256;
/// Steps that should fit into the time for tuning.
const STEPS: f64 = 6.0;

/// What a step measured.
struct Measured {
    iops: f64,
    /// Mean latencies; `None` if there was nothing to measure.
    read_ms: Option<f64>,
    log_write_ms: Option<f64>,
}

impl Campaign<'_> {
    /// Runs steps of load until the search ends or its time is up.
    pub async fn tune(&mut self, ordinal: u32, name: &str, spec: &TestSpec) -> Result<(), CampaignError> {
        let step_s = (spec.duration_s / STEPS).clamp(1.0, 120.0);
        let goal = match self.deployment.load.target_iops {
            Some(target) => format!("the fewest sessions that reach {target} IOPS inside the thresholds"),
            None => "the most sessions inside the thresholds".into(),
        };
        let parameters = vec![
            Parameter { name: "Wanted".into(), value: goal },
            Parameter { name: "Length of a step".into(), value: format!("{step_s:.0} s") },
        ];
        let mut test = self.begin(ordinal, name, spec, parameters).await?;
        test.row.target_iops = self.deployment.load.target_iops;
        self.host.open(OpenOptions::normal(&self.deployment.engine)).await?;
        self.start_background().await?;
        let searched = self.search(&mut test, spec, step_s).await;
        let closed = self.host.close().await;
        let found = searched?;
        self.tuned_sessions = found.map(|found| found.sessions);
        let outcome = if found.is_some() { Outcome::Pass } else { Outcome::Fail };
        let text = match found {
            Some(Found { sessions, bracketed: true }) => format!("{sessions} sessions is the answer"),
            Some(Found { sessions, .. }) => {
                format!("{sessions} sessions held; the search ended before it found more than enough")
            }
            None => "not even one session stays inside the thresholds".into(),
        };
        self.event(Severity::Info, Some(ordinal), &text)?;
        self.judge(Verdict {
            test: Some(ordinal),
            origin: Origin::host(self.host_name()),
            rule: "tuned_sessions".into(),
            text: "some number of sessions stays inside the thresholds".into(),
            measured: found.map(|found| f64::from(found.sessions)),
            limit: Some(1.0),
            comparison: results::Comparison::AtLeast,
            unit: "sessions".into(),
            outcome,
        })?;
        self.judge_maintenance(ordinal, closed?)?;
        self.end(test).await
    }

    async fn search(
        &mut self,
        test: &mut Running,
        spec: &TestSpec,
        step_s: f64,
    ) -> Result<Option<Found>, CampaignError> {
        let started = self.world.now();
        let mut search = Search::new(self.host.databases.len() as u32, SESSIONS_MAX);
        let mut ordinal = 0;
        while let Some(sessions) = search.next() {
            let elapsed_s = self.world.now().since(started).as_secs_f64();
            if elapsed_s + step_s > spec.duration_s && ordinal > 0 {
                break;
            }
            ordinal += 1;
            test.phase = format!("trying {sessions} sessions");
            let measured = self.step(test, spec, sessions, step_s, elapsed_s / spec.duration_s).await?;
            let broken = broken_threshold(&measured, &spec.thresholds);
            let reached = self.deployment.load.target_iops.is_some_and(|target| measured.iops >= target);
            let step = match (&broken, reached) {
                (Some(_), _) => Step::Breaks,
                (None, true) => Step::Enough,
                (None, false) => Step::Holds,
            };
            search.record(sessions, step);
            self.record(TuningStep {
                test: test.row.ordinal,
                ordinal,
                load: format!("{sessions} sessions"),
                iops: measured.iops,
                read_latency_ms: measured.read_ms.unwrap_or(0.0),
                log_write_latency_ms: measured.log_write_ms.unwrap_or(0.0),
                outcome: if broken.is_some() { Outcome::Fail } else { Outcome::Pass },
                note: broken.unwrap_or_else(|| {
                    if reached { "reaches the target" } else { "inside the thresholds" }.into()
                }),
            })?;
        }
        Ok(search.found())
    }

    /// One step: a fifth of it to settle, the rest to measure.
    async fn step(
        &mut self,
        test: &mut Running,
        spec: &TestSpec,
        sessions: u32,
        step_s: f64,
        done: f64,
    ) -> Result<Measured, CampaignError> {
        let idle_factor = self.deployment.load.idle_factor;
        let driving = self.drive(Mode::Closed { sessions, idle_factor });
        let measured = self.settle_and_measure(test, spec, step_s, done, &driving).await;
        Ok(self.stop_load(test, driving, measured).await?.0)
    }

    async fn settle_and_measure(
        &mut self,
        test: &mut Running,
        spec: &TestSpec,
        step_s: f64,
        done: f64,
        driving: &crate::load_tests::Driving,
    ) -> Result<Measured, CampaignError> {
        if test.cache_bytes == 0 {
            let phase = test.phase.clone();
            self.warm_up(test, spec, driving).await?;
            test.phase = phase;
        }
        let settled = self.world.now() + Duration::from_secs_f64(step_s / 5.0);
        while self.world.now() < settled && !driving.load.failed() {
            self.tick(test, &driving.load, settled, done).await?;
        }
        test.seen = Default::default();
        let started = self.world.now();
        let end = started + Duration::from_secs_f64(step_s * 0.8);
        while self.world.now() < end && !driving.load.failed() {
            self.tick(test, &driving.load, end, done).await?;
        }
        let (reads, writes) =
            (test.seen.class(IoClass::TransactionalRead), test.seen.class(IoClass::TransactionalWrite));
        let mean_ms = |stats: &IoStats| (stats.tally.count > 0).then(|| stats.latency_ms_mean());
        Ok(Measured {
            iops: (reads.tally.count + writes.tally.count) as f64
                / self.world.now().since(started).as_secs_f64(),
            read_ms: mean_ms(reads),
            log_write_ms: mean_ms(test.seen.class(IoClass::LogWrite)),
        })
    }
}

/// The threshold that a step breaks. Nothing measured breaks it, as in the verdicts.
fn broken_threshold(measured: &Measured, thresholds: &Thresholds) -> Option<String> {
    let over = |limit_ms: Option<f64>, mean_ms: Option<f64>, what: &str| {
        let limit_ms = limit_ms?;
        match mean_ms {
            None => Some(format!("no {what} was measured")),
            Some(mean_ms) => (mean_ms > limit_ms).then(|| format!("mean {what} latency above {limit_ms} ms")),
        }
    };
    over(thresholds.read_avg_ms, measured.read_ms, "read")
        .or_else(|| over(thresholds.log_write_avg_ms, measured.log_write_ms, "log write"))
}

#[cfg(test)]
mod tests {
    use solution::Generation;

    use super::*;

    #[test]
    fn a_step_breaks_above_a_threshold_and_without_anything_measured() {
        let thresholds = Thresholds::published(Generation::E2016, false);
        let broken = |read_ms, log_write_ms| {
            broken_threshold(&Measured { iops: 0.0, read_ms, log_write_ms }, &thresholds)
        };
        assert_eq!(broken(Some(20.0), Some(10.0)), None, "the limit itself holds");
        assert_eq!(broken(Some(20.1), Some(1.0)).as_deref(), Some("mean read latency above 20 ms"));
        assert_eq!(broken(Some(1.0), Some(10.1)).as_deref(), Some("mean log write latency above 10 ms"));
        assert_eq!(broken(None, Some(1.0)).as_deref(), Some("no read was measured"));
        assert_eq!(broken(Some(1.0), None).as_deref(), Some("no log write was measured"));
    }
}
