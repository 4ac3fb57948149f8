//! Databases on real files for tests: made from the template, changed by transactions whose outcome is known, checked
//! page by page, tree by tree and row by row.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use btree::{EntryData, Pager, tree, update};
use edb::checksum::{Verdict, verify};
use engine::{
    DatabaseConfig, Durability, Instance, InstanceConfig, MetaCacheConfig, StopSignal, Transaction,
};
use workload::codec::DatabaseCodec;
use workload::mix::Random;
use workload::schema::{Entry, FOLDERS, Tree};
use workload::template::TemplateDatabase;
use world::real::RealConfig;
use world::{TemplatePages, World};

pub const DATABASES: u8 = 2;
const FREE_PAGES: u32 = 16;
const COMPRESSIBILITY_PCT: u8 = 25;

/// A row of a database: its number, its tree, its id.
pub type Name = (u8, Kind, u32);
/// Version of every row that exists.
pub type Rows = BTreeMap<Name, u32>;
/// Change of a row: its new version, or `None` for a delete.
pub type Change = (Name, Option<u32>);

/// The tables whose rows have versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Message,
    Folder,
}

/// Runs on this machine's real files.
pub fn real<T, F: Future<Output = T>>(main: impl FnOnce(World) -> F) -> T {
    world::real::run(RealConfig::new("test"), main).unwrap()
}

/// Empty directory on the file system of the build directory. A memory file system would prove less.
pub fn scratch_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The databases of an instance, as files below one directory.
pub struct Databases {
    root: String,
    page_bytes: u32,
    pub log_bytes: u32,
    /// Whether each database has a MetaCache.
    pub has_meta_caches: bool,
    pub templates: Vec<Rc<TemplateDatabase>>,
}

impl Databases {
    pub fn new(root: &Path, page_bytes: u32, file_bytes: u64) -> Databases {
        let template =
            |seed| TemplateDatabase::of_size(page_bytes, file_bytes, FREE_PAGES, seed, COMPRESSIBILITY_PCT);
        let templates = (1..=u64::from(DATABASES)).map(|seed| Rc::new(template(seed).unwrap())).collect();
        let root = root.to_str().unwrap().to_owned();
        Databases { root, page_bytes, log_bytes: 256 << 10, has_meta_caches: false, templates }
    }

    pub fn template(&self, db: u8) -> &Rc<TemplateDatabase> {
        &self.templates[usize::from(db) - 1]
    }

    pub fn path(&self, db: u8) -> String {
        format!("{}/db/{db}.edb", self.root)
    }

    pub fn log_directory(&self) -> String {
        format!("{}/log", self.root)
    }

    /// Configuration with small logs, checkpoint depth and cache, so that all mechanisms work all the time.
    pub fn config(&self) -> InstanceConfig {
        let mut config = InstanceConfig::new(&self.log_directory(), self.page_bytes as usize);
        config.log_bytes = self.log_bytes;
        config.log_buffer_bytes = 32 << 10;
        config.checkpoint_depth_bytes = 512 << 10;
        config.cache_bytes_per_database = 64 * u64::from(self.page_bytes);
        config.databases = (1..=DATABASES)
            .map(|db| DatabaseConfig {
                codec: Some(Rc::new(DatabaseCodec::new(self.template(db).clone()))),
                template_id: Some(self.template(db).id()),
                nodes: Some(self.template(db).clone()),
                extension_bytes: 16 * u64::from(self.page_bytes),
                meta_cache: self.has_meta_caches.then(|| self.meta_cache(db)),
                ..DatabaseConfig::new(&self.path(db))
            })
            .collect();
        config
    }

    /// MetaCache of four times the page cache.
    fn meta_cache(&self, db: u8) -> MetaCacheConfig {
        let (path, bytes) = (format!("{}/cache/{db}.mcdb", self.root), 256 * u64::from(self.page_bytes));
        MetaCacheConfig { path, bytes, taken_away: StopSignal::new() }
    }

    /// Makes directories and databases, durably.
    pub async fn create(&self, world: &World) {
        for directory in ["log", "db", "cache"] {
            let directory = format!("{}/{directory}", self.root);
            // A test may have put it on a volume of its own.
            if world.entry(&directory).await.unwrap().is_none() {
                world.create_dir(&directory).await.unwrap();
            }
        }
        world.sync_dir(&self.root).await.unwrap();
        for db in 1..=DATABASES {
            self.create_one(world, db).await;
        }
    }

    pub async fn create_one(&self, world: &World, db: u8) {
        let template = self.template(db).clone();
        let codec = Rc::new(DatabaseCodec::new(template.clone()));
        let (path, stop) = (self.path(db), StopSignal::new());
        engine::create_database(
            world,
            &path,
            template,
            codec,
            &Default::default(),
            &Default::default(),
            &stop,
        )
        .await
        .unwrap();
    }

    /// The rows of new databases.
    pub fn initial_rows(&self) -> Rows {
        let rows = |db: u8| {
            let messages =
                (1..=self.template(db).schema().shape().rows).map(move |id| (db, Kind::Message, id));
            messages.chain((1..=FOLDERS).map(move |id| (db, Kind::Folder, id)))
        };
        (1..=DATABASES).flat_map(rows).map(|name| (name, 0)).collect()
    }

    /// Checks the files of closed databases: page checksums, trees, space, and every byte of every row.
    pub fn check_files(&self) -> Result<Rows, String> {
        let mut rows = Rows::new();
        for db in 1..=DATABASES {
            let found = self.check_file(db).map_err(|error| format!("database {db}: {error}"))?;
            rows.extend(found);
        }
        Ok(rows)
    }

    #[allow(clippy::disallowed_methods, reason = "reads the file without any of the code under test")]
    fn check_file(&self, db: u8) -> Result<Rows, String> {
        self.check_bytes(db, std::fs::read(self.path(db)).map_err(|error| error.to_string())?)
    }

    /// As [`Self::check_files`] for the contents of one database.
    pub fn check_bytes(&self, db: u8, bytes: Vec<u8>) -> Result<Rows, String> {
        let pages = FilePages { bytes, page_bytes: self.page_bytes as usize };
        for (page, pgno) in pages.bytes.chunks_exact(pages.page_bytes).skip(2).zip(1..) {
            match verify(page, pgno) {
                Verdict::Ok | Verdict::Uninitialised => {}
                other => return Err(format!("page {pgno}: {other:?}")),
            }
        }
        let stopped = |stop: btree::Stop| stop.to_string();
        let trees = btree::database::schema(&pages).map_err(stopped)?.trees();
        let usage = btree::check::database(&pages, &trees).map_err(stopped)?;
        if usage.leaked_pages > 0 {
            return Err(format!("{} pages are lost to the space trees", usage.leaked_pages));
        }
        self.rows_of(db, &pages)
    }

    fn rows_of(&self, db: u8, pages: &FilePages) -> Result<Rows, String> {
        let (mut rows, mut bodies) = (Rows::new(), Rows::new());
        let (mut roots, mut indexed) = (BTreeSet::new(), BTreeSet::new());
        for tree in [Tree::Rows, Tree::Bodies, Tree::Conversations, Tree::Folders] {
            for entry in self.entries(db, tree, pages)? {
                match entry {
                    Entry::Row { id, version } => drop(rows.insert((db, Kind::Message, id), version)),
                    Entry::Body { id, version } => drop(bodies.insert((db, Kind::Message, id), version)),
                    Entry::BodyRoot { id } => drop(roots.insert(id)),
                    Entry::Conversation { id } => drop(indexed.insert(id)),
                    Entry::Folder { .. } => {}
                }
            }
        }
        if let Some((name, version)) = rows.iter().find(|(name, version)| bodies.get(name) != Some(version)) {
            let body = bodies.get(name);
            return Err(format!("row {name:?} has version {version}, its long value has version {body:?}"));
        }
        if let Some(name) = bodies.keys().find(|name| !rows.contains_key(name)) {
            return Err(format!("a long value has no row: {name:?}"));
        }
        let ids: BTreeSet<u32> = rows.keys().map(|(_, _, id)| *id).collect();
        let places = self.template(db).schema().places();
        if roots != ids || indexed != ids.iter().copied().filter(|id| places.has_place(*id)).collect() {
            return Err("rows and index entries are not of the same ids".to_owned());
        }
        for entry in self.entries(db, Tree::Folders, pages)? {
            rows.insert((db, Kind::Folder, entry.id()), entry.version().unwrap_or(0));
        }
        Ok(rows)
    }

    fn entries(&self, db: u8, of: Tree, pages: &FilePages) -> Result<Vec<Entry>, String> {
        let template = self.template(db);
        let (tree, mut entries) = (template.tree(of), Vec::new());
        let stopped = |stop: btree::Stop| format!("{of:?}: {stop}");
        let mut at = tree::first(pages, tree).map_err(stopped)?;
        while let Some(position) = at {
            let node = position.node(pages).map_err(stopped)?;
            if !node.is_deleted() {
                let entry = template.schema().verify(of, &node.key(), node.data);
                entries.push(entry.ok_or_else(|| format!("wrong bytes at {:02x?} of {of:?}", node.key()))?);
            }
            at = tree::next(pages, tree, position).map_err(stopped)?;
        }
        Ok(entries)
    }
}

/// A file in memory.
struct FilePages {
    bytes: Vec<u8>,
    page_bytes: usize,
}

impl Pager for FilePages {
    fn page(&self, pgno: u32) -> Result<btree::PageView<'_>, btree::Stop> {
        let start = (pgno as usize + 1) * self.page_bytes;
        let bytes = self.bytes.get(start..start + self.page_bytes);
        bytes.map(btree::PageView::of_bytes).ok_or(btree::Stop::Missing(pgno))
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

/// Observer of the commits of a load.
pub trait Witness {
    /// Called right before a commit, so that the order of the calls is the order of the log. Returns the number of
    /// the commit.
    fn committing(&self, changes: &[Change]) -> u64;
    /// Called when the durable commit with this number has been acknowledged.
    fn acknowledged(&self, number: u64);
}

/// Transactions of random changes over all databases of an instance.
pub struct Load<W> {
    pub instance: Rc<Instance>,
    pub templates: Vec<Rc<TemplateDatabase>>,
    pub witness: W,
    /// Next version. Each change gets a new version, so each state of a row differs from all others.
    pub next_version: Cell<u32>,
}

type Done = Result<(), engine::Error>;

impl<W: Witness> Load<W> {
    /// Performs one transaction; it rolls back if it meets a row that another transaction holds.
    pub async fn transact(&self, random: &mut Random, insert_pct: u64) -> Done {
        let mut transaction = self.instance.begin();
        let mut changes = Vec::new();
        for _ in 0..1 + random.next_u64() % 4 {
            let db = 1 + (random.next_u64() % u64::from(DATABASES)) as u8;
            match self.change(&mut transaction, db, random, insert_pct).await {
                Ok(change) => changes.push(change),
                Err(engine::Error::Conflict | engine::Error::NotFound | engine::Error::Duplicate) => {
                    return transaction.rollback().await;
                }
                Err(error) => return Err(error),
            }
        }
        if random.next_u64().is_multiple_of(16) {
            return transaction.rollback().await;
        }
        let durable = random.next_u64().is_multiple_of(3);
        let number = self.witness.committing(&changes);
        if durable {
            transaction.commit(Durability::Durable).await?;
            self.witness.acknowledged(number);
            return Ok(());
        }
        transaction.commit(Durability::Lazy).await
    }

    async fn change(
        &self,
        transaction: &mut Transaction,
        db: u8,
        random: &mut Random,
        insert_pct: u64,
    ) -> Result<Change, engine::Error> {
        let version = self.next_version.get();
        self.next_version.set(version + 1);
        let template = self.templates[usize::from(db) - 1].clone();
        if random.next_u64().is_multiple_of(8) {
            let id = 1 + (random.next_u64() % u64::from(FOLDERS)) as u32;
            self.put(transaction, db, Entry::Folder { id, version }, false).await?;
            return Ok(((db, Kind::Folder, id), Some(version)));
        }
        // A third of the ids does not exist at first: inserts have room to make the file grow.
        let ids = template.schema().shape().rows / 2 * 3;
        let id = 1 + (random.next_u64() % u64::from(ids)) as u32;
        let name = (db, Kind::Message, id);
        let row = template.schema().key(Entry::Row { id, version: 0 });
        let Some(data) = transaction.get(db, template.tree(Tree::Rows), &row).await? else {
            for entry in entries_of(&template, id, version) {
                self.put(transaction, db, entry, true).await?;
            }
            return Ok((name, Some(version)));
        };
        let found = template.schema().verify(Tree::Rows, &row, &data);
        let found = found.unwrap_or_else(|| panic!("row {id} of database {db} holds wrong bytes"));
        if random.next_u64() % 100 < insert_pct {
            for entry in [Entry::Row { id, version }, Entry::Body { id, version }] {
                self.put(transaction, db, entry, false).await?;
            }
            return Ok((name, Some(version)));
        }
        for entry in entries_of(&template, id, found.version().unwrap_or(0)) {
            self.delete(transaction, db, entry).await?;
        }
        Ok((name, None))
    }

    /// Inserts an entry, or replaces it.
    pub async fn put(&self, transaction: &mut Transaction, db: u8, entry: Entry, new: bool) -> Done {
        let template = &self.templates[usize::from(db) - 1];
        let (tree, key, data) =
            (template.tree(entry.tree()), template.schema().key(entry), template.schema().data(entry));
        let step = |pager: &dyn Pager| {
            let put = if new { update::insert } else { update::replace };
            Ok((put(pager, tree, &key, &data)?, ()))
        };
        transaction.change(db, step).await
    }

    async fn delete(&self, transaction: &mut Transaction, db: u8, entry: Entry) -> Done {
        let template = &self.templates[usize::from(db) - 1];
        let (tree, key) = (template.tree(entry.tree()), template.schema().key(entry));
        let tail = match entry {
            Entry::Conversation { .. } => template.schema().data(entry),
            _ => EntryData::default(),
        };
        transaction.change(db, |pager: &dyn Pager| Ok((update::delete(pager, tree, &key, &tail)?, ()))).await
    }
}

/// All entries of message `id`.
fn entries_of(template: &TemplateDatabase, id: u32, version: u32) -> impl Iterator<Item = Entry> + use<> {
    let indexed = template.schema().places().has_place(id).then_some(Entry::Conversation { id });
    [Entry::Row { id, version }, Entry::BodyRoot { id }, Entry::Body { id, version }]
        .into_iter()
        .chain(indexed)
}
