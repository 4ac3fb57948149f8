//! What redo makes of a page, when, and what becomes of what the file holds.

use std::cell::Cell;

use btree::log_record::encode_changes;
use btree::{EntryData, LogRecord, MiniTransaction, PageChange, PageCoding, PageOp, Pager, PlainCoding};
use edb::page::{PageMut, page_flags};
use smallvec::smallvec;
use world::World;
use world::sim::{SimConfig, Simulation};

use super::{Base, RedoFor};
use crate::cache::tests::{FILE_DBTIME, PAGE_BYTES, key, small_cache};
use crate::cache::{Cache, FRAMES_MIN, Pins};
use crate::cache::{LoggedPage, Rebuilt, RedoOutcome};
use crate::log::{LogPosition, POSITION_END};

const PGNO: u32 = 5;

fn at(segment: u16) -> LogPosition {
    LogPosition::new(1, segment, 0)
}

/// Page as at `dbtime`; only its nodes differ from the page that the file has later.
fn logged(dbtime: u64, nodes: &[&[u8]]) -> LoggedPage {
    let mut page = vec![0; PAGE_BYTES];
    let mut edit = PageMut::format(&mut page, PGNO, 7, page_flags::LEAF, dbtime);
    for (slot, node) in nodes.iter().enumerate() {
        edit.insert(slot, &[slot as u8], node, 0).unwrap();
    }
    let mut encoded = Vec::new();
    PlainCoding { page_bytes: PAGE_BYTES }.encode(PGNO, &page, &mut encoded);
    LoggedPage { dbtime, encoded: encoded.into() }
}

fn change(dbtime_before: u64, op: PageOp) -> PageChange {
    PageChange::one(PGNO, dbtime_before, op)
}

fn delete(dbtime_before: u64) -> PageChange {
    change(dbtime_before, PageOp::Delete { slot: 0 })
}

fn replace(dbtime_before: u64, data: &[u8]) -> PageChange {
    change(dbtime_before, PageOp::Replace { slot: 0, data: EntryData::from(data) })
}

/// Redo of a change as the log contains it.
fn redo(
    cache: &Cache,
    change: PageChange,
    dbtime: u64,
    base: Base,
    at: (LogPosition, LogPosition),
) -> RedoOutcome {
    let (mut bytes, mut outcome) = (Vec::new(), None);
    let mini = MiniTransaction::system(smallvec![change]);
    encode_changes(1, dbtime, &mini, &PlainCoding { page_bytes: PAGE_BYTES }, &mut bytes);
    LogRecord::decode_apart(&bytes, |record, ops| outcome = Some(cache.redo(record, ops, base, at)));
    outcome.unwrap()
}

fn redo_of_file(cache: &Cache, change: PageChange, dbtime: u64) -> RedoOutcome {
    redo(cache, change, dbtime, Base::File, (at(0), at(1)))
}

/// Cache with the records of the log so far, for tests.
struct Redo<'a>(&'a Cache, Cell<u16>);

impl Redo<'_> {
    fn over(cache: &Cache) -> Redo<'_> {
        Redo(cache, Cell::new(0))
    }

    /// Begin and end of the next record.
    fn next_record(&self) -> (LogPosition, LogPosition) {
        let number = self.1.get();
        self.1.set(number + 1);
        (at(number + 1), at(number + 2))
    }

    fn rebuild(&self, image: LoggedPage) -> Rebuilt {
        let (start, end) = self.next_record();
        self.0.rebuild(key(PGNO), image, (start, end)).unwrap()
    }

    /// Redo of the change that follows `dbtime_before`.
    fn redo(&self, change: PageChange) -> RedoOutcome {
        let (dbtime, (start, end)) = (change.dbtime_before + 1, self.next_record());
        redo(self.0, change, dbtime, Base::Log, (start, end))
    }

    fn dirty(&self) -> u64 {
        self.0.status().dirty_pages
    }

    /// Data of the first node, if the page is visible.
    fn seen(&self) -> Option<Vec<u8>> {
        let view = self.0.view(1);
        let page = view.page(PGNO).ok()?;
        let node = (page.node_count() > 0).then(|| page.node(0).data.to_vec());
        Some(node.unwrap_or_default())
    }

    async fn held(&self) -> Pins {
        let mut pins = self.0.pins();
        self.0.fetch(key(PGNO), &mut pins).await.unwrap();
        pins
    }

    async fn held_for_redo(&self) -> Pins {
        let mut pins = self.0.pins();
        self.0.fetch_for_redo(key(PGNO), &mut pins).await.unwrap();
        pins
    }

    fn insert(&self, dbtime_before: u64, slot: u16) -> RedoOutcome {
        let (flags, key, data) = (0, vec![slot as u8].into(), EntryData::from(&b"x"[..]));
        self.redo(change(dbtime_before, PageOp::Insert { slot, flags, key, data }))
    }

    /// Page as read from the file.
    async fn in_file(&self) -> Vec<u8> {
        let database = self.0.database(1).unwrap();
        let offset = (u64::from(PGNO) + 1) * PAGE_BYTES as u64;
        let page = database.file.read_one(results::IoClass::TransactionalRead, offset, PAGE_BYTES).await;
        let page = page.unwrap();
        let page = edb::page::PageRef::new(page.as_slice());
        if page.node_count() > 0 { page.node(0).data.to_vec() } else { Vec::new() }
    }
}

/// Runs `test` on a small cache of a passive copy.
fn redoing<F: Future<Output = ()>>(test: impl FnOnce(World, Cache) -> F) {
    redoing_for(RedoFor::Standby, test);
}

/// Runs `test` on the small cache of an opening instance.
fn opening<F: Future<Output = ()>>(test: impl FnOnce(World, Cache) -> F) {
    redoing_for(RedoFor::Opening, test);
}

fn redoing_for<F: Future<Output = ()>>(redo_for: RedoFor, test: impl FnOnce(World, Cache) -> F) {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/v", 1 << 30);
    sim.run_until(async {
        let cache = small_cache(&world).await;
        cache.set_redo(Some(redo_for));
        test(world.clone(), cache).await;
    });
}

#[test]
fn what_the_file_holds_is_neither_kept_nor_written() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let pins = redo.held().await;
        assert_eq!(redo.rebuild(logged(FILE_DBTIME - 1, &[b"goes"])), Rebuilt::Verified);
        assert_eq!((redo.dirty(), cache.oldest_not_durable()), (1, at(1)), "it counts as changed");
        assert_eq!(redo.seen(), None, "nobody sees what redo has not made");
        assert_eq!(redo.redo(delete(FILE_DBTIME - 1)), RedoOutcome::Applied);
        assert_eq!((redo.dirty(), cache.oldest_not_durable()), (0, POSITION_END));
        assert_eq!((redo.seen(), cache.version(key(PGNO))), (None, Some(FILE_DBTIME)));
        assert!(!cache.is_absent(key(PGNO)), "it need not be read ahead");
        drop(pins);
        let _pins = redo.held().await;
        assert_eq!(redo.seen(), Some(Vec::new()), "whoever wants it reads it");
    });
}

#[test]
fn what_the_file_has_otherwise_is_written_as_the_log_has_it() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        redo.rebuild(logged(FILE_DBTIME - 1, &[b"old"]));
        assert_eq!(redo.redo(replace(FILE_DBTIME - 1, b"new")), RedoOutcome::Applied);
        assert_eq!((redo.seen().unwrap(), redo.dirty()), (b"new".to_vec(), 1));
        cache.write_all(1).await.unwrap();
        assert_eq!(redo.in_file().await, b"new");
    });
}

/// Only an unchanged page from the file says what the file holds.
#[test]
fn what_redo_has_made_is_not_taken_for_what_the_file_holds() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        for _ in 0..2 {
            redo.rebuild(logged(FILE_DBTIME - 1, &[b"old"]));
            assert_eq!(redo.redo(replace(FILE_DBTIME - 1, b"new")), RedoOutcome::Applied);
            assert_eq!((redo.seen().unwrap(), redo.dirty()), (b"new".to_vec(), 1));
        }
    });
}

/// The page was not written since it became dirty, so its changes come next.
#[test]
fn a_page_that_is_not_newer_in_the_file_is_made_at_once() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        redo.rebuild(logged(FILE_DBTIME, &[]));
        assert_eq!((redo.seen().unwrap(), redo.dirty()), (Vec::new(), 1));
    });
}

#[test]
fn a_page_is_made_before_it_is_written_or_seen() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        redo.rebuild(logged(10, &[b"old"]));
        assert_eq!(redo.redo(replace(10, b"new")), RedoOutcome::Applied);
        assert_eq!((redo.seen(), cache.version(key(PGNO))), (None, Some(11)));
        cache.write_all(1).await.unwrap();
        assert_eq!((redo.in_file().await, redo.seen().unwrap()), (b"new".to_vec(), b"new".to_vec()));
        redo.rebuild(logged(FILE_DBTIME, &[b"later"]));
        assert_eq!(redo.seen().unwrap(), b"later", "the file has nothing newer any more");
    });
}

#[test]
fn redo_ends_with_every_page_made() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let pins = redo.held().await;
        redo.rebuild(logged(10, &[b"old"]));
        drop(pins);
        cache.make_all().unwrap();
        assert_eq!((redo.seen().unwrap(), redo.dirty()), (b"old".to_vec(), 1));
    });
}

#[test]
fn changes_do_not_wait_in_any_number() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        redo.rebuild(logged(1, &[b"old"]));
        for dbtime in 1..=256 {
            assert_eq!(redo.redo(replace(dbtime, &dbtime.to_le_bytes())), RedoOutcome::Applied);
            assert_eq!(redo.seen(), None);
        }
        assert_eq!(redo.redo(replace(257, b"made")), RedoOutcome::Applied);
        assert_eq!((redo.seen().unwrap(), redo.dirty()), (b"made".to_vec(), 1));
    });
}

#[test]
fn a_change_of_another_version_is_refused_although_the_page_is_not_made() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        redo.rebuild(logged(10, &[b"old"]));
        for strange in [9, 11] {
            let outcome = redo.redo(replace(strange, b"new"));
            assert!(matches!(&outcome, RedoOutcome::Wrong(why) if why.contains("expects")), "{outcome:?}");
        }
    });
}

#[test]
fn a_change_that_does_not_fit_is_found_when_the_page_is_made() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        redo.rebuild(logged(FILE_DBTIME - 1, &[]));
        let outcome = redo.redo(delete(FILE_DBTIME - 1));
        assert!(matches!(&outcome, RedoOutcome::Wrong(why) if why.contains("slot")), "{outcome:?}");
        assert!(cache.write_all(1).await.is_err(), "and nothing is written for it");
        assert_eq!(redo.in_file().await, b"");
    });
}

/// The log contains a whole page each time that it became dirty again.
#[test]
fn a_later_image_stands_for_all_that_waits() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held().await;
        redo.rebuild(logged(FILE_DBTIME - 3, &[b"old"]));
        assert_eq!(redo.insert(FILE_DBTIME - 3, 1), RedoOutcome::Applied);
        cache.renew(key(PGNO), logged(FILE_DBTIME - 2, &[b"old", b"x"])).unwrap();
        assert_eq!((redo.seen(), redo.dirty()), (None, 1));
        let newest = change(FILE_DBTIME - 2, PageOp::Delete { slot: 1 });
        assert_eq!(redo.redo(newest), RedoOutcome::Applied);
        assert_eq!(redo.redo(delete(FILE_DBTIME - 1)), RedoOutcome::Applied);
        assert_eq!((redo.seen(), redo.dirty()), (None, 0), "it is in the file");
        // What was given up comes back from the log.
        cache.renew(key(PGNO), logged(FILE_DBTIME, &[])).unwrap();
        assert_eq!((redo.seen().unwrap(), redo.dirty()), (Vec::new(), 0));
        assert_eq!(redo.insert(FILE_DBTIME, 0), RedoOutcome::Applied);
        assert_eq!((redo.seen().unwrap(), redo.dirty()), (b"x".to_vec(), 1));
    });
}

#[test]
fn an_instance_that_opens_keeps_no_bytes_of_what_redo_reads() {
    opening(|_, cache| async move {
        let redo = Redo::over(&cache);
        let pins = redo.held_for_redo().await;
        assert_eq!((redo.seen(), cache.version(key(PGNO))), (None, Some(FILE_DBTIME)));
        let outcome = redo_of_file(&cache, delete(FILE_DBTIME - 1), FILE_DBTIME);
        assert_eq!(outcome, RedoOutcome::AlreadyThere { page_dbtime: FILE_DBTIME });
        let outcome = redo_of_file(&cache, delete(FILE_DBTIME), FILE_DBTIME + 1);
        assert!(matches!(outcome, RedoOutcome::Unproven(_)), "{outcome:?}");
        drop(pins);
        let _pins = redo.held().await;
        assert_eq!(redo.seen(), Some(Vec::new()), "whoever wants it reads it");
    });
}

#[test]
fn a_passive_copy_keeps_what_redo_reads() {
    redoing(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held_for_redo().await;
        assert_eq!(redo.seen(), Some(Vec::new()));
    });
}

#[test]
fn an_instance_that_opens_makes_pages_when_they_are_written() {
    opening(|_, cache| async move {
        let redo = Redo::over(&cache);
        let pins = redo.held_for_redo().await;
        redo.rebuild(logged(FILE_DBTIME, &[b"old"]));
        assert_eq!(redo.redo(replace(FILE_DBTIME, b"new")), RedoOutcome::Applied);
        assert_eq!((redo.seen(), redo.dirty()), (None, 1));
        drop(pins);
        cache.write_all(1).await.unwrap();
        assert_eq!((redo.in_file().await, redo.dirty()), (b"new".to_vec(), 0));
        assert!(cache.is_absent(key(PGNO)), "it was made only to be written");
    });
}

#[test]
fn an_instance_that_opens_finds_out_what_the_file_holds_from_the_digest() {
    opening(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held_for_redo().await;
        redo.rebuild(logged(FILE_DBTIME - 1, &[b"goes"]));
        assert_eq!((redo.seen(), redo.dirty()), (None, 1));
        assert_eq!(redo.redo(delete(FILE_DBTIME - 1)), RedoOutcome::Applied);
        assert_eq!((redo.seen(), redo.dirty()), (None, 0));
        // The log goes on with it: the file is older from now on.
        cache.renew(key(PGNO), logged(FILE_DBTIME, &[])).unwrap();
        assert_eq!(redo.insert(FILE_DBTIME, 0), RedoOutcome::Applied);
        assert_eq!((redo.seen(), redo.dirty()), (None, 1));
        cache.write_all(1).await.unwrap();
        assert_eq!(redo.in_file().await, b"x");
    });
    opening(|_, cache| async move {
        let redo = Redo::over(&cache);
        let _pins = redo.held_for_redo().await;
        redo.rebuild(logged(FILE_DBTIME - 1, &[b"old"]));
        assert_eq!(redo.redo(replace(FILE_DBTIME - 1, b"new")), RedoOutcome::Applied);
        assert_eq!((redo.seen().unwrap(), redo.dirty()), (b"new".to_vec(), 1), "the file has no nodes");
    });
}

/// Redo may have cut the page off the file since it was read, as new space.
#[test]
fn a_page_that_is_made_anew_is_written_whatever_was_read() {
    for (redo_for, seen) in [(RedoFor::Opening, Some(Vec::new())), (RedoFor::Worker, None)] {
        redoing_for(redo_for, |_, cache| async move {
            let redo = Redo::over(&cache);
            let pins = redo.held_for_redo().await;
            let coding = PlainCoding { page_bytes: PAGE_BYTES };
            let page = logged(FILE_DBTIME - 1, &[b"goes"]).decode(PGNO, &coding);
            let format = PageOp::Format { page: page.unwrap().as_slice().into() };
            let outcome = redo_of_file(&cache, change(0, format), FILE_DBTIME - 1);
            assert_eq!(outcome, RedoOutcome::MadeAnew(Rebuilt::Verified));
            // That is what was read.
            assert_eq!(redo.redo(delete(FILE_DBTIME - 1)), RedoOutcome::Applied);
            assert_eq!((redo.seen(), redo.dirty()), (seen, 1));
            drop(pins);
            let written = cache.0.world.io_totals().writes;
            cache.write_all(1).await.unwrap();
            assert_eq!(cache.0.world.io_totals().writes, written + 1);
            assert_eq!((redo.in_file().await, redo.dirty()), (Vec::new(), 0));
        });
    }
}

/// So no page is read or written twice for lack of memory.
#[test]
fn a_page_without_bytes_takes_of_a_workers_memory_what_it_needs() {
    redoing_for(RedoFor::Worker, |_, cache| async move {
        let available = || cache.0.frames.borrow().available();
        let (pages, before) = (FRAMES_MIN as u32 + 20, available());
        for pgno in 1..=pages {
            cache.fetch_for_redo(key(pgno), &mut cache.pins()).await.unwrap();
        }
        assert!((1..=pages).all(|pgno| !cache.is_absent(key(pgno))) && before - available() < 10);
        // What the log says of a page counts, too.
        let before = available();
        let (long, redo) = ([7; 2 * PAGE_BYTES / 3], Redo::over(&cache));
        redo.rebuild(logged(FILE_DBTIME, &[&long]));
        assert_eq!(before - available(), 1);
        assert_eq!(redo.redo(replace(FILE_DBTIME, &long)), RedoOutcome::Applied);
        assert!(before - available() >= 2);
        cache.write_all(1).await.unwrap();
        assert!(available() >= before);
    });
}
