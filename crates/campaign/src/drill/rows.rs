//! What the evidence says of a drill beside its judgements.

use super::node::NodeSample;
use super::topology::{PlannedDrill, Topology};
use crate::host::database_path;
use results::judge::held_up;
use results::{Database, Instance, IoClass, Measure, Origin, Parameter, Row, Sample, Test, Volume};

/// Row of the drill at its start, `begins_ms` into the run.
pub(super) fn test_row(planned: &PlannedDrill, begins_ms: u64) -> Test {
    let PlannedDrill { topology, test, drill, ordinal, name } = planned;
    let parameter = |name: &str, value: String| Parameter { name: name.into(), value };
    let failures = drill.failures.iter().map(|failure| {
        let back = failure.back_at_s.map_or(String::new(), |back_s| format!(", back at {back_s} s"));
        format!("{} at {} s{back}", failure.what, failure.at_s)
    });
    let copies = topology.databases.iter().map(|database| database.places.len()).max().unwrap_or(0);
    let without_caches = topology.lacks_meta_caches().then(|| {
        parameter("MetaCaches", "none: the copies of a drill read from their database volumes".into())
    });
    Test {
        ordinal: *ordinal,
        kind: test.kind.name().to_owned(),
        name: name.clone(),
        started_ms: begins_ms,
        ended_ms: None,
        window_start_ms: None,
        window_end_ms: None,
        window_planned_ms: Some((test.duration_s * 1e3) as u64),
        sample_ms: 1000,
        sessions: None,
        target_iops: None,
        target_batches_per_s: None,
        day: None,
        iops_per_mailbox: None,
        copies: copies as u32,
        parameters: vec![
            parameter("Databases", topology.databases.len().to_string()),
            parameter("Mount dial", format!("{:?}", drill.mount_dial)),
            parameter("Partner", format!("{:?}", drill.partner)),
            parameter("Failures", failures.collect::<Vec<_>>().join("; ")),
        ]
        .into_iter()
        .chain(without_caches)
        .collect(),
        limits: Vec::new(),
    }
}

/// Rows of a host's volumes and copies.
pub(super) fn copy_rows(topology: &Topology, host: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let holdings = topology.holdings(host);
    for volume in holdings.volumes {
        rows.push(Volume { host: holdings.host.clone(), name: volume.name, path: volume.dir }.into());
    }
    for instance in holdings.instances {
        for database in &instance.databases {
            let origin = Origin::database(&holdings.host, &instance.name, &database.name);
            let path = database_path(&database.dir, &database.name);
            rows.push(Database { origin, path, page_bytes: instance.page_bytes }.into());
        }
        rows.push(
            Instance {
                host: holdings.host.clone(),
                name: instance.name,
                log_path: instance.log_dir,
                log_file_bytes: instance.log_file_bytes,
                cache_min_bytes: instance.cache_min_bytes,
                cache_max_bytes: instance.cache_max_bytes,
            }
            .into(),
        );
    }
    rows
}

/// Rows with the counters of a host for the second that begins `t_ms` into the run.
pub fn sample_rows(sample: &NodeSample, ordinal: u32, host: &str, t_ms: u64) -> Vec<Sample> {
    let io = IoClass::ALL.map(|class| (Measure::Io(class), sample.io.class(class)));
    let counted = io.into_iter().chain([(Measure::Batch, &sample.batches)]);
    let counted =
        counted.map(|(measure, stats)| (measure, stats.totals)).filter(|(_, totals)| totals.count > 0);
    counted
        .chain(held_up(|class| sample.io.class(class).totals, &sample.waiting))
        .map(|(measure, totals)| Sample::new(ordinal, Origin::host(host), measure, t_ms, 1000, totals))
        .collect()
}
