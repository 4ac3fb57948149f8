//! A database in memory for tests: applies and logs mini-transactions as an engine would.

use std::cell::RefCell;
use std::collections::BTreeSet;

use edb::page::PageRef;

use crate::change::{MiniTransaction, Redo};
use crate::log_record::{LogRecord, encode_changes};
use crate::overlay::Overlay;
use crate::page_coding::PlainCoding;
use crate::pager::{Pager, Result, Stop};
use crate::space;
use crate::tree::Tree;
use crate::view::PageView;

pub(crate) struct MemoryDatabase {
    pub coding: PlainCoding,
    pages: Vec<Box<[u8]>>,
    dbtime: u64,
    /// Pages at the beginning of the log, and the log.
    start: Vec<Box<[u8]>>,
    pub log: Vec<Vec<u8>>,
    /// Pages that the running operation may see; others are missing. `None`: all pages are in memory.
    revealed: Option<RefCell<BTreeSet<u32>>>,
    pub misses: usize,
}

impl Pager for MemoryDatabase {
    fn page(&self, pgno: u32) -> Result<PageView<'_>> {
        let Some(page) = self.pages.get(pgno as usize) else {
            return Err(Stop::Damaged { pgno, reason: "beyond the end of the file" });
        };
        match &self.revealed {
            Some(revealed) if !revealed.borrow().contains(&pgno) => Err(Stop::Missing(pgno)),
            _ => Ok(PageView::of_bytes(page)),
        }
    }

    fn page_bytes(&self) -> usize {
        self.coding.page_bytes
    }
}

impl MemoryDatabase {
    /// Creates a database of `pages` pages with its system tables.
    pub fn new(page_bytes: usize, pages: u32) -> MemoryDatabase {
        let zero = || vec![0u8; page_bytes].into_boxed_slice();
        let all: Vec<_> = (0..=pages).map(|_| zero()).collect();
        let coding = PlainCoding { page_bytes };
        let mut database = MemoryDatabase {
            coding,
            start: all.clone(),
            pages: all,
            dbtime: 64,
            log: Vec::new(),
            revealed: None,
            misses: 0,
        };
        database.apply(&crate::database::create(page_bytes, pages).unwrap());
        database
    }

    /// Makes every later operation find only the pages that it asked for, one after the other.
    pub fn hide_pages(&mut self) {
        self.revealed = Some(RefCell::default());
    }

    /// Changes one byte of a page without a log record.
    pub fn damage(&mut self, pgno: u32, at: usize, mask: u8) {
        self.pages[pgno as usize][at % self.coding.page_bytes] ^= mask;
    }

    pub fn pages(&self) -> &[Box<[u8]>] {
        &self.pages
    }

    /// Plans an operation until it has all pages and all space. Returns its result without applying it.
    pub fn ask<T>(&mut self, mut step: impl FnMut(&dyn Pager) -> Result<T>) -> Result<T> {
        if let Some(revealed) = &self.revealed {
            revealed.borrow_mut().clear();
        }
        loop {
            match step(self) {
                Err(Stop::Missing(pgno)) => {
                    self.misses += 1;
                    assert!(
                        self.revealed.as_ref().unwrap().borrow_mut().insert(pgno),
                        "asked twice for {pgno}"
                    );
                }
                Err(Stop::NoSpace { pages }) => self.grow(pages.max(64)),
                done => return done,
            }
        }
    }

    fn grow(&mut self, pages: u32) {
        let before = self.pages.len() as u32 - 1;
        let page_bytes = self.coding.page_bytes;
        for all in [&mut self.pages, &mut self.start] {
            all.resize(all.len() + pages as usize, vec![0; page_bytes].into_boxed_slice());
        }
        let revealed = self.revealed.take();
        let mini = space::extend_database(self, before, before + pages).unwrap();
        self.revealed = revealed;
        self.apply(&mini);
    }

    /// Plans and applies an operation.
    pub fn run(
        &mut self,
        step: impl FnMut(&dyn Pager) -> Result<MiniTransaction>,
    ) -> Result<MiniTransaction> {
        let mini = self.ask(step)?;
        self.apply(&mini);
        Ok(mini)
    }

    pub fn plan<T>(&mut self, mut plan: impl FnMut(&mut Overlay) -> Result<T>) -> Result<T> {
        let (mini, result) = self.ask(|pager| {
            let mut overlay = Overlay::new(pager);
            let result = plan(&mut overlay)?;
            Ok((MiniTransaction::system(overlay.finish()), result))
        })?;
        self.apply(&mini);
        Ok(result)
    }

    pub fn apply(&mut self, mini: &MiniTransaction) {
        self.dbtime += 1;
        let mut record = Vec::new();
        encode_changes(1, self.dbtime, mini, &self.coding, &mut record);
        self.log.push(record);
        for change in &mini.changes {
            let page = &mut self.pages[change.pgno as usize];
            change.apply(page, self.dbtime).unwrap();
            PageRef::new(page).validate().unwrap_or_else(|damage| panic!("page {}: {damage}", change.pgno));
        }
    }

    /// Creates a tree in an extent of its own, as tables have it.
    pub fn create_tree(&mut self, objid: u32, kind: u32, pages: u32) -> Tree {
        let fdp = self
            .plan(|overlay| space::create_multiple(overlay, space::DATABASE_FDP, pages, objid, kind))
            .unwrap();
        Tree { fdp, objid, density_pct: 80 }
    }

    /// Returns the database as a file: header, shadow, pages.
    pub fn file(&self) -> Vec<u8> {
        let mut header = vec![0u8; self.coding.page_bytes];
        for (at, word) in [(4, 0x89AB_CDEF), (8, 0x620), (52, 3), (104, 1), (212, 100), (232, 20)] {
            header[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
        }
        header[16..24].copy_from_slice(&(self.dbtime + 1).to_le_bytes());
        header[236..240].copy_from_slice(&(self.coding.page_bytes as u32).to_le_bytes());
        header[508..516].fill(0xFF);
        header[667] = 1;
        edb::checksum::stamp_header(&mut header);
        let mut file = [&header[..], &header].concat();
        for (pgno, page) in (1..).zip(&self.pages[1..]) {
            let mut page = page.clone();
            if !edb::is_zero(&page) {
                edb::page::PageMut::new(&mut page).finish(pgno);
            }
            file.extend_from_slice(&page);
        }
        file
    }

    /// Replays the log over the starting pages, from record `from` on twice, and compares.
    pub fn assert_redo_gives_the_same_pages(&self) {
        let mut pages = self.start.clone();
        for pass in 0..2 {
            for record in &self.log {
                let record = LogRecord::decode(record).unwrap();
                let LogRecord::Changes { dbtime, mut mini, .. } = record else { panic!("{record:?}") };
                for change in &mut mini.changes {
                    assert!(change.decode_page(&self.coding));
                    let redone = change.redo(&mut pages[change.pgno as usize], dbtime);
                    assert_eq!(redone, if pass == 0 { Redo::Applied } else { Redo::AlreadyThere });
                }
            }
        }
        for (pgno, (redone, page)) in pages.iter().zip(&self.pages).enumerate() {
            assert!(redone == page, "redo gives another page {pgno}");
        }
    }
}
