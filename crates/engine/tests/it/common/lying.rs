//! One seed of the crash test on a disk that lies. Commits may be lost; a wrong row must have been read from a
//! page that a lie hit in a way that docs/faults.md says is not noticed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use btree::{Pager, tree};
use edb::checksum::{Verdict, verify};
use engine::{Instance, InstanceConfig, LogPosition, flush_map_path};
use smallvec::smallvec;
use world::sim::{FaultKind, Faults, FileId, Lie, Outcome, PowerCut, Simulation};
use world::{OpenMode, PageBuf, World};

use super::model::{DATABASES, Model, Random, RowName, Rows, Shape, TREES, load};
use super::seed::{Totals, create_small, new_simulation, shape_of, with_meta_cache};
use super::{PAGE_BYTES, REDO, shared, tree_number};

/// Counts of how seeds on a lying disk ended.
#[derive(Debug, Default)]
pub struct Lies {
    /// Seeds in which an error reported the damage.
    pub noticed: u64,
    /// Seeds in which every commit survived the lies.
    pub harmless: u64,
    /// Seeds in which only the newest commits were lost.
    pub commits_lost: u64,
    /// Wrong rows that lies explain, in databases without a usable flush map.
    pub wrong_rows: u64,
    /// Rows that are part old and part new: their torn page passes the page checksum and had no image in the log.
    pub torn_rows: u64,
    /// Seeds with lies about the log in which an older row was still reported, because those lies do not explain it.
    pub log_lies_seen_through: u64,
}

/// Pager that notes the pages a read asks for.
struct Trace<'p> {
    pager: &'p dyn Pager,
    way: RefCell<Way>,
}

/// Pages from which a row was read.
#[derive(Default)]
struct Way {
    pages: BTreeSet<u32>,
    /// Leaf pages among them.
    leaves: BTreeSet<u32>,
}

impl Pager for Trace<'_> {
    fn page(&self, pgno: u32) -> btree::Result<btree::PageView<'_>> {
        let page = self.pager.page(pgno)?;
        let mut way = self.way.borrow_mut();
        way.pages.insert(pgno);
        if page.is_leaf() {
            way.leaves.insert(pgno);
        }
        Ok(page)
    }

    fn page_bytes(&self) -> usize {
        self.pager.page_bytes()
    }
}

type Read = BTreeMap<RowName, (Option<Vec<u8>>, Way)>;

/// Reads every row, and notes the pages of each read.
async fn read_all(instance: &Instance, shape: Shape) -> engine::Result<Read> {
    let reader = instance.begin();
    let mut read = Read::new();
    for db in 1..=DATABASES {
        for number in 0..TREES {
            for key in 0..shape.keys as u32 {
                let key = key.to_be_bytes().to_vec();
                let step = |pager: &dyn Pager| {
                    let trace = Trace { pager, way: RefCell::default() };
                    let node = tree::get(&trace, tree_number(number), &key)?;
                    let data = node.filter(|node| !node.is_deleted()).map(|node| node.data.to_vec());
                    Ok((data, trace.way.into_inner()))
                };
                let found = reader.read(db, step).await?;
                read.insert((db, number, key), found);
            }
        }
    }
    Ok(read)
}

/// Damage by lies that the engine cannot notice.
#[derive(Default)]
struct Unnoticed {
    /// Pages whose newest write was lost, by database.
    pages: BTreeSet<(u8, u32)>,
    /// These pages, and pages that exchanged entries with them.
    tainted: BTreeSet<(u8, u32)>,
    /// Databases with a dropped sync: any of their pages may be older.
    databases: BTreeSet<u8>,
    /// Whether the log lost a write. Pages may then be newer than the end of the log; that is all it explains.
    log: bool,
    /// Pages that took part in a split. If they are newer than the end of the log, they may lack entries that moved
    /// to other pages.
    split: BTreeSet<(u8, u32)>,
    /// Databases whose flush map is new, or was affected by lies. In all other databases the engine notices an old
    /// page.
    without_map: BTreeSet<u8>,
    /// Whether a torn page may pass the page checksum, because the data repeat one byte.
    tears: bool,
}

impl Unnoticed {
    fn of(
        sim: &Simulation,
        config: &InstanceConfig,
        model: &Model,
        tears: bool,
        without_map: impl Iterator<Item = u8>,
    ) -> Unnoticed {
        let paths = config.databases.iter().map(|db| db.path.clone());
        let ids: Vec<_> = paths.clone().map(|path| sim.file_id("h", &path)).collect();
        let maps: Vec<_> = paths.map(|path| sim.file_id("h", &flush_map_path(&path))).collect();
        let caches = config.databases.iter().filter_map(|db| db.meta_cache.as_ref());
        let caches: Vec<_> = caches.map(|cache| sim.file_id("h", &cache.path)).collect();
        let of = |ids: &[Option<FileId>], lie: &Lie| {
            (1..).zip(ids).find(|(_, id)| **id == Some(lie.file)).map(|(db, _)| db)
        };
        let links = model.links.iter();
        let split = links.flat_map(|(db, pages)| pages.iter().map(|page| (*db, *page))).collect();
        let without_map = without_map.collect();
        let mut unnoticed = Unnoticed { split, tears, without_map, ..Unnoticed::default() };
        for lie in sim.lies() {
            if let Some(db) = of(&maps, &lie) {
                unnoticed.without_map.insert(db);
                continue;
            }
            if of(&caches, &lie).is_some() {
                continue;
            }
            match (of(&ids, &lie), lie.kind) {
                (None, _) => unnoticed.log = true,
                (Some(db), FaultKind::DroppedSync) => drop(unnoticed.databases.insert(db)),
                (Some(db), FaultKind::LostWrite | FaultKind::MisdirectedWrite) => {
                    let first = (lie.offset / PAGE_BYTES as u64) as u32;
                    let count = (lie.bytes / PAGE_BYTES as u64) as u32;
                    // The first two pages of a file are its header.
                    unnoticed
                        .pages
                        .extend((first..first + count).filter(|page| *page > 1).map(|page| (db, page - 1)));
                }
                // A rotten page fails its check.
                _ => {}
            }
        }
        unnoticed.tainted.clone_from(&unnoticed.pages);
        loop {
            let before = unnoticed.tainted.len();
            for (db, pages) in &model.links {
                if pages.iter().any(|page| unnoticed.tainted.contains(&(*db, *page))) {
                    unnoticed.tainted.extend(pages.iter().map(|page| (*db, *page)));
                }
            }
            if unnoticed.tainted.len() == before {
                return unnoticed;
            }
        }
    }

    fn explains(&self, db: u8, way: &Way, is_newer: bool) -> bool {
        let has = |some: &BTreeSet<(u8, u32)>, pages: &BTreeSet<u32>| {
            pages.iter().any(|page| some.contains(&(db, *page)))
        };
        let by_log = self.log && (is_newer || has(&self.split, &way.leaves));
        let by_page = has(&self.pages, &way.pages) || has(&self.tainted, &way.leaves);
        self.without_map.contains(&db) && (by_log || by_page || self.databases.contains(&db))
    }
}

fn lies_of(seed: u64) -> Faults {
    let none = Faults::default();
    match seed % 4 {
        0 => Faults { dropped_sync: 0.1, ..none },
        1 => Faults { lost_write: 0.02, ..none },
        2 => Faults { misdirected_write: 0.02, ..none },
        _ => Faults { dropped_sync: 0.02, lost_write: 0.01, misdirected_write: 0.01, bit_rot: 0.01, ..none },
    }
}

/// Runs one seed.
pub fn run_lying_seed(seed: u64, totals: &mut Totals, lies: &mut Lies) -> Result<(), String> {
    let (sim, world) = new_simulation(seed);
    let mut random = Random::new(seed);
    let shape = shape_of(seed, &mut random);
    let mut config = with_meta_cache(seed, create_small(&sim, &world, &mut random));
    config.redo = REDO[(seed / 4 % 2) as usize];
    let model = shared(Model::new(1, 0));
    let (instance, _) = sim.run_until(Instance::open(&world, &config)).map_err(|error| error.to_string())?;
    let instance = std::rc::Rc::new(instance);
    for (part, limit) in [(0, 200), (1, 320)] {
        if part == 1 {
            // The checkpoint makes the log durable: what moved entries until now is told by what is honestly there.
            sim.run_until(world.sleep(Duration::from_secs(3)));
            sim.set_faults(lies_of(seed));
            let mut model = model.borrow_mut();
            model.links.clear();
            // Entries move to other pages only where the model sees it.
            (model.deletes, model.never_rolls_back) = (0, true);
        }
        model.borrow_mut().limit = limit;
        if let Outcome::Stuck { waiting_tasks } =
            sim.run_until_crash_or(load(&world, instance.clone(), &model, shape, seed * 2 + part))
        {
            return Err(format!("the load is stuck, {waiting_tasks} tasks wait"));
        }
    }
    drop(instance);
    let world = sim.restart("h");
    let rot = if seed % 4 == 3 { 0.01 } else { 0.0 };
    sim.set_faults(Faults { bit_rot: rot, ..Faults::default() });
    let read = sim.run_until(async {
        let (instance, report) = Instance::open(&world, &config).await?;
        Ok::<_, engine::Error>((read_all(&instance, shape).await, report))
    });
    totals.add_faults(&sim);
    if let Ok((_, report)) = &read {
        totals.branches.merge(&report.branches);
    }
    let (read, report) = match read {
        Ok((Ok(read), report)) => (read, report),
        Ok((Err(_), _)) | Err(_) if !sim.lies().is_empty() => {
            lies.noticed += 1;
            return Ok(());
        }
        Ok((Err(error), _)) | Err(error) => return Err(format!("nobody lied: {error}")),
    };
    let refused = report.flush_maps_refused.iter().map(|(db, _)| *db);
    let unnoticed = Unnoticed::of(&sim, &config, &model.borrow(), shape.is_regular, refused);
    let mut model = model.borrow_mut();
    let expected = model.state_at(report.log_end);
    judge(&sim, &unnoticed, &mut model, &expected, &read, lies)?;
    see_through_log_lies(&sim, &unnoticed, &mut model, &expected, read, lies)
}

/// Makes a row older although no lie about a page explains it, as a silent bug of the engine would. The judge must
/// not accept lies about the log as an excuse.
fn see_through_log_lies(
    sim: &Simulation,
    unnoticed: &Unnoticed,
    model: &mut Model,
    expected: &Rows,
    mut read: Read,
    lies: &mut Lies,
) -> Result<(), String> {
    if !unnoticed.log {
        return Ok(());
    }
    let older = read.iter().find_map(|(name, (data, way))| {
        let data = data.as_ref().filter(|_| !unnoticed.explains(name.0, way, false))?;
        Some((name.clone(), model.older(name, data)?))
    });
    let Some((name, data)) = older else { return Ok(()) };
    // The page may be newer than the log, and the row before it was right.
    if expected.get(&name) == Some(&data) {
        return Ok(());
    }
    read.get_mut(&name).expect("it was found").0 = Some(data);
    match judge(sim, unnoticed, model, expected, &read, &mut Lies::default()) {
        Ok(()) => Err(format!("row {name:?} was made older, and lies about the log excuse it")),
        Err(_) => {
            lies.log_lies_seen_through += 1;
            Ok(())
        }
    }
}

fn rows_of(read: &Read) -> Rows {
    read.iter().filter_map(|(name, (data, _))| Some((name.clone(), data.clone()?))).collect()
}

fn judge(
    sim: &Simulation,
    unnoticed: &Unnoticed,
    model: &mut Model,
    expected: &Rows,
    read: &Read,
    lies: &mut Lies,
) -> Result<(), String> {
    let found = rows_of(read);
    if model.rebase_on(&found).is_ok() {
        lies.harmless += 1;
        return Ok(());
    }
    if sim.lies().is_empty() {
        return Err("nobody lied, and the rows are no prefix of the commits".to_owned());
    }
    if found == *expected {
        lies.commits_lost += 1;
        return Ok(());
    }
    for (name, (data, way)) in read {
        if expected.get(name) == data.as_ref() {
            continue;
        }
        if let Some(data) = data
            && !model.was_written(name, Some(data))
        {
            // Behind a sync that was dropped, or made whole by log that was lost.
            let may_be_torn = unnoticed.tears && (unnoticed.log || unnoticed.databases.contains(&name.0));
            if !may_be_torn || !model.was_torn(name, data, PowerCut::default().sector_bytes) {
                return Err(format!("row {name:?} has {} bytes that nobody wrote", data.len()));
            }
            lies.torn_rows += 1;
            continue;
        }
        let is_newer = model.is_newer(name, data.as_ref(), expected.get(name));
        if !unnoticed.explains(name.0, way, is_newer) {
            return Err(format!(
                "row {name:?} is wrong, read from pages {:?}, and no lie explains it",
                way.pages
            ));
        }
        lies.wrong_rows += 1;
    }
    Ok(())
}

/// Replaces one sector of one row by its older contents in the file of a closed database, as a power cut after a
/// dropped sync would. The page passes its checksum. Returns the row's database.
async fn tear_a_row(
    world: &World,
    config: &InstanceConfig,
    model: &Model,
    read: &Read,
) -> Result<u8, String> {
    const SECTOR: usize = 512;
    for ((db, number, key), (data, way)) in read {
        let name = (*db, *number, key.clone());
        let Some(older) = data.as_ref().and_then(|data| model.older(&name, data)) else { continue };
        let (byte, pgno) =
            (data.as_ref().expect("it has data")[0], *way.leaves.first().expect("it lies on a page"));
        let path = &config.databases[usize::from(*db) - 1].path;
        let file = world.open(path, OpenMode::ReadWrite).await.map_err(|error| error.to_string())?;
        let at = (u64::from(pgno) + 1) * PAGE_BYTES as u64;
        let (done, bufs) = file.read_at(at, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
        done.map_err(|error| error.to_string())?;
        let mut page = bufs[0].as_slice().to_vec();
        let inside = |sector: &&mut [u8]| byte != older[0] && sector.iter().all(|found| *found == byte);
        let Some(sector) = page.chunks_mut(SECTOR).find(inside) else { continue };
        sector.fill(older[0]);
        if verify(&page, pgno) != Verdict::Ok {
            return Err(format!("page {pgno} does not pass its checksum"));
        }
        let (done, _) = file.write_at(at, smallvec![PageBuf::copy_of(&page)]).await;
        done.map_err(|error| error.to_string())?;
        return Ok(*db);
    }
    Err("no row is longer than two sectors and had another value before".to_owned())
}

/// Result of the judge, and the number of torn rows that it has accounted for.
pub type Judged = (Result<(), String>, u64);

/// Tears a row unnoticed and judges it three times: with a dropped sync of its own database, with one of another
/// file, and with data that are not regular.
pub fn judge_a_torn_row(seed: u64) -> Result<[Judged; 3], String> {
    let (sim, world) = new_simulation(seed);
    let mut random = Random::new(seed);
    let config = create_small(&sim, &world, &mut random);
    let shape = Shape { keys: 12, most_data_bytes: 1800, is_regular: true };
    let model = shared(Model::new(0, 120));
    let outcome = sim.run_until(async {
        let (instance, _) = Instance::open(&world, &config).await?;
        let instance = std::rc::Rc::new(instance);
        load(&world, instance.clone(), &model, shape, seed).await;
        let read = read_all(&instance, shape).await?;
        std::rc::Rc::into_inner(instance).expect("all sessions have ended").close().await?;
        Ok::<_, engine::Error>(read)
    });
    let read = outcome.map_err(|error| error.to_string())?;
    let torn = sim.run_until(tear_a_row(&world, &config, &model.borrow(), &read))?;
    let end = LogPosition::new(u32::MAX, 0, 0);
    let mut judged = Vec::new();
    for (drops_its_own, is_regular) in [(true, true), (false, true), (true, false)] {
        let file = config.databases.iter().zip(1..).find(|(_, db)| (*db == torn) == drops_its_own);
        let path = &file.expect("there are two databases").0.path;
        sim.set_faults(Faults { dropped_sync: 1.0, ..Faults::default() });
        let dropped = sim.run_until(async { world.open(path, OpenMode::ReadWrite).await?.sync().await });
        dropped.map_err(|error| error.to_string())?;
        sim.set_faults(Faults::default());
        let read = sim.run_until(async {
            let (instance, _) = Instance::open(&world, &config).await?;
            let read = read_all(&instance, shape).await?;
            instance.close().await?;
            Ok::<_, engine::Error>(read)
        });
        let read = read.map_err(|error| error.to_string())?;
        let none = std::iter::empty();
        let mut unnoticed = Unnoticed::of(&sim, &config, &model.borrow(), is_regular, none);
        // Lies of the rounds before are there, too.
        unnoticed.databases.retain(|db| (*db == torn) == drops_its_own);
        let (mut model, mut lies) = (model.borrow_mut(), Lies::default());
        let expected = model.state_at(end);
        let verdict = judge(&sim, &unnoticed, &mut model, &expected, &read, &mut lies);
        judged.push((verdict, lies.torn_rows));
    }
    judged.try_into().map_err(|_| "three cases".to_owned())
}
