//! Log file bytes per batch, from the records that the operations of a batch really make. No engine: pages of a one
//! terabyte template in memory, every page clean when it is first touched, as nearly all are at that size.
//!
//! `cargo test -p workload --test databases log_volume:: -- --nocapture` prints what the bytes are spent on.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use btree::log_record::{encode_changes, encode_page_image};
use btree::{LogRecord, MiniTransaction, PageCoding, Pager, Stop, tree, update};
use workload::codec::DatabaseCodec;
use workload::payload::mix;
use workload::schema::{Entry, Tree};
use workload::template::TemplateDatabase;
use world::{PageCodec, TemplatePages};

/// Number of batches; a multiple of 25, so that the operations have exactly the shares of the mix.
const BATCHES: u64 = 125;
/// Size of a log segment, bytes. A durable commit writes the current segment, and its unused rest is lost.
const SEGMENT_BYTES: u64 = 4096;
const SEGMENT_DATA_BYTES: u64 = 4056;
const RECORD_HEADER_BYTES: u64 = 3 + edb::log::RECORD_SUM_BYTES as u64;
const RAW_PAGE_LIMIT: usize = 200;

struct Coding(DatabaseCodec, usize);

impl PageCoding for Coding {
    fn page_bytes(&self) -> usize {
        self.1
    }
    fn encode(&self, pgno: u32, page: &[u8], out: &mut Vec<u8>) {
        self.0.encode(u64::from(pgno) + 1, page, out);
    }
    fn decode(&self, pgno: u32, encoded: &[u8], page: &mut [u8]) -> bool {
        self.0.decode(u64::from(pgno) + 1, encoded, page).is_some()
    }
}

/// Pages of the template, created when an operation misses them.
struct Pages {
    template: Rc<TemplateDatabase>,
    made: BTreeMap<u32, Vec<u8>>,
}

impl Pager for Pages {
    fn page(&self, pgno: u32) -> Result<btree::PageView<'_>, Stop> {
        self.made.get(&pgno).map(|page| btree::PageView::of_bytes(page)).ok_or(Stop::Missing(pgno))
    }

    fn page_bytes(&self) -> usize {
        self.template.page_bytes()
    }
}

impl Pages {
    /// Repeats an operation and supplies the pages that it misses, until it succeeds.
    fn ask<T>(&mut self, ask: impl Fn(&dyn Pager) -> Result<T, Stop>) -> T {
        loop {
            match ask(self) {
                Err(Stop::Missing(pgno)) => {
                    self.fetch(pgno);
                }
                done => return done.unwrap(),
            }
        }
    }

    fn fetch(&mut self, pgno: u32) -> &mut Vec<u8> {
        self.made.entry(pgno).or_insert_with(|| {
            let mut page = vec![0; self.template.page_bytes()];
            self.template.fill(u64::from(pgno) + 1, &mut page);
            page
        })
    }
}

#[derive(Default, Debug)]
struct Bytes {
    spent: BTreeMap<&'static str, u64>,
    segment_used: u64,
    segments: u64,
}

impl Bytes {
    fn record(&mut self, what: &'static str, len: usize) {
        *self.spent.entry(what).or_default() += len as u64;
        self.segment_used += len as u64 + RECORD_HEADER_BYTES;
        while self.segment_used > SEGMENT_DATA_BYTES {
            self.segments += 1;
            // The rest continues in the next segment behind a header of its own.
            self.segment_used = self.segment_used - SEGMENT_DATA_BYTES + RECORD_HEADER_BYTES;
        }
    }

    fn flush(&mut self) {
        if self.segment_used > 0 {
            *self.spent.entry("rest of the segment at a durable commit").or_default() +=
                SEGMENT_DATA_BYTES - self.segment_used;
            self.segments += 1;
            self.segment_used = 0;
        }
    }
}

struct Database {
    template: Rc<TemplateDatabase>,
    pages: Pages,
    coding: Coding,
    dirty: BTreeSet<u32>,
    dbtime: u64,
    bytes: Bytes,
    next_id: u32,
    versions: BTreeMap<u32, u32>,
    pick: u64,
}

impl Database {
    fn log(&mut self, what: &'static str, mut mini: MiniTransaction, transaction: Option<u32>) {
        mini.transaction = transaction;
        self.dbtime += 1;
        for change in &mini.changes {
            if self.dirty.insert(change.pgno) && !change.formats() {
                let mut record = Vec::new();
                let page = self.pages.fetch(change.pgno);
                let encode = |out: &mut Vec<u8>| self.coding.encode(change.pgno, page, out);
                encode_page_image(1, change.pgno, change.dbtime_before, &mut record, encode);
                assert!(record.len() < RAW_PAGE_LIMIT, "page {} takes {} bytes", change.pgno, record.len());
                self.bytes.record("pages before their first change", record.len());
            }
        }
        let mut record = Vec::new();
        encode_changes(1, self.dbtime, &mini, &self.coding, &mut record);
        self.bytes.record(what, record.len());
        for change in &mini.changes {
            change.apply(self.pages.fetch(change.pgno), self.dbtime).unwrap();
        }
    }

    fn entries(&self, id: u32, version: u32) -> Vec<Entry> {
        let mut entries =
            vec![Entry::Row { id, version }, Entry::BodyRoot { id }, Entry::Body { id, version }];
        if self.template.schema().places().has_place(id) {
            entries.push(Entry::Conversation { id });
        }
        entries
    }

    fn change(&mut self, what: &'static str, entry: Entry, transaction: u32, delete: bool) {
        let schema = self.template.schema();
        let (tree, key, data) = (self.template.tree(entry.tree()), schema.key(entry), schema.data(entry));
        let exists = entry.version().is_some_and(|version| version > 0);
        let mini = self.pages.ask(|pager| match (delete, exists) {
            (true, _) => update::delete(pager, tree, &key, &data),
            (false, true) => update::replace(pager, tree, &key, &data),
            (false, false) => update::insert(pager, tree, &key, &data),
        });
        self.log(what, mini, Some(transaction));
    }

    fn purge(&mut self, entry: Entry) {
        let schema = self.template.schema();
        let (tree, key, data) = (self.template.tree(entry.tree()), schema.key(entry), schema.data(entry));
        let mini = self.pages.ask(|pager| Ok(update::purge(pager, tree, &key, &data)?.unwrap()));
        self.log("clean-up of deleted entries", mini, None);
    }

    fn existing_row(&mut self) -> u32 {
        let rows = self.template.tree(Tree::Rows);
        let from = (u128::from(self.pick) * u128::from(self.next_id - 1)) >> 64;
        let key = workload::schema::row_key(from as u32 + 1);
        let found = self.pages.ask(|pager| {
            let at = tree::seek(pager, rows, &key, btree::Seek::AtLeast)?.ok_or(Stop::NotFound)?;
            Ok(at.node(pager)?.key())
        });
        u32::from_be_bytes(found[1..].try_into().unwrap())
    }

    fn operation(&mut self, transaction: u32) {
        self.pick = mix(self.pick);
        // All shares of the mix in every hundred operations.
        let kind = u64::from(transaction) * 37 % 100;
        let mut deleted = Vec::new();
        if kind < 40 {
            self.next_id += 1;
            for entry in self.entries(self.next_id - 1, 0) {
                self.change("inserts", entry, transaction, false);
            }
        } else if kind < 60 {
            let id = self.existing_row();
            deleted = self.entries(id, 0);
            deleted.iter().for_each(|entry| self.change("deletes", *entry, transaction, true));
        } else if kind < 65 {
            let id = self.existing_row();
            self.change("replaces", Entry::Row { id, version: 1 }, transaction, false);
            self.change("replaces", Entry::Body { id, version: 1 }, transaction, false);
        } else {
            return;
        }
        let folder = transaction % 16 + 1;
        let version = self.versions.entry(folder).or_default();
        *version += 1;
        let entry = Entry::Folder { id: folder, version: *version };
        self.change("folders", entry, transaction, false);
        let mut record = Vec::new();
        LogRecord::Commit { transaction, durable: true }.encode(&self.coding, &mut record);
        self.bytes.record("commits", record.len());
        if mix(!self.pick) % 100 < 30 {
            self.bytes.flush();
        }
        deleted.into_iter().for_each(|entry| self.purge(entry));
    }
}

#[test]
fn a_batch_fills_the_published_bytes_of_log_file() {
    let template = Rc::new(TemplateDatabase::of_size(32768, 1 << 40, 4096, 3, 0).unwrap());
    let pages = Pages { template: template.clone(), made: BTreeMap::new() };
    let mut database = Database {
        pages,
        coding: Coding(DatabaseCodec::new(template.clone()), 32768),
        dirty: BTreeSet::new(),
        // As after some hours: counters are longer then.
        dbtime: 20_000_000,
        bytes: Bytes::default(),
        next_id: template.schema().shape().rows + 1,
        versions: BTreeMap::new(),
        pick: 1,
        template,
    };
    for operation in 0..BATCHES * 16 {
        database.operation(100_000 + operation as u32);
    }
    for (what, bytes) in &database.bytes.spent {
        eprintln!("{:8.0} B per batch: {what}", *bytes as f64 / BATCHES as f64);
    }
    let per_batch = (database.bytes.segments * SEGMENT_BYTES) as f64 / BATCHES as f64;
    eprintln!("{per_batch:8.0} B per batch of log file");
    assert!((per_batch / (30.6 * 1024.0) - 1.0).abs() < 0.05, "{per_batch}");
}
