//! Checking whole files: every page of a database, every segment of the closed logs.
//!
//! Limits: the database must not be in use by another process that writes it; a bad file is a result, not an error.

use edb::log::Records;
use futures_util::future::join_all;
use results::IoClass;
use world::{OpenMode, World};

use crate::config::InstanceConfig;
use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};
use crate::log::LogNames;
use crate::log::reader::{LogContents, LogFiles};
use crate::pieces::{PageFindings, PieceQueue, Pieces, Progress};
use crate::signal::StopSignal;

/// How a file is read from end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamConfig {
    /// Bytes per read.
    pub read_bytes: u64,
    /// Reads under way at once.
    pub depth: usize,
}

/// What a check of a database found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChecksumReport {
    /// What was found.
    pub findings: PageFindings,
    /// Bytes read.
    pub bytes: u64,
    /// Time it took.
    pub seconds: f64,
}

/// What a check of logs found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogChecksumReport {
    /// Logs read.
    pub logs: u32,
    /// Logs that are damaged or out of the chain: generation and what is wrong.
    pub bad: Vec<(u32, String)>,
    /// Bytes read.
    pub bytes: u64,
    /// Time it took.
    pub seconds: f64,
}

/// Reads and checks every page of the database file at `path`.
///
/// # Errors
/// A failed read.
#[expect(clippy::too_many_arguments, reason = "a file, how to read it, and three handles for who watches")]
pub async fn check_database(
    world: &World,
    path: &str,
    page_bytes: usize,
    image_id: Option<u64>,
    config: StreamConfig,
    counters: &Counters,
    progress: &Progress,
    stop: &StopSignal,
) -> Result<ChecksumReport> {
    let started = world.now();
    let file = IoFile::open(world, path, OpenMode::Read, counters).await?;
    let pieces =
        Pieces { world, file: &file, page_bytes, image_id, class: IoClass::VerifyRead, in_use: false };
    let end = pieces.size().await?;
    let queue = PieceQueue::new(end, config.read_bytes);
    progress.begin(end);
    let reader = || async {
        let mut report = ChecksumReport::default();
        while let Some((offset, bytes)) = queue.take().filter(|_| !stop.is_stopped()) {
            pieces.read(offset, bytes, &mut report.findings).await?;
            report.bytes += bytes;
            progress.add(bytes);
        }
        Ok::<_, Error>(report)
    };
    let mut total = ChecksumReport::default();
    for report in join_all((0..config.depth.max(1)).map(|_| reader())).await {
        let report = report?;
        total.findings.merge(report.findings);
        total.bytes += report.bytes;
    }
    total.seconds = world.now().since(started).as_secs_f64();
    Ok(total)
}

/// Reads and checks the newest closed logs of an instance, at most `most` of them.
///
/// # Errors
/// A failed read.
pub async fn check_logs(
    world: &World,
    config: &InstanceConfig,
    most: usize,
    counters: &Counters,
    stop: &StopSignal,
) -> Result<LogChecksumReport> {
    let started = world.now();
    let names = LogNames::new(&config.log_directory, &config.log_base);
    let files = LogFiles::find(world, &names).await?;
    let segments = config.segments()?;
    let first = files.archives.len().saturating_sub(most);
    let mut report = LogChecksumReport::default();
    let mut previous = None;
    let mut records = Records::new();
    for &generation in &files.archives[first..] {
        if stop.is_stopped() {
            break;
        }
        let path = names.archive(generation);
        let read = LogContents::read(world, &path, segments, counters, IoClass::LogRead).await;
        report.logs += 1;
        report.bytes += u64::from(config.log_bytes);
        let log = match read {
            Ok(log) => log,
            Err(Error::DamagedFile { reason, .. }) => {
                report.bad.push((generation, reason));
                (previous, records) = (None, Records::new());
                continue;
            }
            Err(error) => return Err(error),
        };
        let header = *log.header();
        if !log.is_complete() {
            report.bad.push((generation, format!("segment {} is not valid", log.next_segment())));
        } else if header.generation != generation || previous.is_some_and(|before| !header.follows(&before)) {
            report.bad.push((generation, "it does not belong to the chain of logs".to_owned()));
        } else if let Err(damage) = log.records(&mut records, |_, _| {}) {
            report.bad.push((generation, damage.to_string()));
            records = Records::new();
        }
        previous = Some(header);
    }
    report.seconds = world.now().since(started).as_secs_f64();
    Ok(report)
}
