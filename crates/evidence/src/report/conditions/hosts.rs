//! Conditions on the hosts and on what lies below their volumes.

use results::{Environment, Severity};

use super::{Found, Graded, found, is_gap, is_kernel_log, of_all, of_rows};
use crate::environment::sharing::{self, Shared};
use crate::environment::{HOLDS_EVIDENCE, NO, STORAGE_IS_MEMORY};
use crate::report::checks;
use crate::report::model::CheckOutcome;
use crate::report::text::counted;

impl Graded<'_> {
    pub(super) fn undeclared_sharing(&self) -> Option<Found> {
        let shared = sharing::undeclared(&self.report.environment);
        let texts: Vec<String> = shared.iter().map(Shared::text).collect();
        let count = counted(texts.len() as u64, "shared part");
        found(Some(texts.len() as f64), format!("{count}: {}", texts.join("; ")))
    }

    pub(super) fn unbuffered(&self) -> Option<Found> {
        let is_good = |host: &&results::Host| {
            self.report.checks.iter().any(|row| {
                row.name == checks::UNBUFFERED && row.host == host.name && row.outcome == CheckOutcome::Good
            })
        };
        let (count, all) = (self.report.hosts.iter().filter(is_good).count(), self.report.hosts.len());
        found(of_all(count, all), format!("hosts known to bypass the page cache: {count} of {all}"))
    }

    /// Hosts whose kernel log could be read in full, from before the tests to after them, in percent.
    pub(super) fn kernel_log(&self) -> Option<Found> {
        let is_read = |host: &&results::Host| {
            let rows =
                self.report.environment.iter().filter(|row| row.host == host.name && is_kernel_log(row));
            let rows: Vec<&Environment> = rows.collect();
            !rows.is_empty() && !rows.into_iter().any(is_gap)
        };
        let all = self.report.hosts.len();
        let count = self.report.hosts.iter().filter(is_read).count();
        found(of_all(count, all), format!("hosts whose kernel log was read throughout: {count} of {all}"))
    }

    pub(super) fn on_storage(&self) -> Option<Found> {
        self.volumes_without(STORAGE_IS_MEMORY, "is in memory")
    }

    pub(super) fn evidence_apart(&self) -> Option<Found> {
        self.volumes_without(HOLDS_EVIDENCE, "holds the evidence of the run")
    }

    /// Volumes for which an environment row of this name says that something (memory, holding the evidence) is known
    /// not to be so, in percent.
    fn volumes_without(&self, name: &str, what: &str) -> Option<Found> {
        let Some(data) = self.rows else { return of_rows() };
        let mut others = Vec::new();
        for volume in &data.volumes {
            let is_of_it = |row: &&Environment| {
                let area = row.area.strip_prefix("Volume ");
                row.host == volume.host && area == Some(volume.name.as_str()) && row.name == name
            };
            let row = data.environment.iter().find(is_of_it);
            match row.map(|row| (row.severity, row.value.as_str())) {
                Some((Severity::Warning | Severity::Error, _)) => {
                    others.push(format!("{} {what}", volume.name))
                }
                Some((_, NO)) => {}
                _ => others.push(format!("whether {} {what} is not known", volume.name)),
            }
        }
        let all = data.volumes.len();
        found(of_all(all - others.len(), all), others.join(", "))
    }
}
