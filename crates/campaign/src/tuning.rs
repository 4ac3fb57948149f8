//! Finds the highest load inside the thresholds, or the sessions for the target.

use results::figures::counted;
use results::{IoClass, Origin, Outcome, Parameter, Severity, TuningStep, Verdict};
use solution::TestSpec;
use world::Duration;

use crate::error::CampaignError;
use crate::host::OpenOptions;
use crate::load::Mode;
use crate::load_tests::Driving;
use crate::running::{Campaign, Running};
use crate::tune::{Found, Search, Step};
use crate::verdict::{judge_gaps, judge_latencies};
use crate::window::Window;

/// Largest number of sessions that `tune` tries.
const SESSIONS_MAX: u32 = 256;
/// Number of steps that should fit into the time of `tune`.
const STEPS: f64 = 6.0;

impl Campaign<'_> {
    /// Test `tune`: runs steps of load until the search ends or its time is up.
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
        self.open(&mut test, OpenOptions::normal(&self.deployment.engine)).await?;
        self.start_background().await?;
        let searched = self.search(&mut test, spec, step_s).await;
        let closed = self.host.close().await;
        let search = searched?;
        let found = search.found();
        self.tuned_sessions = found.map(|found| found.sessions);
        let outcome = if found.is_some() { Outcome::Pass } else { Outcome::Fail };
        let text = match found {
            Some(Found { sessions, bracketed: true }) => format!("{} is the answer", in_words(sessions)),
            Some(Found { sessions, .. }) => {
                format!("{} held; the search ended before it found more than enough", in_words(sessions))
            }
            None if search.next().is_some() => {
                "the time was over before a number of sessions stayed inside the thresholds".into()
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
        let gaps = judge_gaps(ordinal, self.host_name(), test.sampler.gaps());
        self.judge(gaps)?;
        self.judge_maintenance(ordinal, closed?)?;
        self.end(test).await
    }

    async fn search(
        &mut self,
        test: &mut Running,
        spec: &TestSpec,
        step_s: f64,
    ) -> Result<Search, CampaignError> {
        let mut search = Search::new(self.host.databases.len() as u32, SESSIONS_MAX);
        if let Some(sessions) = search.next() {
            let driving = self.drive(self.closed(sessions));
            let warmed = self.warm_up(test, spec, &driving).await;
            self.stop_load(test, driving, warmed).await?;
        }
        let started = self.world.now();
        let mut ordinal = 0;
        while let Some(sessions) = search.next() {
            let elapsed_s = self.world.now().since(started).as_secs_f64();
            if elapsed_s + step_s > spec.duration_s && ordinal > 0 {
                break;
            }
            ordinal += 1;
            test.phase = format!("trying {}", in_words(sessions));
            let measured = self.step(test, sessions, step_s, elapsed_s / spec.duration_s).await?;
            let broken = self.broken_threshold(&measured, spec);
            let iops = measured.achieved_iops();
            let reached = self.deployment.load.target_iops.is_some_and(|target| iops >= target);
            let step = match (&broken, reached) {
                (Some(_), _) => Step::Breaks,
                (None, true) => Step::Enough,
                (None, false) => Step::Holds,
            };
            search.record(sessions, step);
            let mean_ms = |class| measured.fold.completed(class).latency_ms().unwrap_or(0.0);
            self.record(TuningStep {
                test: test.row.ordinal,
                ordinal,
                load: in_words(sessions),
                iops,
                read_latency_ms: mean_ms(IoClass::TransactionalRead),
                log_write_latency_ms: mean_ms(IoClass::LogWrite),
                outcome: if broken.is_some() { Outcome::Fail } else { Outcome::Pass },
                note: broken.unwrap_or_else(|| {
                    if reached { "reaches the target" } else { "inside the thresholds" }.into()
                }),
            })?;
        }
        Ok(search)
    }

    /// Runs one step: a fifth of it to settle, the rest to measure.
    async fn step(
        &mut self,
        test: &mut Running,
        sessions: u32,
        step_s: f64,
        done: f64,
    ) -> Result<Window, CampaignError> {
        let driving = self.drive(self.closed(sessions));
        let measured = self.settle_and_measure(test, step_s, done, &driving).await;
        Ok(self.stop_load(test, driving, measured).await?.0)
    }

    async fn settle_and_measure(
        &mut self,
        test: &mut Running,
        step_s: f64,
        done: f64,
        driving: &Driving,
    ) -> Result<Window, CampaignError> {
        let settled = self.world.now() + Duration::from_secs_f64(step_s / 5.0);
        while self.world.now() < settled && !driving.load.failed() {
            self.tick(test, &driving.load, settled, done).await?;
        }
        test.seen = Default::default();
        let planned = Duration::from_secs_f64(step_s * 0.8);
        let opened = test.last_tick;
        test.sampler.open_window(planned, opened, self.recorder)?;
        let end = opened + planned;
        while self.world.now() < end && !driving.load.failed() {
            self.tick(test, &driving.load, end, done).await?;
        }
        Ok(test.sampler.close_step(test.last_tick, self.recorder)?)
    }

    fn closed(&self, sessions: u32) -> Mode {
        Mode::Closed { sessions, idle_factor: self.deployment.load.idle_factor }
    }

    fn broken_threshold(&self, measured: &Window, spec: &TestSpec) -> Option<String> {
        broken(judge_latencies(0, measured, &plan::limits(spec)))
    }
}

/// Limits that a step breaks. In a short step, databases that its few sessions did not reach do not count; if nothing
/// at all was measured, the step breaks.
fn broken(latencies: Vec<Verdict>) -> Option<String> {
    let nothing_of = |rule: &str| latencies.iter().all(|of| of.rule != rule || of.measured.is_none());
    let breaks =
        |of: &&Verdict| of.outcome == Outcome::Fail && (of.measured.is_some() || nothing_of(&of.rule));
    let of = latencies.iter().find(breaks)?;
    let origin = of.origin.database.as_deref().or(of.origin.instance.as_deref()).unwrap_or_default();
    Some(match of.measured {
        None => format!("{}: nothing was measured", of.rule),
        Some(ms) => format!("{} of {origin}: {ms:.1} ms, above {} ms", of.rule, of.limit.unwrap_or_default()),
    })
}

fn in_words(sessions: u32) -> String {
    counted(sessions.into(), "session")
}

#[cfg(test)]
mod tests {
    use results::judge::WindowFold;
    use results::{IoTotals, Limit, Sample};

    use super::*;

    /// Step of two databases with one read each and one log write, with these latencies; `None`: no operation.
    fn step(read_ms: [Option<u64>; 2], log_write_ms: Option<u64>) -> Window {
        let databases: Vec<Origin> = (0..2).map(|n| Origin::database("h", "I", &format!("D{n}"))).collect();
        let log = Origin::instance("h", "I");
        let mut fold = WindowFold::new(15_000);
        let mut add = |origin: &Origin, class: IoClass, latency_ms: Option<u64>| {
            let Some(ms) = latency_ms else { return };
            let totals = IoTotals::one(4096, ms * 1_000_000);
            fold.add(&Sample::new(0, origin.clone(), class, 0, 15_000, totals));
        };
        databases.iter().zip(read_ms).for_each(|(of, ms)| add(of, IoClass::TransactionalRead, ms));
        add(&log, IoClass::LogWrite, log_write_ms);
        fold.finish();
        Window { databases, logs: vec![log], fold, ..Window::default() }
    }

    #[test]
    fn a_step_breaks_if_one_database_does_and_without_anything_measured() {
        let limit =
            |rule: &str, value| Limit { rule: rule.into(), value, unit: "ms".into(), published: None };
        let limits = [limit("read_latency_avg", 20.0), limit("log_write_latency_avg", 10.0)];
        let broken =
            |read_ms, log_write_ms| broken(judge_latencies(0, &step(read_ms, log_write_ms), &limits));
        assert_eq!(broken([Some(20), Some(20)], Some(10)), None, "the limit itself holds");
        let one_slow = "read_latency_avg of D1: 21.0 ms, above 20 ms";
        assert_eq!(
            broken([Some(1), Some(21)], Some(1)).as_deref(),
            Some(one_slow),
            "the mean of both is 11 ms"
        );
        assert_eq!(
            broken([Some(1), Some(1)], Some(11)).as_deref(),
            Some("log_write_latency_avg of I: 11.0 ms, above 10 ms")
        );
        assert_eq!(broken([Some(1), None], Some(1)), None, "few sessions have not come to every database");
        assert_eq!(broken([None, None], Some(1)).as_deref(), Some("read_latency_avg: nothing was measured"));
    }
}
