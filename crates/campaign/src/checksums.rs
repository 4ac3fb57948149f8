//! Reads and verifies every page of every database, or the closed logs of every instance; all side by side.

use edb::page::PageRef;
use engine::{ChecksumReport, InstanceConfig, LogChecksumReport, StreamConfig};
use futures_util::future::join_all;
use results::{Checksum, Origin, Outcome, PagesRead, Parameter, Severity, Verdict};
use solution::TestSpec;

use crate::error::CampaignError;
use crate::host::{OpenOptions, ShardState};
use crate::running::{Campaign, Logs, Running};
use crate::verdict::{Coverage, judge_none};

/// Stream of the checksum test: 64 KiB at a time with about 30 reads outstanding per database, as published.
const STREAM: StreamConfig = StreamConfig { read_bytes: 64 << 10, depth: 30 };

const BAD_PAGES: &str = "page is damaged (even correctably), lost, or in another page's place";

impl Campaign<'_> {
    /// Test `database_checksum`: reads and verifies every page of every database.
    pub async fn database_checksum(
        &mut self,
        ordinal: u32,
        name: &str,
        spec: &TestSpec,
    ) -> Result<(), CampaignError> {
        let reads = format!("{} KiB, {} outstanding per database", STREAM.read_bytes >> 10, STREAM.depth);
        let parameters = vec![Parameter { name: "Reads".into(), value: reads }];
        let mut test = self.begin(ordinal, name, spec, parameters).await?;
        if self.logs == Logs::Free {
            self.recover_unclosed(&mut test).await?;
        }
        test.phase = "verifying pages".into();
        let host = self.host.clone();
        let are_left = self.logs == Logs::Left;
        let job = async move {
            host.each_instance(move |state, instance| async move {
                if are_left && !all_closed(&state, instance).await {
                    return Ok(None);
                }
                check_identity(&state, instance).await?;
                check_databases(&state, instance).await.map(Some)
            })
            .await
        };
        let reports = self.watch_within(&mut test, spec.limit_s, job).await?;
        let mut coverage = None;
        for (instance, reports) in self.deployment.instances.iter().zip(reports) {
            let Some(reports) = reports else {
                self.pass_by(ordinal, &instance.name)?;
                continue;
            };
            let all = coverage.get_or_insert_with(Coverage::default);
            for (database, report) in instance.databases.iter().zip(reports) {
                let origin = Origin::database(self.host_name(), &instance.name, &database.name);
                all.add(self.judge_pages(ordinal, origin, &report)?);
            }
        }
        if let Some(coverage) = coverage {
            self.judge_coverage(ordinal, coverage)?;
        }
        self.end(test).await
    }

    /// Judges which share of the databases a test has read.
    pub fn judge_coverage(&mut self, test: u32, coverage: Coverage) -> Result<(), CampaignError> {
        let text = "every page of every database was read and verified";
        self.judge(coverage.judge(test, Origin::host(self.host_name()), "pages_verified", text))
    }

    /// Databases to skip: an earlier run left them open, and soft recovery is to replay their logs. Until then,
    /// remains of a crash cannot be told from damage.
    fn pass_by(&mut self, test: u32, instance: &str) -> Result<(), CampaignError> {
        let text = format!(
            "{instance}: was not closed, and its logs wait for soft recovery: its pages are not judged"
        );
        self.event(Severity::Info, Some(test), &text)?;
        let origin = Origin::instance(self.host_name(), instance);
        let judged = judge_none(test, origin, "bad_pages", BAD_PAGES, 0);
        self.judge(Verdict { measured: None, limit: None, outcome: Outcome::Info, ..judged })
    }

    /// Recovers databases that an earlier run left open, and keeps their logs, so that the remains of a crash are no
    /// findings.
    async fn recover_unclosed(&mut self, test: &mut Running) -> Result<(), CampaignError> {
        test.phase = "recovering what was not closed".into();
        let (host, options) = (self.host.clone(), OpenOptions::keep_logs(&self.deployment.engine));
        let job = async move {
            host.each_instance(move |state, instance| async move {
                let is_closed = all_closed(&state, instance).await;
                Ok(if is_closed { None } else { Some(state.open(instance, options).await?) })
            })
            .await
        };
        let reports = self.watch(test, job).await?;
        self.host.close().await?;
        self.tell_recovered(test.row.ordinal, reports)
    }

    /// Records and judges the page check of a database. Returns how much of it was read.
    pub fn judge_pages(
        &mut self,
        test: u32,
        origin: Origin,
        report: &ChecksumReport,
    ) -> Result<Coverage, CampaignError> {
        let findings = &report.findings;
        for (page, reason) in findings.list.iter().take(10) {
            let place = origin.database.as_deref().unwrap_or_default();
            self.event(Severity::Error, Some(test), &format!("{place}: page {page}: {reason}"))?;
        }
        for note in findings.notes() {
            let place = origin.database.as_deref().unwrap_or_default();
            self.event(Severity::Info, Some(test), &format!("{place}: {note}"))?;
        }
        let read = PagesRead {
            files: 0,
            pages: findings.pages,
            uninitialised_pages: findings.uninitialised,
            bad_pages: findings.bad,
            correctable_pages: findings.correctable,
            wrong_number_pages: findings.wrong_number,
            bytes: report.bytes,
            bytes_expected: Some(report.bytes_there),
        };
        self.record(Checksum {
            test,
            origin: origin.clone(),
            read,
            elapsed_ms: (report.seconds * 1e3).round() as u64,
        })?;
        let coverage = Coverage { read: report.bytes, there: report.bytes_there };
        self.judge(coverage.limit(judge_none(test, origin, "bad_pages", BAD_PAGES, read.damaged())))?;
        Ok(coverage)
    }

    /// Test `log_checksum`: reads the newest closed logs of every instance.
    pub async fn log_checksum(
        &mut self,
        ordinal: u32,
        name: &str,
        spec: &TestSpec,
    ) -> Result<(), CampaignError> {
        let most = spec.logs as usize;
        let parameters =
            vec![Parameter { name: "Logs per instance, at most".into(), value: most.to_string() }];
        let mut test = self.begin(ordinal, name, spec, parameters).await?;
        test.phase = "verifying logs".into();
        let host = self.host.clone();
        let job = async move {
            host.each_instance(move |state, instance| async move { check_logs(&state, instance, most).await })
                .await
        };
        let reports = self.watch(&mut test, job).await?;
        for (instance, report) in self.deployment.instances.iter().zip(reports) {
            let origin = Origin::instance(self.host_name(), &instance.name);
            self.judge_logs(ordinal, origin, instance.log_file_bytes, report)?;
        }
        self.end(test).await
    }

    fn judge_logs(
        &mut self,
        test: u32,
        origin: Origin,
        log_file_bytes: u64,
        report: LogChecksumReport,
    ) -> Result<(), CampaignError> {
        for (generation, reason) in &report.bad {
            self.event(Severity::Error, Some(test), &format!("log {generation:08X}: {reason}"))?;
        }
        for (generation, segments) in &report.corrected {
            let text = format!("log {generation:08X}: segments with a flipped bit, corrected: {segments}");
            self.event(Severity::Warning, Some(test), &text)?;
        }
        let corrected: u64 = report.corrected.iter().map(|(_, segments)| u64::from(*segments)).sum();
        let files = u64::from(report.logs);
        self.record(Checksum {
            test,
            origin: origin.clone(),
            read: PagesRead {
                files,
                pages: files * log_file_bytes / world::SECTOR_BYTES as u64,
                bad_pages: report.bad.len() as u64,
                correctable_pages: corrected,
                bytes: report.bytes,
                bytes_expected: Some(u64::from(report.logs_there) * log_file_bytes),
                ..PagesRead::default()
            },
            elapsed_ms: (report.seconds * 1e3).round() as u64,
        })?;
        let what = match report.logs_there {
            there if there > report.logs => {
                format!("closed log of the newest {files} of {there} is damaged or out of its chain")
            }
            _ => "closed log is damaged or out of its chain".to_owned(),
        };
        let verdict = judge_none(test, origin.clone(), "bad_logs", &what, report.bad.len() as u64);
        // With circular logging there may be no closed log left: nothing is wrong then, but nothing is proved either.
        let outcome = if files == 0 { Outcome::Info } else { verdict.outcome };
        self.judge(Verdict { outcome, ..verdict })?;
        self.judge_corrected(test, origin, corrected)
    }

    /// Judges flipped bits that were corrected in logs: the storage did not return what was written.
    pub fn judge_corrected(&mut self, test: u32, origin: Origin, segments: u64) -> Result<(), CampaignError> {
        let what = "log segment had a flipped bit, even one that reading corrects";
        self.judge(judge_none(test, origin, "corrected_logs", what, segments))
    }
}

/// Whether no database of an instance needs recovery. A header that cannot be read does not count; the check finds it.
async fn all_closed(state: &ShardState, instance: usize) -> bool {
    let page_bytes = state.deployment.instances[instance].page_bytes as usize;
    let side = state.side(instance);
    let closed = state.paths(instance).into_iter().zip(&side.databases).map(async |(path, (counters, _))| {
        engine::is_closed(&state.world, &path, page_bytes, counters).await.unwrap_or(true)
    });
    join_all(closed).await.into_iter().all(|is_closed| is_closed)
}

/// Checks that closed databases are those that the logs beside them closed.
async fn check_identity(state: &ShardState, instance: usize) -> Result<(), CampaignError> {
    Ok(engine::check_closed(&state.world, &config_of(state, instance).await?).await?)
}

async fn config_of(state: &ShardState, instance: usize) -> Result<InstanceConfig, CampaignError> {
    let options = OpenOptions::normal(&state.deployment.engine);
    let log_dir = state.deployment.instances[instance].log_dir.clone();
    let (config, _) = state.config_in(instance, options, &log_dir, &state.paths(instance)).await?;
    Ok(config)
}

async fn check_databases(state: &ShardState, instance: usize) -> Result<Vec<ChecksumReport>, CampaignError> {
    let paths = state.paths(instance);
    let checks = paths.iter().enumerate().map(|(number, path)| check_database(state, instance, number, path));
    join_all(checks).await.into_iter().collect()
}

/// Checks one database file of a closed instance; counted as its database `number`.
pub async fn check_database(
    state: &ShardState,
    instance: usize,
    number: usize,
    path: &str,
) -> Result<ChecksumReport, CampaignError> {
    if state.world.entry(path).await?.is_none() {
        return Err(CampaignError::NoDatabase { path: path.to_owned() });
    }
    let page_bytes = state.deployment.instances[instance].page_bytes;
    let template = state.template_of_file(instance, number, path).await?;
    let side = state.side(instance);
    let (counters, progress) = &side.databases[number];
    let (world, stop) = (&state.world, &state.stop);
    let page_bytes = page_bytes as usize;
    let is_sound = |pgno, page: PageRef<'_>| template.is_as_written(pgno, page);
    let made_of = engine::MadeOf::from(&template).written(&is_sound);
    Ok(engine::check_database(world, path, page_bytes, made_of, STREAM, counters, progress, stop).await?)
}

async fn check_logs(
    state: &ShardState,
    instance: usize,
    most: usize,
) -> Result<LogChecksumReport, CampaignError> {
    let config = config_of(state, instance).await?;
    let side = state.side(instance);
    Ok(engine::check_logs(&state.world, &config, most, &side.log, &state.stop).await?)
}
