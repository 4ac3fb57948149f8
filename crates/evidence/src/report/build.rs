//! [`RunData`] into [`Report`]: the run as a whole.

use results::Verdict;

use super::model::*;
use super::{ReportError, checks, sections, text, verdict};
use crate::run_data::RunData;

pub fn report(data: &RunData) -> Result<Report, ReportError> {
    let tests = data
        .tests
        .values()
        .map(|test| sections::test(data, test))
        .collect::<Result<Vec<_>, ReportError>>()?;
    let run_verdicts: Vec<Verdict> =
        data.verdicts.iter().filter(|v| v.test.is_none()).map(sections::verdict_row).collect();
    let unjudged = Report {
        format: "proofload-report".to_owned(),
        version: Report::VERSION,
        program: Report::PROGRAM.to_owned(),
        run: run_summary(data),
        verdict: Overall::none(),
        hosts: data.hosts.clone(),
        instances: instances(data),
        databases: databases(data),
        tests,
        run_verdicts,
        checks: checks::rows(data),
        environment: data.environment.clone(),
        events: events(data),
    };
    Ok(Report { verdict: verdict::overall(data, &unjudged), ..unjudged })
}

fn run_summary(data: &RunData) -> RunSummary {
    let run = &data.run;
    RunSummary {
        id: run.id.clone(),
        solution: run.solution.clone(),
        solution_text: run.solution_text.clone(),
        started: text::iso_8601(run.started_unix_ms),
        duration_s: data.last_ms() as f64 / 1e3,
        tool_version: run.tool_version.clone(),
        world: run.world,
        world_detail: run.world_detail.clone(),
        seed: run.seed.to_string(),
        ending: run.ending,
        seal: data.seals.digest.clone(),
        seals_broken: data.seals.broken.clone(),
    }
}

fn instances(data: &RunData) -> Vec<InstanceSetup> {
    data.instances
        .iter()
        .map(|instance| InstanceSetup {
            origin: results::Origin::instance(&instance.host, &instance.name),
            log_path: instance.log_path.clone(),
            log_file_bytes: instance.log_file_bytes,
            cache_min_bytes: instance.cache_min_bytes,
            cache_max_bytes: instance.cache_max_bytes,
        })
        .collect()
}

fn databases(data: &RunData) -> Vec<DatabaseSetup> {
    data.databases
        .iter()
        .map(|database| {
            let mut sizes: Vec<_> = data.sizes.iter().filter(|size| size.origin == database.origin).collect();
            sizes.sort_by_key(|size| size.test);
            let last = sizes.last().map(|size| size.bytes_after.unwrap_or(size.bytes_before));
            DatabaseSetup {
                origin: database.origin.clone(),
                path: database.path.clone(),
                page_bytes: database.page_bytes,
                bytes_before: sizes.first().map(|size| size.bytes_before),
                bytes_after: last,
            }
        })
        .collect()
}

fn events(data: &RunData) -> Vec<EventRow> {
    let mut events: Vec<EventRow> = data
        .events
        .iter()
        .map(|event| EventRow {
            t_s: event.t_ms as f64 / 1e3,
            severity: event.severity,
            test: event.test,
            host: event.host.clone(),
            text: event.text.clone(),
        })
        .collect();
    events.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    events
}
