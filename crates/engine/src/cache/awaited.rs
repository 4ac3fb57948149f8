//! Pages that failed their check and are awaited from another copy.
//!
//! Invariants
//! 1. From the moment at which such a page is found until it is replaced, nothing reads or changes it. So a copy
//!    that has replayed the log to that moment holds what the page has to be.
//! 2. A page is durable when its replacement is first read.
//!
//! Limits: only pages that are not in memory. An operation waits [`REPAIR_WAIT`] for a page, then it fails.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::select;
use results::IoClass;
use smallvec::smallvec;
use world::sync::Notify;
use world::{Duration, PageBuf, Time};

use super::frames::Content;
use super::read::PageNeed;
use super::{Cache, PageKey};
use crate::error::{Error, Result};
use crate::judge::{Finding, judge};

/// Time for which an operation waits for a page from another copy.
const REPAIR_WAIT: Duration = Duration::from_secs(10);

/// Callback for each page that failed its check: database and number.
type OnDamage = Rc<dyn Fn(u8, u32)>;

/// Pages that wait for a replacement from other copies of the databases.
#[derive(Default)]
pub(super) struct Awaited {
    on_damage: RefCell<Option<OnDamage>>,
    /// Notified when a page has been replaced.
    pub(super) replaced: Notify,
}

impl Cache {
    /// Sets the callback. From now on pages that fail their check are reported and waited for.
    pub(crate) fn set_on_damage(&self, on_damage: Rc<dyn Fn(u8, u32)>) {
        *self.0.awaited.on_damage.borrow_mut() = Some(on_damage);
    }

    /// Callback, if other copies can replace pages.
    pub(super) fn on_damage(&self) -> Option<OnDamage> {
        self.0.awaited.on_damage.borrow().clone().filter(|_| self.0.redo.get().is_none())
    }

    /// Whether this page failed its check and has not been replaced.
    pub(crate) fn is_awaited(&self, key: PageKey) -> bool {
        let frames = self.0.frames.borrow();
        frames.find(key).is_some_and(|frame| matches!(frames.get(frame).content, Content::Awaited))
    }

    /// Reads a page that was found damaged on disk, so that it is reported unless memory holds it.
    pub(crate) async fn report_damaged(&self, key: PageKey) -> Result<()> {
        if self.on_damage().is_none() {
            return Ok(());
        }
        self.preread(key.db, &[key.pgno], PageNeed::Bytes).await
    }

    /// Waits until any page has been replaced. Fails at `until`, which an operation sets at its first call.
    pub(super) async fn replaced(&self, key: PageKey, until: &mut Option<Time>) -> Result<()> {
        let world = &self.0.world;
        let until = *until.get_or_insert_with(|| world.now() + REPAIR_WAIT);
        if world.now() >= until {
            return Err(self.damaged(key, "it failed its check, and no other copy has given it".to_owned()));
        }
        select(pin!(self.0.awaited.replaced.wait()), pin!(world.sleep_until(until))).await;
        Ok(())
    }

    /// Replaces a page that is waited for by the page of another copy.
    pub(crate) async fn replace(&self, key: PageKey, bytes: &[u8]) -> Result<()> {
        let (database, page) = (self.database(key.db)?, PageBuf::copy_of(bytes));
        let is_whole = bytes.len() == self.0.page_bytes;
        if !is_whole || judge(&page, u64::from(key.pgno) + 1, None) != Finding::Good {
            return Err(Error::Refused(format!("page {} of the other copy is damaged, too", key.pgno)));
        }
        if !self.begin_replacing(key) {
            return Ok(());
        }
        let _working = self.0.poison.working();
        let offset = (u64::from(key.pgno) + 1) * self.0.page_bytes as u64;
        let written = database.file.write(IoClass::HousekeepingWrite, offset, smallvec![page]).await;
        self.0.poison.require(written)?;
        self.0.poison.require(database.file.sync().await)?;
        let mut frames = self.0.frames.borrow_mut();
        let frame = frames.find(key).expect("an awaited page stays until it is replaced");
        frames.get_mut(frame).writing = false;
        frames.release(frame);
        drop(frames);
        self.0.freed.notify_one();
        self.0.awaited.replaced.notify_all();
        Ok(())
    }

    /// Takes the turn to replace a page, if it is waited for and no other task has the turn.
    fn begin_replacing(&self, key: PageKey) -> bool {
        let mut frames = self.0.frames.borrow_mut();
        let Some(frame) = frames.find(key) else { return false };
        let slot = frames.get_mut(frame);
        matches!(slot.content, Content::Awaited) && !std::mem::replace(&mut slot.writing, true)
    }
}
