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
use engine::{Durability, Instance, Transaction};

use crate::mix::{BatchShape, Mix, Operation, OperationKind, Random, scale};
use crate::schema::{Entry, FOLDERS, Schema, Tree, conversation_key, id_of_row_key, row_key};
use crate::template::TemplateDatabase;

/// Largest number of attempts of one operation before its conflicts are an error. With 256 sessions on millions of
/// rows a second attempt is rare.
const TRIES_MAX: u32 = 64;

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
    acknowledged: RefCell<Option<Acknowledged>>,
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
        Ok(Mailboxes { instance, database, template, next_id, conflicts, acknowledged: RefCell::default() })
    }

    /// Number of transactions since the last call that were rolled back because another one was first.
    pub fn take_conflicts(&self) -> u64 {
        self.conflicts.take()
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

    async fn attempt(
        &self,
        transaction: &mut Transaction,
        kind: OperationKind,
        pick: u64,
        folder: u32,
    ) -> Result<Tried<Option<u32>>> {
        let outcome = match kind {
            OperationKind::Read => return self.read(transaction, pick).await.map(|()| Tried::Done(None)),
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
            OperationKind::Delete | OperationKind::Read => Ok(()),
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
