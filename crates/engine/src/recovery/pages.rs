//! Redo of single pages.
//!
//! A page checksum is a parity code: a torn write of regular data can pass it. So a page is never trusted because it
//! verifies. The first record of the replayed range that holds the page as a whole (the image from before it became
//! dirty, or a change that makes it anew) is its *base*, even if the file is newer; what changed it earlier is in the
//! base, and what changed it later is applied to the base.
//!
//! Invariants
//! 1. A page without a base in the range had all its changes of the range durably in the file when the
//!    checkpoint passed (a page holds the checkpoint until its write is synced, and a clean page logs its image
//!    before it changes). So it must verify and be as new as the last of them; if it is not, a write was lost,
//!    and recovery fails.
//! 2. From the base on every version must be the one that the next record expects; else the log contradicts
//!    itself or the file lost a write of this recovery.
//! 3. A base is written back, so what a torn write left is replaced, unless the file holds durably what redo
//!    has made of it, by a digest of all that means something on a page: most pages were written before the
//!    crash.
//!
//! Limits: what the log says of a page is kept in memory until redo has come as far as the file, or writes the page.

use std::collections::BTreeMap;

use btree::PageRecordKind;
use world::FixedHashSet;

use super::records::PageEntry;
use super::{Recovery, RecoveryBranch, RecoveryReport};
use crate::cache::{Base, Cache, LoggedPage, PageKey, Pins, Rebuilt, RedoOutcome};
use crate::error::Result;

/// Knowledge of redo about the pages of the replayed range.
#[derive(Default)]
pub(crate) struct PageStates {
    based: FixedHashSet<PageKey>,
    /// Pages that another copy sent and that the log has not replaced since.
    given: FixedHashSet<PageKey>,
    /// Unproven pages: their copy in the file cannot be what the log requires, and no base has come so far.
    unproven: BTreeMap<PageKey, String>,
    /// Newest page of each database that was found to have its changes.
    newest: BTreeMap<u8, (u64, u32)>,
}

impl PageStates {
    fn base(&self, key: &PageKey) -> Base {
        match (self.based.contains(key), self.given.contains(key)) {
            (true, _) => Base::Log,
            (false, true) => Base::Copy,
            (false, false) => Base::File,
        }
    }

    /// Replays records, each of which names a page once at most. All these pages stay in memory meanwhile.
    pub(super) async fn replay(
        &mut self,
        cache: &Cache,
        said: impl Iterator<Item = PageEntry<'_>>,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        let mut pins = cache.pins();
        for said in said {
            match said.record.kind {
                PageRecordKind::Image => self.replay_image((cache, &mut pins), said, report).await?,
                PageRecordKind::Change { .. } => {
                    self.replay_change((cache, &mut pins), said, report).await?;
                }
            }
        }
        Ok(())
    }

    /// Replays a page image.
    async fn replay_image(
        &mut self,
        (cache, pins): (&Cache, &mut Pins),
        said: PageEntry<'_>,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        let (key, dbtime) = (said.key(), said.record.dbtime);
        let is_based = self.based.contains(&key);
        let is_later = || is_based && cache.version(key) == Some(dbtime);
        // What redo has come to needs no bytes of the file.
        if !is_later() {
            cache.fetch_for_redo(key, pins).await?;
        }
        if planted!(VerifiedPageTrusted) && cache.version(key) >= Some(dbtime) {
            self.based.insert(key);
            return Ok(());
        }
        let image = LoggedPage { dbtime, encoded: said.bytes.into() };
        if is_later() {
            cache.renew(key, image).map_err(|reason| cache.damaged(key, reason))?;
            report.branches.count(RecoveryBranch::LaterImage);
            return Ok(());
        }
        match cache.rebuild(key, image, said.at) {
            Ok(Rebuilt::FailedCheck) => {
                report.pages_repaired += 1;
                report.branches.count(RecoveryBranch::DamagedPageFromImage);
            }
            Ok(Rebuilt::Verified) => report.branches.count(RecoveryBranch::VerifiedPageFromImage),
            Err(reason) => return Err(cache.damaged(key, reason)),
        }
        self.has_base(key, report);
        Ok(())
    }

    fn has_base(&mut self, key: PageKey, report: &mut RecoveryReport) {
        self.based.insert(key);
        if self.unproven.remove(&key).is_some() {
            report.branches.count(RecoveryBranch::ChangesBeforeBase);
        }
    }

    async fn replay_change(
        &mut self,
        (cache, pins): (&Cache, &mut Pins),
        said: PageEntry<'_>,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        let key = said.key();
        let base = self.base(&key);
        // The change goes on what redo has made, unless that was written and is not in memory any more.
        if base == Base::File && !planted!(RedoWithoutDbtime) || said.record.is_whole() {
            cache.fetch_for_redo(key, pins).await?;
        } else {
            cache.fetch(key, pins).await?;
        }
        match cache.redo(said.record, said.bytes, base, said.at) {
            RedoOutcome::Applied => report.changes_applied += 1,
            RedoOutcome::MadeAnew(before) => {
                report.changes_applied += 1;
                report.branches.count(match before {
                    Rebuilt::FailedCheck => RecoveryBranch::DamagedPageMadeAnew,
                    Rebuilt::Verified => RecoveryBranch::VerifiedPageMadeAnew,
                });
                self.has_base(key, report);
            }
            RedoOutcome::AlreadyThere { page_dbtime } => {
                report.branches.count(RecoveryBranch::ChangeAlreadyThere);
                let newest = self.newest.entry(key.db).or_default();
                *newest = (*newest).max((page_dbtime, key.pgno));
            }
            RedoOutcome::Unproven(reason) => {
                // A base comes later in the log and has this change in it, or the page is lost.
                self.based.remove(&key);
                self.unproven.entry(key).or_insert(reason);
            }
            RedoOutcome::Wrong(reason) => return Err(cache.damaged(key, reason)),
        }
        Ok(())
    }

    /// Adds the knowledge about other pages.
    pub(super) fn merge(&mut self, other: PageStates) {
        self.unproven.extend(other.unproven);
        for (db, newest) in other.newest {
            let ours = self.newest.entry(db).or_default();
            *ours = (*ours).max(newest);
        }
    }

    /// Notes that another copy sent this page, which is in memory now.
    pub(crate) fn give(&mut self, key: PageKey) {
        self.based.remove(&key);
        self.unproven.remove(&key);
        self.given.insert(key);
    }

    /// Pages that the replayed log contains as a whole, or that another copy sent.
    pub(crate) fn held_as_a_whole(&self) -> impl Iterator<Item = PageKey> {
        self.based.iter().chain(&self.given).copied()
    }

    /// Pages whose copy in the file cannot be what the log requires.
    pub(crate) fn unproven(&self) -> impl Iterator<Item = PageKey> {
        self.unproven.keys().copied()
    }
}

impl Recovery<'_> {
    /// Judges all pages at the end of the log.
    pub(crate) fn judge_pages(&self, pages: &PageStates) -> Result<()> {
        if let Some((key, reason)) = pages.unproven.first_key_value() {
            return Err(self.cache.damaged(*key, format!("{reason}, and the log has no image of it")));
        }
        for (&db, &(dbtime, pgno)) in &pages.newest {
            if self.database(db).is_some_and(|database| database.dbtime.get() < dbtime) {
                let reason =
                    format!("its dbtime {dbtime} is newer than the end of the log: log writes were lost");
                return Err(self.cache.damaged(PageKey { db, pgno }, reason));
            }
        }
        Ok(())
    }
}
