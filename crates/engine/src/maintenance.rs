//! Background maintenance: one slow sequential reader per database, which looks at every page again and again.
//!
//! The pause between two reads is the engine's throttle seen through the clock of the system it ran on: the next read
//! comes at the first tick at least a throttle after the last one completed. With 256 KiB, 15.625 ms and 100 ms that
//! gives the 9.0 to 9.2 reads a second that published reports show, under every load.

use std::cell::Cell;

use results::IoClass;
use world::{Duration, OpenMode, Time, World};

use crate::cache::PageKey;
use crate::config::DatabaseConfig;
use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::io::IoFile;
use crate::pieces::{Known, PageFindings, PieceReader};
use crate::signal::StopSignal;

/// Configuration of background maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceConfig {
    /// Size of a read, bytes.
    pub read_bytes: u64,
    /// Least pause from the end of a read to the beginning of the next.
    pub throttle: Duration,
    /// Interval to whose multiples the beginnings of reads are aligned.
    pub tick: Duration,
}

impl Default for MaintenanceConfig {
    fn default() -> MaintenanceConfig {
        MaintenanceConfig {
            read_bytes: 256 << 10,
            throttle: Duration::from_millis(100),
            tick: Duration::from_micros(15_625),
        }
    }
}

/// Result of background maintenance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Number of completed passes over the file.
    pub passes: u64,
    /// Findings on the pages.
    pub findings: PageFindings,
}

impl Instance {
    /// Maintains database `db` until the stop, from the place that the header has stored, which outlives the process.
    ///
    /// # Errors
    /// A failed read. Bad pages are no error: they are in the report.
    pub async fn maintain(
        &self,
        db: u8,
        config: &MaintenanceConfig,
        stop: &StopSignal,
    ) -> Result<MaintenanceReport> {
        let core = self.core();
        let database = core.database(db)?;
        let pieces = PieceReader {
            world: &core.world,
            file: &database.file,
            page_bytes: core.config.page_bytes,
            template_id: database.template_id,
            class: IoClass::MaintenanceRead,
            in_use: true,
        };
        let is_other = core.is_other_version(db);
        let known = Known { is_other: Some(&is_other), ..Known::default() };
        let report = async |pgno| core.cache.report_damaged(PageKey { db, pgno }).await;
        let (from, check) = (&database.scanned_to, || core.poison.check());
        pass_after_pass((&pieces, known), config, stop, from, check, |_| false, report).await
    }
}

/// Maintains a database during its recovery, until the stop. Findings count for little, because pages that redo has
/// not reached may be torn.
///
/// # Errors
/// A failed read.
pub async fn maintain_in_recovery(
    world: &World,
    database: &DatabaseConfig,
    page_bytes: usize,
    config: &MaintenanceConfig,
    stop: &StopSignal,
) -> Result<MaintenanceReport> {
    let file = IoFile::open(world, &database.path, OpenMode::Read, &database.counters).await?;
    let pieces = PieceReader {
        world,
        file: &file,
        page_bytes,
        template_id: database.template_id,
        class: IoClass::MaintenanceRead,
        in_use: true,
    };
    // A file that redo cuts and makes longer at once has its old size again when it is asked.
    let mends_itself = |error: &Error| error.is_short_read();
    let (known, report) = (Known::default(), async |_| Ok(()));
    pass_after_pass((&pieces, known), config, stop, &Cell::new(0), || Ok(()), mends_itself, report).await
}

async fn pass_after_pass(
    (pieces, known): (&PieceReader<'_>, Known<'_>),
    config: &MaintenanceConfig,
    stop: &StopSignal,
    scanned_to: &Cell<u32>,
    check: impl Fn() -> Result<()>,
    mends_itself: impl Fn(&Error) -> bool,
    report_damaged: impl AsyncFn(u32) -> Result<()>,
) -> Result<MaintenanceReport> {
    let mut report = MaintenanceReport::default();
    let page_bytes = pieces.page_bytes as u64;
    let (mut offset, mut pass_bytes) = (place_behind(scanned_to.get()) * page_bytes, 0);
    while !stop.is_stopped() {
        check()?;
        let end = pieces.size().await?;
        if offset >= end {
            offset = 0;
        }
        let bytes = config.read_bytes.min(end.saturating_sub(offset));
        let listed = report.findings.list.len();
        match pieces.read(known, offset, bytes, &mut report.findings).await {
            // Recovery has given this space back meanwhile.
            Err(error) if mends_itself(&error) || pieces.size().await? < end => continue,
            read => read?,
        };
        for (pgno, _) in report.findings.list[listed..].iter().filter(|(pgno, _)| *pgno > 0) {
            report_damaged(*pgno).await?;
        }
        (offset, pass_bytes) = (offset + bytes, pass_bytes + bytes);
        // A pass that began in the middle ends there.
        if pass_bytes >= end {
            (pass_bytes, report.passes) = (0, report.passes + 1);
        }
        scanned_to.set(last_page_before(offset / page_bytes));
        let next = next_read(pieces.world.now(), config);
        pieces.world.sleep_until(next).await;
    }
    Ok(report)
}

/// Place in the file behind page `pgno`; that of the header for 0.
fn place_behind(pgno: u32) -> u64 {
    if pgno == 0 { 0 } else { u64::from(pgno) + 2 }
}

/// Page before a place in the file; 0 if there is none. Page 1 is at place 2.
fn last_page_before(place: u64) -> u32 {
    place.saturating_sub(2) as u32
}

/// Time of the next read: the first tick after the pause.
fn next_read(now: Time, config: &MaintenanceConfig) -> Time {
    let tick_ns = config.tick.as_nanos().max(1) as u64;
    Time { ns: (now + config.throttle).ns.div_ceil(tick_ns) * tick_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_begin_at_the_first_tick_a_throttle_after_the_last_one_ended() {
        let config = MaintenanceConfig::default();
        let at = |us: u64| next_read(Time { ns: us * 1000 }, &config).ns / 1000;
        assert_eq!(at(0), 109_375, "100 ms is 6.4 ticks");
        assert_eq!(at(9_375), 109_375);
        assert_eq!(at(9_376), 125_000);
    }
}
