//! What sessions do to one database: batches of 16 operations, each operation a transaction of its own.
//!
//! Invariants
//! 1. Every row that is read is verified against the payload that its id and version call for; a wrong row is an error,
//!    never a result.
//! 2. The operations of a batch are a function of (run seed, database, batch number); the rows they meet depend only on
//!    what earlier operations did.
//! 3. A transaction that meets another one's row is rolled back and tried again on another row.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use btree::{EntryData, NodeKey, Pager, Seek, tree, update};
use engine::{Durability, Instance, PageReads, Transaction};

use crate::mix::{BatchShape, CLASSES, Mix, Operation, OperationKind, Random, scale};
use crate::schema::{Entry, FOLDERS, Schema, Tree, conversation_key, id_of_row_key, row_key};
use crate::template::TemplateDatabase;

/// Largest number of attempts of one operation before its conflicts are an error. With 256 sessions on millions of
/// rows a second attempt is rare.
const TRIES_MAX: u32 = 64;

/// Neighbouring rows that a view reads.
const VIEW_ROWS: u32 = 8;
/// One in this many rows is among the newest, to which views go.
const NEWEST: u32 = 10;
/// Neighbouring entries of the index that a search reads.
const SEARCH_ENTRIES: u32 = 16;

/// Reason why a batch failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// An entry differs from what its key and version require, or is missing although another entry refers to it.
    #[error(
        "database {database}: entry {key:02x?} of {tree:?} is missing or holds other bytes than were written"
    )]
    WrongRow {
        /// Number of the database in its instance.
        database: u8,
        /// Tree of the entry.
        tree: Tree,
        /// Key of the entry.
        key: Vec<u8>,
    },
    /// The database has no ids or rows left.
    #[error("database {database} has no {what} left")]
    Exhausted {
        /// Number of the database in its instance.
        database: u8,
        /// Name of what is used up.
        what: &'static str,
    },
}

type Result<T> = std::result::Result<T, SessionError>;

/// One database with the state that its sessions share.
pub struct Mailboxes {
    instance: Rc<Instance>,
    database: u8,
    template: Rc<TemplateDatabase>,
    next_id: Cell<u32>,
    conflicts: Cell<u64>,
    class_reads: RefCell<[ClassReads; CLASSES.len()]>,
    acknowledged: RefCell<Option<Acknowledged>>,
}

/// Operations of a class, and the pages that were read for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassReads {
    /// Number of operations.
    pub operations: u64,
    /// Pages that were read.
    pub pages: PageReads,
}

/// Callback that gets folder and version of each durable commit when it is acknowledged.
type Acknowledged = Box<dyn Fn(u32, u32)>;

/// Result of an attempt of an operation.
enum Tried<T> {
    Done(T),
    /// Another open transaction changed the entry first.
    Conflict,
}

impl Mailboxes {
    /// Opens database number `database` of an open instance for the load.
    ///
    /// # Errors
    /// If the last row cannot be read.
    pub async fn open(
        instance: Rc<Instance>,
        database: u8,
        template: Rc<TemplateDatabase>,
    ) -> Result<Mailboxes> {
        let rows = template.tree(Tree::Rows);
        let transaction = instance.begin();
        let last = transaction
            .read(database, |pager| match tree::last(pager, rows)? {
                Some(at) => Ok(Some(at.node(pager)?.key())),
                None => Ok(None),
            })
            .await?;
        transaction.commit(Durability::Lazy).await?;
        let last_id =
            last.and_then(|key| Some(u32::from_be_bytes(*key.get(1..)?.first_chunk()?))).unwrap_or(0);
        // Rows at the end may have been deleted; ids of the template are never given out again.
        let next_id = last_id.max(template.schema().shape().rows) + 1;
        let (next_id, conflicts) = (Cell::new(next_id), Cell::new(0));
        let (class_reads, acknowledged) = Default::default();
        Ok(Mailboxes { instance, database, template, next_id, conflicts, class_reads, acknowledged })
    }

    /// Number of transactions since the last call that were rolled back because another one was first.
    pub fn take_conflicts(&self) -> u64 {
        self.conflicts.take()
    }

    /// Operations and pages read since the last call, for each of [`CLASSES`].
    pub fn take_class_reads(&self) -> [ClassReads; CLASSES.len()] {
        self.class_reads.take()
    }

    /// Sets the callback for acknowledged durable commits. Each change of a message raises the version of the
    /// session's folder by one, so a database that holds an older version has lost commits.
    pub fn on_acknowledged(&self, tell: impl Fn(u32, u32) + 'static) {
        *self.acknowledged.borrow_mut() = Some(Box::new(tell));
    }

    /// Current versions of the folders.
    ///
    /// # Errors
    /// A folder that is not there, or holds other bytes than were written.
    pub async fn folder_versions(&self, folders: RangeInclusive<u32>) -> Result<BTreeMap<u32, u32>> {
        let transaction = self.instance.begin();
        let mut versions = BTreeMap::new();
        for id in folders {
            versions.insert(id, self.folder_version(&transaction, id).await?);
        }
        Ok(versions)
    }

    /// Performs batch `number`. `seat` names the session's folder; concurrent batches must have different ones.
    ///
    /// # Errors
    /// The first operation that failed; what was committed before stays.
    pub async fn batch(
        &self,
        mix: &Mix,
        run_seed: u64,
        database_index: u32,
        number: u64,
        seat: u32,
    ) -> Result<()> {
        for operation in mix.batch(run_seed, database_index, number) {
            self.instance.world().operation().await;
            self.operation(operation, mix.shape, seat % FOLDERS + 1).await?;
        }
        Ok(())
    }

    async fn operation(&self, operation: Operation, shape: BatchShape, folder: u32) -> Result<()> {
        let mut picks = Random::new(operation.pick);
        for _ in 0..TRIES_MAX {
            let mut transaction = self.instance.begin();
            let tried = match self.visit(&mut transaction, operation.kind, shape, &mut picks).await {
                Ok(()) => {
                    let pick = picks.next_u64();
                    self.attempt(&mut transaction, operation.kind, pick, folder).await
                }
                Err(error) => tried_again(error),
            };
            self.count(operation.kind, &transaction, matches!(tried, Ok(Tried::Done(_))));
            match tried {
                Ok(Tried::Done(version)) => {
                    let durability = if operation.lazy { Durability::Lazy } else { Durability::Durable };
                    transaction.commit(durability).await?;
                    if let (Some(version), Durability::Durable, Some(tell)) =
                        (version, durability, &*self.acknowledged.borrow())
                    {
                        tell(folder, version);
                    }
                    return Ok(());
                }
                Ok(Tried::Conflict) => {
                    self.conflicts.set(self.conflicts.get() + 1);
                    transaction.rollback().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(SessionError::Engine(engine::Error::Conflict))
    }

    /// Counts an attempt for its class; `is_done`: whether it was the last one.
    fn count(&self, kind: OperationKind, transaction: &Transaction, is_done: bool) {
        let class = CLASSES.iter().position(|(of_class, _)| *of_class == kind);
        if let Some(class) = class {
            let counted = &mut self.class_reads.borrow_mut()[class];
            counted.operations += u64::from(is_done);
            counted.pages.add(transaction.page_reads());
        }
    }

    async fn attempt(
        &self,
        transaction: &mut Transaction,
        kind: OperationKind,
        pick: u64,
        folder: u32,
    ) -> Result<Tried<Option<u32>>> {
        let outcome = match kind {
            OperationKind::Read => return self.read(transaction, pick).await.map(|()| Tried::Done(None)),
            OperationKind::View => return done_reading(self.view(transaction, pick, folder).await),
            OperationKind::Body => return done_reading(self.read_body(transaction, pick).await),
            OperationKind::Search => return done_reading(self.search(transaction, pick).await),
            OperationKind::IndexUpdate => self.update_index(transaction, pick).await,
            OperationKind::Insert => self.insert(transaction).await,
            OperationKind::Delete => self.delete(transaction, pick).await,
            OperationKind::Replace => self.replace(transaction, pick).await,
        };
        let outcome = match outcome {
            Ok(()) => self.touch_folder(transaction, folder).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(version) => Ok(Tried::Done(Some(version))),
            Err(error) => tried_again(error),
        }
    }

    /// Goes to the row of another message, if the shape of the batch says so.
    async fn visit(
        &self,
        transaction: &mut Transaction,
        kind: OperationKind,
        shape: BatchShape,
        picks: &mut Random,
    ) -> Result<()> {
        if shape == BatchShape::OneRow {
            return Ok(());
        }
        let (id, version) = self.pick_row(transaction, picks.next_u64()).await?;
        match kind {
            OperationKind::Insert | OperationKind::Replace => {
                self.replace_entry(transaction, Entry::Row { id, version: version + 1 }).await
            }
            _ => Ok(()),
        }
    }

    fn schema(&self) -> &Schema {
        self.template.schema()
    }

    async fn insert(&self, transaction: &mut Transaction) -> Result<()> {
        let id = self.next_id.get();
        if id == u32::MAX {
            return Err(SessionError::Exhausted { database: self.database, what: "ids" });
        }
        self.next_id.set(id + 1);
        for entry in entries_of(self.schema(), id, 0) {
            let (key, data) = (self.schema().key(entry), self.schema().data(entry));
            let tree = self.template.tree(entry.tree());
            let step = |pager: &dyn Pager| Ok((update::insert_shared(pager, tree, &key, &data)?, ()));
            transaction.change(self.database, step).await?;
        }
        Ok(())
    }

    async fn delete(&self, transaction: &mut Transaction, pick: u64) -> Result<()> {
        let (id, version) = self.pick_row(transaction, pick).await?;
        for entry in entries_of(self.schema(), id, version) {
            let key = self.schema().key(entry);
            let tree = self.template.tree(entry.tree());
            let tail = match entry {
                Entry::Conversation { .. } => self.schema().data(entry),
                _ => EntryData::default(),
            };
            let step = |pager: &dyn Pager| Ok((update::delete(pager, tree, &key, &tail)?, ()));
            transaction.change(self.database, step).await?;
        }
        Ok(())
    }

    async fn replace(&self, transaction: &mut Transaction, pick: u64) -> Result<()> {
        let (id, version) = self.pick_row(transaction, pick).await?;
        let version = version + 1;
        for entry in [Entry::Row { id, version }, Entry::Body { id, version }] {
            self.replace_entry(transaction, entry).await?;
        }
        Ok(())
    }

    /// Rewrites the session's folder, like the counters and change list of a mailbox. Returns its new version.
    async fn touch_folder(&self, transaction: &mut Transaction, id: u32) -> Result<u32> {
        let version = self.folder_version(transaction, id).await? + 1;
        self.replace_entry(transaction, Entry::Folder { id, version }).await?;
        Ok(version)
    }

    async fn folder_version(&self, transaction: &Transaction, id: u32) -> Result<u32> {
        let tree = self.template.tree(Tree::Folders);
        let key = row_key(id);
        let found = transaction
            .read(self.database, |pager| {
                let node = tree::get(pager, tree, &key)?;
                Ok(node.map(|node| self.schema().verify(Tree::Folders, &key, node.data)))
            })
            .await?;
        let verified = found.ok_or(SessionError::Exhausted { database: self.database, what: "folder" })?;
        Ok(self.verified(Tree::Folders, &key, verified)?.version().unwrap_or(0))
    }

    async fn replace_entry(&self, transaction: &mut Transaction, entry: Entry) -> Result<()> {
        let (key, data) = (self.schema().key(entry), self.schema().data(entry));
        let tree = self.template.tree(entry.tree());
        let step = |pager: &dyn Pager| Ok((update::replace_shared(pager, tree, &key, &data)?, ()));
        Ok(transaction.change(self.database, step).await?)
    }

    /// Follows an entry of the index at a random place to its row.
    async fn read(&self, transaction: &Transaction, pick: u64) -> Result<()> {
        let start = conversation_key(pick);
        let mut found = self.first_alive(transaction, Tree::Conversations, &start).await?;
        if found.is_none() {
            found = self.first_alive(transaction, Tree::Conversations, &[]).await?;
        }
        let Some(found) = found else { return Ok(()) };
        let id = self.verified(Tree::Conversations, &found.key, found.verified)?.id();
        let (rows, row_key) = (self.template.tree(Tree::Rows), row_key(id));
        let verify = |data: &[u8]| self.schema().verify(Tree::Rows, &row_key, data);
        let row = transaction
            .read(self.database, |pager| {
                let node = tree::get(pager, rows, &row_key)?.filter(|node| !node.is_deleted());
                Ok(node.map(|node| (false, verify(node.data))))
            })
            .await?;
        // No wait between the row and the lock table: both tell of the same moment.
        let is_settled = !transaction.is_held_by_other(self.database, rows.objid, &row_key);
        match row {
            // What is there has to be right.
            Some(_) => match transaction.visible_as(self.database, rows.objid, &row_key, row, verify) {
                Some(verified) => self.verified(Tree::Rows, &row_key, verified).map(drop),
                None => Ok(()),
            },
            // The row may have been deleted since its entry was read. A deletion takes the row first and gives
            // it up last, and an id is given out once: the entry of a row that is gone for good is gone, too,
            // and does not come back.
            None if !is_settled => Ok(()),
            None => {
                match self.first_alive(transaction, Tree::Conversations, &found.key).await? == Some(found) {
                    true => Err(self.wrong(Tree::Rows, &row_key)),
                    false => Ok(()),
                }
            }
        }
    }

    /// Reads the session's folder, and neighbouring rows at a random place among the newest.
    async fn view(&self, transaction: &Transaction, pick: u64, folder: u32) -> Result<()> {
        self.folder_version(transaction, folder).await?;
        let last = self.next_id.get() - 1;
        let newest = (last / NEWEST).max(1);
        let from = last - newest + 1 + scale(pick, newest.into()) as u32;
        self.scan(transaction, Tree::Rows, &row_key(from), VIEW_ROWS).await
    }

    /// Reads neighbouring entries at a random place of the index.
    async fn search(&self, transaction: &Transaction, pick: u64) -> Result<()> {
        self.scan(transaction, Tree::Conversations, &conversation_key(pick), SEARCH_ENTRIES).await
    }

    /// Reads and verifies the first `count` entries from `start` on.
    async fn scan(&self, transaction: &Transaction, tree: Tree, start: &[u8], count: u32) -> Result<()> {
        let entries = self.template.tree(tree);
        let wrong = transaction.read(self.database, |pager| {
            let mut at = tree::seek(pager, entries, start, Seek::AtLeast)?;
            for _ in 0..count {
                let Some(position) = at else { break };
                let node = position.node(pager)?;
                let key = node.key();
                if !node.is_deleted() && self.schema().verify(tree, &key, node.data).is_none() {
                    return Ok(Some(key));
                }
                at = tree::next(pager, entries, position)?;
            }
            Ok(None)
        });
        wrong.await?.map_or(Ok(()), |key| Err(self.wrong(tree, &key)))
    }

    /// Reads the long value of a random existing row.
    async fn read_body(&self, transaction: &Transaction, pick: u64) -> Result<()> {
        let (id, version) = self.pick_row(transaction, pick).await?;
        let entry = Entry::Body { id, version };
        let (key, tree) = (self.schema().key(entry), entry.tree());
        let bodies = self.template.tree(tree);
        let verify = |pager: &dyn Pager| {
            let node = tree::get(pager, bodies, &key)?.filter(|node| !node.is_deleted());
            Ok(node.map(|node| self.schema().verify(tree, &key, node.data)))
        };
        // Another transaction may delete the row meanwhile.
        let verified = transaction.read(self.database, verify).await?.ok_or(engine::Error::Conflict)?;
        self.verified(tree, &key, verified).map(drop)
    }

    /// Takes the entry of a random existing row out of the index and puts it back, as an index does whose key changes.
    async fn update_index(&self, transaction: &mut Transaction, pick: u64) -> Result<()> {
        let (id, _) = self.pick_row(transaction, pick).await?;
        if !self.schema().places().has_place(id) {
            return Ok(());
        }
        let entry = Entry::Conversation { id };
        let (key, data) = (self.schema().key(entry), self.schema().data(entry));
        let tree = self.template.tree(entry.tree());
        let take = |pager: &dyn Pager| Ok((update::delete(pager, tree, &key, &data)?, ()));
        transaction.change(self.database, take).await?;
        let put = |pager: &dyn Pager| Ok((update::insert_shared(pager, tree, &key, &data)?, ()));
        Ok(transaction.change(self.database, put).await?)
    }

    /// Random existing row: the first one at or after a random id.
    async fn pick_row(&self, transaction: &Transaction, pick: u64) -> Result<(u32, u32)> {
        let objid = self.template.tree(Tree::Rows).objid;
        let mut from = scale(pick, u64::from(self.next_id.get() - 1)) as u32 + 1;
        let mut wrapped = false;
        loop {
            let Some(Found { key, verified }) =
                self.first_alive(transaction, Tree::Rows, &row_key(from)).await?
            else {
                if wrapped {
                    return Err(SessionError::Exhausted { database: self.database, what: "rows" });
                }
                (from, wrapped) = (1, true);
                continue;
            };
            let verify = |data: &[u8]| self.schema().verify(Tree::Rows, &key, data);
            let stored = Some((false, verified));
            if let Some(verified) = transaction.visible_as(self.database, objid, &key, stored, verify) {
                let entry = self.verified(Tree::Rows, &key, verified)?;
                return Ok((entry.id(), entry.version().unwrap_or(0)));
            }
            // An insert that has not committed is not there yet.
            from = id_of_row_key(&key).expect("row keys have five bytes") + 1;
        }
    }

    /// First entry at or after `key` that is not flagged deleted.
    async fn first_alive(&self, transaction: &Transaction, tree: Tree, key: &[u8]) -> Result<Option<Found>> {
        let entries = self.template.tree(tree);
        let found = transaction
            .read(self.database, |pager| {
                let mut at = tree::seek(pager, entries, key, Seek::AtLeast)?;
                while let Some(position) = at {
                    let node = position.node(pager)?;
                    if !node.is_deleted() {
                        let mut key = NodeKey::from_slice(node.prefix);
                        key.extend_from_slice(node.suffix);
                        let verified = self.schema().verify(tree, &key, node.data);
                        return Ok(Some(Found { key, verified }));
                    }
                    at = tree::next(pager, entries, position)?;
                }
                Ok(None)
            })
            .await?;
        Ok(found)
    }

    /// Returns the entry, or an error if the data under this key are wrong.
    fn verified(&self, tree: Tree, key: &[u8], verified: Option<Entry>) -> Result<Entry> {
        verified.ok_or_else(|| self.wrong(tree, key))
    }

    fn wrong(&self, tree: Tree, key: &[u8]) -> SessionError {
        SessionError::WrongRow { database: self.database, tree, key: key.to_vec() }
    }
}

/// Result of an attempt that only read.
fn done_reading(read: Result<()>) -> Result<Tried<Option<u32>>> {
    read.map(|()| Tried::Done(None)).or_else(tried_again)
}

/// Result of an attempt that met this error. A row that was there a moment ago has been deleted by another
/// transaction: that is a conflict, too.
fn tried_again<T>(error: SessionError) -> Result<Tried<T>> {
    match error {
        SessionError::Engine(engine::Error::Conflict | engine::Error::NotFound) => Ok(Tried::Conflict),
        error => Err(error),
    }
}

/// Entry as found on a page.
#[derive(PartialEq)]
struct Found {
    key: NodeKey,
    /// The decoded entry; `None` if the data do not belong to this key.
    verified: Option<Entry>,
}

/// All entries of message `id`.
fn entries_of(schema: &Schema, id: u32, version: u32) -> impl Iterator<Item = Entry> + use<> {
    let indexed = schema.places().has_place(id).then_some(Entry::Conversation { id });
    [Entry::Row { id, version }, Entry::BodyRoot { id }, Entry::Body { id, version }]
        .into_iter()
        .chain(indexed)
}

#[cfg(test)]
mod tests {
    use engine::{Counters, DatabaseConfig, InstanceConfig, Progress, StopSignal};
    use world::TemplatePages;
    use world::sim::{SimConfig, Simulation};

    use super::*;
    use crate::codec::DatabaseCodec;

    #[test]
    fn an_entry_of_the_index_whose_row_is_gone_is_wrong_unless_somebody_deletes_both() {
        let sim = Simulation::new(1, SimConfig::default());
        let world = sim.host("h");
        sim.volume("h", "/d", 1 << 30);
        sim.run_until(async {
            let template = Rc::new(TemplateDatabase::of_size(32 << 10, 8 << 20, 16, 1, 25).unwrap());
            let codec = Rc::new(DatabaseCodec::new(template.clone()));
            let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
            let path = "/d/1.edb";
            let made = template.clone();
            engine::create_database(&world, path, made, codec.clone(), &counters, &progress, &stop)
                .await
                .unwrap();
            let mut config = InstanceConfig::new("/d", 32 << 10);
            let template_id = Some(template.id());
            config.databases.push(DatabaseConfig {
                codec: Some(codec),
                template_id,
                ..DatabaseConfig::new(path)
            });
            let instance = Rc::new(Instance::open(&world, &config).await.unwrap().0);
            let mailboxes = Mailboxes::open(instance.clone(), 1, template.clone()).await.unwrap();
            let schema = template.schema();
            let mut ids = (1..=schema.shape().rows).filter(|id| schema.places().has_place(*id));
            let (whole, half) = (ids.next().unwrap(), ids.next().unwrap());
            let pick =
                |id| u64::from_be_bytes(*schema.key(Entry::Conversation { id })[1..].first_chunk().unwrap());
            let read = |id| {
                let (mailboxes, transaction) = (&mailboxes, instance.begin());
                async move { mailboxes.read(&transaction, pick(id)).await }
            };
            let delete = async |transaction: &mut Transaction, entry: Entry| {
                let (key, tree) = (schema.key(entry), template.tree(entry.tree()));
                let tail = match entry {
                    Entry::Conversation { .. } => schema.data(entry),
                    _ => EntryData::default(),
                };
                let step = |pager: &dyn Pager| Ok((update::delete(pager, tree, &key, &tail)?, ()));
                transaction.change(1, step).await.unwrap();
            };

            let mut transaction = instance.begin();
            for entry in entries_of(schema, whole, 0) {
                delete(&mut transaction, entry).await;
                read(whole).await.unwrap();
            }
            transaction.commit(Durability::Lazy).await.unwrap();
            read(whole).await.unwrap();

            let mut transaction = instance.begin();
            delete(&mut transaction, Entry::Row { id: half, version: 0 }).await;
            read(half).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
            let wrong = read(half).await;
            assert!(matches!(&wrong, Err(SessionError::WrongRow { tree: Tree::Rows, .. })), "{wrong:?}");
        });
    }
}
