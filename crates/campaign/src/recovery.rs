//! Soft recovery: replays the logs that an unclean stop left behind, all instances side by side.

use results::figures::counted;
use results::{Comparison, Origin, Outcome, Parameter, Recovery, Severity, Verdict};
use solution::TestSpec;

use crate::error::CampaignError;
use crate::host::OpenOptions;
use crate::rule::Rule;
use crate::running::Campaign;

impl Campaign<'_> {
    /// Opens every instance, which replays its logs, and closes it cleanly.
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
            parameter("Background maintenance", maintained),
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
        for (instance, (report, elapsed)) in self.deployment.instances.iter().zip(reports) {
            let origin = Origin::instance(self.host_name(), &instance.name);
            let logs = u64::from(report.logs_replayed);
            let elapsed_ms = elapsed.as_millis() as u64;
            self.record(Recovery { test: ordinal, origin: origin.clone(), logs, elapsed_ms })?;
            self.judge(rule.judge(ordinal, origin.clone(), Some(logs as f64), 1.0))?;
            self.judge_corrected(ordinal, origin.clone(), report.segments_corrected)?;
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
                "{}: {} replayed in {:.2} s, {} made again, {} repaired, {} taken back",
                instance.name,
                counted(logs, "log"),
                elapsed.as_secs_f64(),
                counted(report.changes_applied, "page change"),
                counted(report.pages_repaired, "torn page"),
                counted(report.transactions_rolled_back.into(), "open transaction")
            );
            self.event(Severity::Info, Some(ordinal), &text)?;
        }
        closed?;
        self.end(test).await
    }
}
