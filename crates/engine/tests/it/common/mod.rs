//! A small database for tests: a few trees in the root's space, as a template, and an instance over it.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod cuts;
pub mod damaged;
pub mod dropping;
pub mod failing;
pub mod letting_go;
pub mod lying;
pub mod model;
pub mod operations;
pub mod pair;
pub mod seed;
pub mod snapshot;
pub mod stage;
pub mod tampered;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use btree::space::SpaceHeader;
use btree::{Pager, Tree, tree};
use edb::header::DatabaseHeader;
use edb::identity::{LogTime, Signature};
use edb::page::{PageMut, page_flags};
use engine::{DatabaseConfig, Instance, InstanceConfig, Redo, Transaction};
use smallvec::smallvec;
use world::{OpenMode, PageBuf, TemplatePages, World};

pub const PAGE_BYTES: usize = 4096;
/// Both ways of redo; tests of recovery try both.
pub const REDO: [Redo; 2] = [Redo::InLogOrder, Redo::ByPage];
const TREE_PAGES: u32 = 8;

/// A database of `pages` pages with `trees` empty trees.
pub struct SmallDatabase {
    pub trees: u32,
    pub pages: u32,
}

/// The `n`th tree (from 0) of every small database.
pub fn tree_number(n: u32) -> Tree {
    Tree { fdp: 4 + n * TREE_PAGES, objid: 10 + n, density_pct: 80 }
}

impl SmallDatabase {
    fn header(&self, page: &mut [u8]) {
        let signature = Signature::new(7, LogTime::from_unix_ms(1_700_000_000_000));
        let mut header = DatabaseHeader::new(PAGE_BYTES, signature, LogTime::default());
        page.copy_from_slice(header.stamped());
    }

    /// Writes a root, owned-extents or available-extents page of one space. `owner`: root page, object id, parent.
    fn space_page(&self, pgno: u32, owner: (u32, u32, u32), pages: u32, used: u32, page: &mut [u8]) {
        let (first, objid, parent) = owner;
        let leaf = page_flags::ROOT | page_flags::LEAF;
        let flags = if pgno == first { leaf } else { leaf | page_flags::SPACE };
        let mut page = PageMut::format(page, pgno, objid, flags, 64);
        let last = (first + pages - 1).to_be_bytes();
        match pgno - first {
            0 => {
                let header = SpaceHeader::multiple(pages, parent, first + 1, false);
                page.set_external_header(&header.bytes()).unwrap();
            }
            1 => {
                page.set_external_header(&[0; 16]).unwrap();
                page.insert(0, &last, &pages.to_le_bytes(), 0).unwrap();
            }
            _ => {
                page.set_external_header(&[0; 16]).unwrap();
                page.insert(0, &last, &(pages - used).to_le_bytes(), 0).unwrap();
            }
        }
        page.finish(pgno);
    }
}

impl TemplatePages for SmallDatabase {
    fn id(&self) -> u64 {
        0x5EED
    }

    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn pages(&self) -> u64 {
        u64::from(self.pages) + 2
    }

    fn fill(&self, index: u64, page: &mut [u8]) {
        page.fill(0);
        if index < 2 {
            return self.header(page);
        }
        let pgno = index as u32 - 1;
        let trees_end = 4 + self.trees * TREE_PAGES;
        if pgno <= 3 {
            self.space_page(pgno, (1, 1, 0), self.pages, trees_end - 1, page);
        } else if pgno < trees_end {
            let number = (pgno - 4) / TREE_PAGES;
            let tree = tree_number(number);
            if pgno < tree.fdp + 3 {
                self.space_page(pgno, (tree.fdp, tree.objid, 1), TREE_PAGES, 3, page);
            }
        }
    }
}

/// Creates `count` databases and the configuration of an instance over them.
pub async fn create(world: &World, count: u32, trees: u32) -> InstanceConfig {
    create_below(world, "", count, trees).await
}

/// As [`create`], in the folders `log` and `db` below `root`.
pub async fn create_below(world: &World, root: &str, count: u32, trees: u32) -> InstanceConfig {
    create_template(world, config_below(root, count), SmallDatabase { trees, pages: 64 }).await
}

/// Creates the databases of `config`, each from this template.
pub async fn create_template(
    world: &World,
    config: InstanceConfig,
    template: SmallDatabase,
) -> InstanceConfig {
    for database in &config.databases {
        let file = world.open(&database.path, OpenMode::CreateNew).await.unwrap();
        for index in 0..template.pages() {
            let mut page = PageBuf::empty(PAGE_BYTES);
            template.fill(index, page.as_mut_slice());
            let (written, _) = file.write_at(index * PAGE_BYTES as u64, smallvec![page]).await;
            written.unwrap();
        }
        file.sync().await.unwrap();
    }
    if let Some((directory, _)) = config.databases.first().and_then(|first| first.path.rsplit_once('/')) {
        world.sync_dir(directory).await.unwrap();
    }
    config
}

/// The configuration of an instance over `count` databases below `root`.
pub fn config_below(root: &str, count: u32) -> InstanceConfig {
    let mut config = InstanceConfig::new(&format!("{root}/log"), PAGE_BYTES);
    config.log_bytes = 64 << 10;
    config.log_buffer_bytes = 32 << 10;
    config.checkpoint_depth_bytes = 128 << 10;
    config.cache_bytes_per_database = 96 * PAGE_BYTES as u64;
    for n in 0..count {
        let mut database = DatabaseConfig::new(&format!("{root}/db/{n}.edb"));
        database.extension_bytes = 16 * PAGE_BYTES as u64;
        config.databases.push(database);
    }
    config
}

/// All live entries of a tree, including changes of open transactions.
pub async fn scan(transaction: &Transaction, db: u8, of: Tree) -> engine::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut rows = BTreeMap::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let step = |pager: &dyn Pager| {
            let mut at = match &after {
                None => tree::first(pager, of)?,
                Some(key) => tree::seek(pager, of, key, tree::Seek::AtLeast)?,
            };
            let mut some = Vec::new();
            while let Some(position) = at {
                let node = position.node(pager)?;
                some.push((node.key(), node.data.to_vec(), node.is_deleted()));
                if some.len() == 50 {
                    break;
                }
                at = tree::next(pager, of, position)?;
            }
            Ok(some)
        };
        let some = transaction.read(db, step).await?;
        let Some((last, ..)) = some.last() else { return Ok(rows) };
        after = Some([&last[..], &[0]].concat());
        rows.extend(some.into_iter().filter(|(.., deleted)| !deleted).map(|(key, data, _)| (key, data)));
    }
}

/// Proves that every tree and the space of every database are whole. Returns the pages in use.
pub async fn check_structure(instance: &Instance, databases: u8, trees: u32) -> engine::Result<u64> {
    let root = Tree { fdp: 1, objid: 1, density_pct: 100 };
    let all: Vec<Tree> = std::iter::once(root).chain((0..trees).map(tree_number)).collect();
    let mut used_pages = 0;
    for db in 1..=databases {
        let usage = instance.begin().read(db, |pager| btree::check::database(pager, &all)).await?;
        assert_eq!(usage.leaked_pages, 0, "database {db} leaks pages");
        used_pages += usage.used_pages;
    }
    Ok(used_pages)
}

/// The result of the future, or `None` if it has none after `times` polls; then it is dropped.
pub async fn polled<T>(times: u32, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), times);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            // Without a poll left, the next wake would wake no task.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

pub fn shared<T>(value: T) -> Rc<std::cell::RefCell<T>> {
    Rc::new(std::cell::RefCell::new(value))
}
