//! Soft recovery: replays the logs that an unclean stop left behind, all instances side by side.

use results::figures::counted;
use results::{Comparison, Origin, Outcome, Parameter, Recovery, Severity, Verdict};
use solution::TestSpec;

use crate::error::CampaignError;
use crate::host::OpenOptions;
use crate::recovery_report::{told, work_of};
use crate::rule::Rule;
use crate::running::Campaign;
use crate::verdict::judge_none;

impl Campaign<'_> {
    /// Test `soft_recovery`: opens every instance, which replays its logs, and closes it cleanly.
    pub async fn soft_recovery(
        &mut self,
        ordinal: u32,
        name: &str,
        spec: &TestSpec,
    ) -> Result<(), CampaignError> {
        let parameter = |name: &str, value: &str| Parameter { name: name.into(), value: value.into() };
        let maintained = if self.deployment.engine.recovery_maintenance { "on" } else { "off" };
        let parameters = vec![
            parameter("Page reads outstanding, at most", "8 per instance"),
            parameter(Parameter::MAINTENANCE, maintained),
        ];
        let mut test = self.begin(ordinal, name, spec, parameters).await?;
        test.phase = "replaying logs".into();
        let (host, options) = (self.host.clone(), OpenOptions::for_recovery(&self.deployment.engine));
        let job = async move {
            host.each_instance(move |state, instance| async move {
                let started = state.world.now();
                let report = state.open(instance, options).await?;
                Ok((report, state.world.now().since(started)))
            })
            .await
        };
        let reports = self.watch(&mut test, job).await?;
        let closed = self.host.close().await;
        let rule = Rule {
            name: "logs_replayed",
            text: "at least one log was there to replay".into(),
            comparison: Comparison::AtLeast,
            unit: "logs",
        };
        for ((number, instance), (report, elapsed)) in
            self.deployment.instances.iter().enumerate().zip(reports)
        {
            let origin = Origin::instance(self.host_name(), &instance.name);
            let logs = u64::from(report.logs_replayed);
            let elapsed_ms = elapsed.as_millis() as u64;
            let work = Some(work_of(&report));
            self.record(Recovery { test: ordinal, origin: origin.clone(), logs, elapsed_ms, work })?;
            self.judge(rule.judge(ordinal, origin.clone(), Some(logs as f64), 1.0))?;
            self.judge_corrected(ordinal, origin.clone(), report.segments_corrected)?;
            let what = "log segment behind the end of the log holds what no torn write can have left there";
            let unexplained = report.segments_unexplained;
            self.judge(judge_none(ordinal, origin.clone(), "unexplained_segments", what, unexplained))?;
            self.tell_refused_maps(ordinal, number, &report)?;
            let per_log = (logs > 0).then(|| elapsed.as_secs_f64() / logs as f64);
            self.judge(Verdict {
                test: Some(ordinal),
                origin,
                rule: "seconds_per_log".into(),
                text: "time to replay a log, opening included".into(),
                measured: per_log,
                limit: None,
                comparison: Comparison::AtMost,
                unit: "s".into(),
                outcome: Outcome::Info,
            })?;
            let text = format!(
                "{}: {} replayed in {:.2} s, {}",
                instance.name,
                counted(logs, "log"),
                elapsed.as_secs_f64(),
                told(&report)
            );
            self.event(Severity::Info, Some(ordinal), &text)?;
        }
        closed?;
        self.end(test).await
    }
}
