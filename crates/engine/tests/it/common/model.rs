//! What sessions ask of an instance, and what may be there after a crash: a prefix of the commits with every
//! commit that was acknowledged as durable.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use btree::{MiniTransaction, Pager, update};
use engine::{Durability, Error, Instance, LogPosition, Transaction};
use world::World;

use super::{scan, tree_number};

pub const DATABASES: u8 = 2;
pub const TREES: u32 = 2;
const SESSIONS: u64 = 4;

pub type RowName = (u8, u32, Vec<u8>);
pub type Rows = BTreeMap<RowName, Vec<u8>>;
pub type Change = (RowName, Option<Vec<u8>>);

/// Random numbers of a test, independent of those of the simulation.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Shape of the rows that sessions write.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub keys: u64,
    pub most_data_bytes: u64,
    /// Data that repeats one byte: a torn write of it passes the page checksum.
    pub is_regular: bool,
}

impl Shape {
    fn data(&self, random: &mut Random) -> Vec<u8> {
        let len = 1 + random.below(self.most_data_bytes);
        if self.is_regular {
            return vec![1 + random.below(255) as u8; len as usize];
        }
        let words = (0..len.div_ceil(4)).flat_map(|_| (random.below(1 << 32) as u32).to_le_bytes());
        words.take(len as usize).collect()
    }
}

/// Commits that the sessions requested, in the order of the log. The rows that survive must be those of a prefix.
#[derive(Default)]
pub struct Model {
    /// Rows after all commits that are known to have survived.
    base: Rows,
    /// Commits after [`Self::base`].
    commits: Vec<Vec<Change>>,
    /// End of the log before each of these commits; the commit record comes next.
    log_ends: Vec<LogPosition>,
    /// Number of these commits that must survive.
    acknowledged: usize,
    /// Number of transactions after which sessions end.
    pub limit: u64,
    /// Number of deletes among ten changes.
    pub deletes: u64,
    /// Transactions always commit.
    pub never_rolls_back: bool,
    /// All values that a row ever got, including those of rolled-back transactions.
    written: BTreeMap<RowName, Vec<Vec<u8>>>,
    /// Database and pages between which one change moved entries.
    pub links: Vec<(u8, Vec<u32>)>,
    pub transactions: u64,
    pub rollbacks: u64,
    pub conflicts: u64,
    pub splits: u64,
    pub failed_operations: u64,
}

fn apply(state: &mut Rows, commit: &[Change]) {
    for (name, data) in commit {
        match data {
            Some(data) => drop(state.insert(name.clone(), data.clone())),
            None => drop(state.remove(name)),
        }
    }
}

impl Model {
    /// A model of empty databases.
    pub fn new(deletes: u64, limit: u64) -> Model {
        Model { deletes, limit, ..Model::default() }
    }

    /// A model of databases with these rows.
    pub fn of_rows(base: Rows) -> Model {
        Model { base, ..Model::default() }
    }

    /// From now on durable commits may be lost, because the disk lies.
    pub fn forget_promises(&mut self) {
        self.acknowledged = 0;
    }

    /// Notes a requested commit, whose record comes behind `log_end`. Returns its number.
    pub fn begin_commit(&mut self, changes: Vec<Change>, log_end: LogPosition) -> usize {
        self.transactions += 1;
        self.commits.push(changes);
        self.log_ends.push(log_end);
        self.commits.len()
    }

    /// Notes that a durable commit was acknowledged, so that no crash may lose it.
    pub fn acknowledge(&mut self, number: usize) {
        self.acknowledged = self.acknowledged.max(number);
    }

    /// Whether a row ever had this value, committed or not.
    pub fn was_written(&self, name: &RowName, data: Option<&Vec<u8>>) -> bool {
        data.is_none_or(|data| self.written.get(name).is_some_and(|values| values.contains(data)))
    }

    /// Whether `found` is a value of the row in which some whole sectors hold other contents. The remains of an older
    /// value may end inside a sector, if the next byte on the page equals the right one by chance. If only the sector
    /// with the row's length is new, all bytes of the row are those of an older value.
    pub fn was_torn(&self, name: &RowName, found: &[u8], sector_bytes: usize) -> bool {
        let Some(values) = self.written.get(name) else { return false };
        let is_left = |run: &[u8]| values.iter().any(|value| run.iter().all(|byte| value.contains(byte)));
        let is_torn = |value: &Vec<u8>| {
            let same: Vec<bool> = value.iter().zip(found).map(|(a, b)| a == b).collect();
            let mut at = 0;
            let sectors = same.chunk_by(|a, b| a == b).all(|run| {
                let (from, is_inside) = (at, at > 0 && at + run.len() < same.len());
                at += run.len();
                run[0] || !is_inside || run.len().is_multiple_of(sector_bytes) || is_left(&found[from..at])
            });
            value.len() == found.len() && (same.contains(&true) || is_left(found)) && sectors
        };
        values.iter().any(is_torn)
    }

    /// Whether a row was given the value `found` later than `expected`.
    pub fn is_newer(&self, name: &RowName, found: Option<&Vec<u8>>, expected: Option<&Vec<u8>>) -> bool {
        let Some(values) = self.written.get(name) else { return false };
        let last = |data: Option<&Vec<u8>>| values.iter().rposition(|value| Some(value) == data);
        last(found).is_some_and(|found| last(expected).is_none_or(|expected| found > expected))
    }

    /// The value that the row had before `data`, if it had one.
    pub fn older(&self, name: &RowName, data: &Vec<u8>) -> Option<Vec<u8>> {
        let values = self.written.get(name)?;
        let at = values.iter().position(|value| value == data)?;
        values.get(at.checked_sub(1)?).filter(|older| *older != data).cloned()
    }

    /// Rows after the commits in a log that ends at `log_end`.
    pub fn state_at(&self, log_end: LogPosition) -> Rows {
        let mut state = self.base.clone();
        for (commit, before) in self.commits.iter().zip(&self.log_ends) {
            if *before < log_end {
                apply(&mut state, commit);
            }
        }
        state
    }

    /// Finds the prefix of commits that gives `found`, and makes it the base.
    pub fn rebase_on(&mut self, found: &Rows) -> Result<(), String> {
        let mut state = self.base.clone();
        let commits = &self.commits;
        commits[..self.acknowledged].iter().for_each(|commit| apply(&mut state, commit));
        let mut rest = commits[self.acknowledged..].iter();
        while state != *found {
            let Some(commit) = rest.next() else {
                return Err(format!(
                    "{} rows are no prefix of {} commits, {} of them durable; {}",
                    found.len(),
                    commits.len(),
                    self.acknowledged,
                    difference(&state, found)
                ));
            };
            apply(&mut state, commit);
        }
        self.base = state;
        self.commits.clear();
        self.log_ends.clear();
        self.acknowledged = 0;
        Ok(())
    }
}

fn difference(expected: &Rows, found: &Rows) -> String {
    let lost = expected.iter().find(|(name, data)| found.get(*name) != Some(data));
    let extra = found.iter().find(|(name, data)| expected.get(*name) != Some(data));
    let name = |row: Option<(&RowName, &Vec<u8>)>| row.map(|(name, data)| (name.clone(), data.len()));
    format!("with all of them: first lost {:?}, first unexpected {:?}", name(lost), name(extra))
}

/// Leaf pages of a change that splits a page. Only such a change formats a page.
fn split_pages(pager: &dyn Pager, mini: &MiniTransaction) -> Vec<u32> {
    let splits = mini.changes.iter().any(|change| change.formats());
    // A parent gets a separator, no entry.
    let has_entries = |pgno: u32| pager.page(pgno).map_or(true, |page| page.is_leaf());
    let changed =
        mini.changes.iter().filter(|change| splits && (change.formats() || has_entries(change.pgno)));
    changed.map(|change| change.pgno).collect()
}

async fn put(
    transaction: &mut Transaction,
    (db, number, key): &RowName,
    data: &[u8],
    model: &RefCell<Model>,
) -> engine::Result<()> {
    let (tree, has_split) = (tree_number(*number), RefCell::new(Vec::new()));
    let note = |pager: &dyn Pager, mini: &MiniTransaction| *has_split.borrow_mut() = split_pages(pager, mini);
    let inserted = transaction.change(*db, |pager| {
        let mini = update::insert(pager, tree, key, data)?;
        note(pager, &mini);
        Ok((mini, ()))
    });
    let done = match inserted.await {
        Err(Error::Duplicate) => {
            let replaced = transaction.change(*db, |pager| {
                let mini = update::replace(pager, tree, key, data)?;
                note(pager, &mini);
                Ok((mini, ()))
            });
            replaced.await
        }
        other => other,
    };
    if done.is_ok() {
        let (mut model, pages) = (model.borrow_mut(), has_split.into_inner());
        model.written.entry((*db, *number, key.clone())).or_default().push(data.to_vec());
        if !pages.is_empty() {
            model.splits += 1;
            model.links.push((*db, pages));
        }
    }
    done
}

/// Performs one transaction of a session. Returns whether the session may go on.
async fn transact(instance: &Instance, model: &RefCell<Model>, random: &mut Random, shape: Shape) -> bool {
    let mut transaction = instance.begin();
    let mut changes: Vec<Change> = Vec::new();
    let deletes = model.borrow().deletes;
    for _ in 0..1 + random.below(3) {
        let db = 1 + random.below(DATABASES.into()) as u8;
        let number = random.below(TREES.into()) as u32;
        let name = (db, number, (random.below(shape.keys) as u32).to_be_bytes().to_vec());
        let done = match random.below(10) {
            n if n < deletes => {
                transaction.delete(db, tree_number(number), &name.2).await.map(|()| Some(None))
            }
            n if n < 9 => {
                let data = shape.data(random);
                put(&mut transaction, &name, &data, model).await.map(|()| Some(Some(data)))
            }
            _ => transaction.get(db, tree_number(number), &name.2).await.map(|_| None),
        };
        match done {
            Ok(Some(data)) => changes.push((name, data)),
            Ok(None) | Err(Error::NotFound) => {}
            Err(Error::Conflict) => {
                model.borrow_mut().conflicts += 1;
                return transaction.rollback().await.is_ok();
            }
            Err(_) => {
                // A failed read or a full disk is the end of the operation; a failed write that of the instance.
                model.borrow_mut().failed_operations += 1;
                return transaction.rollback().await.is_ok() && instance.check().is_ok();
            }
        }
    }
    if random.below(12) == 0 && !model.borrow().never_rolls_back {
        model.borrow_mut().rollbacks += 1;
        return transaction.rollback().await.is_ok();
    }
    let durability = if random.below(10) < 3 { Durability::Durable } else { Durability::Lazy };
    // A transaction that has changed nothing promises nothing about others.
    let promises = durability == Durability::Durable && !changes.is_empty();
    let number = model.borrow_mut().begin_commit(changes, instance.log_end());
    let committed = transaction.commit(durability).await.is_ok();
    if committed && promises {
        model.borrow_mut().acknowledge(number);
    }
    committed
}

/// Runs sessions up to the model's limit, or until an operation fails.
pub async fn load(
    world: &World,
    instance: Rc<Instance>,
    model: &Rc<RefCell<Model>>,
    shape: Shape,
    seed: u64,
) {
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let (instance, model, paused) = (instance.clone(), model.clone(), world.clone());
            let mut random = Random::new(seed * SESSIONS + session + 1);
            world.spawn(async move {
                loop {
                    let goes_on = model.borrow().transactions < model.borrow().limit;
                    if !goes_on || !transact(&instance, &model, &mut random, shape).await {
                        return;
                    }
                    // Sessions come and go in each other's way, also where I/O takes no time.
                    paused.sleep(world::Duration::from_nanos(random.below(1000))).await;
                }
            })
        })
        .collect();
    for session in sessions {
        session.await;
    }
}

/// Every row of every tree.
pub async fn all_rows(instance: &Instance) -> engine::Result<Rows> {
    let reader = instance.begin();
    let mut rows = Rows::new();
    for db in 1..=DATABASES {
        for number in 0..TREES {
            let found = scan(&reader, db, tree_number(number)).await?;
            rows.extend(found.into_iter().map(|(key, data)| ((db, number, key), data)));
        }
    }
    Ok(rows)
}
