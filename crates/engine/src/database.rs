//! A database file of an instance: its header, its modification counter, its extension.
//!
//! Invariants
//! 1. While the database is in use its header says so, and names the log generations it may need, before any page with
//!    changes of those generations is written.
//! 2. The file is longer before a record that says so exists, and such a record precedes the use of the space. A length
//!    that is lost comes back by redo: the checkpoint does not pass the record before the length is durable, which the
//!    next writing of the header makes it.
//! 3. Space that no tree has used yet is zero. A power cut may leave old bytes in space whose length was not
//!    durable: redo gives that space up and takes it anew, and what lies behind the last page that the trees
//!    know of goes.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use btree::{PageCoding, PlainCoding};
use edb::header::DatabaseHeader;
use edb::meta_cache::Epoch;
use results::IoClass;
use world::{OpenMode, PageCodec, World};

use crate::cache::{Cache, CachedDatabase, CachedPage, CodecCoding, Template};
use crate::config::DatabaseConfig;
use crate::error::{Error, Result};
use crate::flush_map::FlushMap;
use crate::header;
use crate::io::{Counters, IoFile};
use crate::log::{LogPosition, LogTime, POSITION_END, Signature};
use crate::meta_cache::MetaCache;

/// Database of an open instance.
pub(crate) struct Database {
    pub(crate) id: u8,
    pub(crate) file: IoFile,
    pub(crate) counters: Counters,
    pub(crate) flush_map: FlushMap,
    pub(crate) meta_cache: Option<MetaCache>,
    pub(crate) coding: Rc<dyn PageCoding>,
    codec: Option<Rc<dyn PageCodec>>,
    pub(crate) template_id: Option<u64>,
    template: Option<Rc<Template>>,
    /// Whether the header was damaged when the file was opened.
    pub(crate) header_from_shadow: bool,
    pub(crate) extension_bytes: u64,
    /// Highest dbtime in use; each mini-transaction takes the next.
    pub(crate) dbtime: Cell<u64>,
    /// Number of pages that the trees know; the file may be longer.
    pub(crate) pages: Cell<u32>,
    /// Last page that background maintenance has reached; the next header write stores it.
    pub(crate) scanned_to: Cell<u32>,
    /// Whether an extension is in progress; there is one at a time.
    extending: Cell<bool>,
    extended: world::sync::Notify,
    /// Oldest record of a new length that may not be durable yet.
    pub(crate) length_logged: Cell<LogPosition>,
    /// Header; `None` while it is being written, so that there is one writer at a time.
    header: RefCell<Option<DatabaseHeader>>,
    header_free: world::sync::Notify,
    page_bytes: usize,
}

impl Database {
    pub(crate) async fn open(
        world: &World,
        id: u8,
        config: &DatabaseConfig,
        page_bytes: usize,
    ) -> Result<Rc<Database>> {
        let counters = config.counters.clone();
        let file = IoFile::open(world, &config.path, OpenMode::ReadWrite, &counters).await?;
        // The process before may have ended before a sync: its last header, or its shadow, must not be under
        // way together with the next.
        file.sync().await?;
        let (header, copy) = header::read(&file, page_bytes).await?;
        let coding = coding(config, page_bytes);
        Ok(Rc::new(Database {
            id,
            file,
            meta_cache: MetaCache::open(world, config, &header, page_bytes).await,
            flush_map: FlushMap::new(world, &config.path, header.signature(), &counters),
            counters,
            coding,
            codec: config.codec.clone(),
            template_id: config.template_id,
            template: template(config),
            header_from_shadow: copy > 0,
            extension_bytes: config.extension_bytes,
            dbtime: Cell::new(header.dbtime()),
            pages: Cell::new(0),
            scanned_to: Cell::new(header.scanned_to()),
            extending: Cell::new(false),
            extended: world::sync::Notify::new(),
            length_logged: Cell::new(POSITION_END),
            header: RefCell::new(Some(header)),
            header_free: world::sync::Notify::new(),
            page_bytes,
        }))
    }

    /// Appends the log coding of a page to `out`. A sparse page (edits of its template page) is encoded from its
    /// edits; its bytes are not built.
    pub(crate) fn encode_page(&self, pgno: u32, page: &CachedPage, out: &mut Vec<u8>) {
        let page = match page {
            CachedPage::Sparse(page) => {
                let template = self.template.as_ref().expect("a page without bytes is of a template");
                return template.nodes.encode(page, out);
            }
            CachedPage::Buf(page) => page,
        };
        let pristine = self.codec.as_ref().zip(page.pristine()).filter(|(codec, (template, index))| {
            codec.template_id() == Some(template.id()) && *index == u64::from(pgno) + 1
        });
        if !pristine.is_some_and(|(codec, (_, index))| codec.encode_pristine(index, out)) {
            self.coding.encode(pgno, page.as_slice(), out);
        }
    }

    /// Gives the database its share of the cache.
    pub(crate) fn join(&self, cache: &Cache, cache_bytes: u64) {
        let template = self.template.clone();
        let cached = CachedDatabase::new(self.file.clone(), self.coding.clone(), self.template_id, template)
            .compared_with(self.flush_map.clone(), self.meta_cache.clone());
        cache.attach(self.id, cached, cache_bytes);
    }

    /// Copy of the present header.
    pub(crate) async fn header(&self) -> DatabaseHeader {
        self.take_header().await.clone()
    }

    /// Takes the next dbtime.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn next_dbtime(&self) -> Result<u64> {
        let next = self.dbtime.get().checked_add(1).ok_or_else(|| self.dbtimes_used_up())?;
        self.dbtime.set(next);
        Ok(next)
    }

    pub(crate) fn dbtimes_used_up(&self) -> Error {
        Error::NumbersUsedUp {
            what: "modification numbers",
            of: self.file.path().to_owned(),
            remedy: "the database takes no change any more, move its rows to a new one",
        }
    }

    /// Changes the header and writes it with its shadow, durably.
    pub(crate) async fn update_header(&self, change: impl FnOnce(&mut DatabaseHeader)) -> Result<()> {
        let mut header = self.take_header().await;
        header.set_dbtime(self.dbtime.get());
        header.set_scanned_to(self.scanned_to.get());
        change(&mut header);
        header::write(&mut header, &self.file, IoClass::HousekeepingWrite).await
    }

    /// Begins an extension of the file; `None` if another task extends it.
    pub(crate) fn begin_extending(&self) -> Option<Extending<'_>> {
        // Not `then_some`: a turn that is made and dropped gives back that of another task.
        (!self.extending.replace(true)).then(|| Extending(self))
    }

    /// Waits until the task that extends the file has ended.
    pub(crate) async fn extended(&self) {
        self.extended.wait().await;
    }

    /// Waits until no task changes the file's length or header.
    pub(crate) async fn idle(&self) {
        while self.extending.get() {
            self.extended().await;
        }
        drop(self.take_header().await);
    }

    pub(crate) async fn attach(
        &self,
        position: LogPosition,
        time: LogTime,
        signature: Signature,
    ) -> Result<()> {
        self.update_header(|header| header.attach(self.id.into(), signature, position, time)).await
    }

    pub(crate) async fn detach(&self, position: LogPosition, time: LogTime) -> Result<()> {
        self.update_header(|header| header.detach(position, time)).await
    }

    /// Makes the MetaCache fit for the next opening of the database, which is about to be closed.
    pub(crate) async fn leave_meta_cache(&self, closed: LogPosition, log: Signature) {
        if let Some(cache) = &self.meta_cache {
            let database = self.header().await.signature();
            cache.leave(Epoch { database, log, closed }).await;
        }
    }

    /// Extends the file to at least `pages` pages. The length is durable once the file has been synced. Returns
    /// whether it was shorter.
    pub(crate) async fn lengthen_file(&self, pages: u32) -> Result<bool> {
        let bytes = (u64::from(pages) + 2) * self.page_bytes as u64;
        let is_short = self.file.file().size().await? < bytes;
        if is_short {
            self.file.file().set_size(bytes).await?;
        }
        Ok(is_short)
    }

    /// Truncates the file to `pages` pages. The new length is durable once the file has been synced. Returns whether
    /// the file was longer.
    pub(crate) async fn shrink_file(&self, pages: u32) -> Result<bool> {
        let bytes = (u64::from(pages) + 2) * self.page_bytes as u64;
        let is_long = self.file.file().size().await? > bytes;
        if is_long {
            self.meta_cache.iter().for_each(|cache| cache.forget_behind(pages));
            self.file.file().set_size(bytes).await?;
        }
        Ok(is_long)
    }

    async fn take_header(&self) -> TakenHeader<'_> {
        loop {
            if let Some(header) = self.header.take() {
                return TakenHeader { database: self, header: Some(header) };
            }
            self.header_free.wait().await;
        }
    }
}

/// Turn to extend a file; returned when dropped.
pub(crate) struct Extending<'a>(&'a Database);

impl Drop for Extending<'_> {
    fn drop(&mut self) {
        self.0.extending.set(false);
        self.0.extended.notify_all();
    }
}

/// Header taken for reading or writing; returned when dropped.
struct TakenHeader<'a> {
    database: &'a Database,
    header: Option<DatabaseHeader>,
}

const TAKEN: &str = "it is given back only when it is dropped";

impl Deref for TakenHeader<'_> {
    type Target = DatabaseHeader;

    fn deref(&self) -> &DatabaseHeader {
        self.header.as_ref().expect(TAKEN)
    }
}

impl DerefMut for TakenHeader<'_> {
    fn deref_mut(&mut self) -> &mut DatabaseHeader {
        self.header.as_mut().expect(TAKEN)
    }
}

impl Drop for TakenHeader<'_> {
    fn drop(&mut self) {
        *self.database.header.borrow_mut() = self.header.take();
        self.database.header_free.notify_all();
    }
}

/// Template database, if its pages can be used without their bytes.
fn template(config: &DatabaseConfig) -> Option<Rc<Template>> {
    let (nodes, codec) = (config.nodes.clone()?, config.codec.clone()?);
    let is_own = config.template_id.is_some() && codec.template_id() == config.template_id;
    is_own.then(|| Rc::new(Template { nodes, codec }))
}

/// Coding of whole pages in the log.
pub(crate) fn coding(config: &DatabaseConfig, page_bytes: usize) -> Rc<dyn PageCoding> {
    match &config.codec {
        Some(codec) => Rc::new(CodecCoding { codec: codec.clone(), page_bytes }),
        None => Rc::new(PlainCoding { page_bytes }),
    }
}
