//! The end of the process alone: the machine lives on, so the next process reads what was written, and a power
//! cut that comes later still takes what is not synced, independent of the writer.
//!
//! The real files hold what is durable, and nothing else. What is not goes into one file that the next
//! process's shadow takes up ([`super::ShadowHost::take_up`]).
//!
//! Limits: the end comes at an event of the disk. A process that is killed otherwise loses what a power cut would
//! take.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::names::{Change, Names, Slot, nameless};
use super::node::{Layer, Node};
use world::SECTOR_BYTES;

/// Codes in the file of leftovers. `FILE`, `DIR` and `GONE`: state of a path. `CREATE` to `REMOVE`: change of a name.
const FILE: u64 = 0;
const DIR: u64 = 1;
const GONE: u64 = 2;
const CREATE: u64 = 0;
const CREATE_DIR: u64 = 1;
const RENAME: u64 = 2;
const REMOVE: u64 = 3;

#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    /// Files by their address in memory, numbered in the order of their appearance.
    nodes: Vec<Rc<Node>>,
}

impl Writer {
    fn number(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn node(&mut self, node: &Rc<Node>) {
        let known = self.nodes.iter().position(|known| Rc::ptr_eq(known, node));
        let number = known.unwrap_or_else(|| {
            self.nodes.push(node.clone());
            self.nodes.len() - 1
        });
        self.number(number as u64);
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Create { path, node } => {
                self.number(CREATE);
                self.bytes(path.as_bytes());
                self.node(node);
            }
            Change::CreateDir { path } => {
                self.number(CREATE_DIR);
                self.bytes(path.as_bytes());
            }
            Change::Rename { from, to } => {
                self.number(RENAME);
                self.bytes(from.as_bytes());
                self.bytes(to.as_bytes());
            }
            Change::Remove { path } => {
                self.number(REMOVE);
                self.bytes(path.as_bytes());
            }
        }
    }

    /// Describes a file: path of the real file, or its bytes if it has no name, then the unsynced writes.
    fn contents(&mut self, node: &Node, real_names: &BTreeMap<u64, PathBuf>) -> io::Result<()> {
        let metadata = node.real().metadata()?;
        if let Some(path) = real_names.get(&metadata.ino()) {
            self.bytes(path.to_string_lossy().as_bytes());
        } else {
            self.bytes(b"");
            let mut bytes = vec![0; metadata.len() as usize];
            node.real().read_exact_at(&mut bytes, 0)?;
            self.bytes(&bytes);
        }
        let Layer { bytes, floor, sectors } = node.unsynced();
        [bytes, floor, sectors.len() as u64].into_iter().for_each(|number| self.number(number));
        for (index, sector) in sectors {
            self.number(index);
            self.out.extend_from_slice(&sector);
        }
        Ok(())
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(bytes);
        self.0 = rest;
        head
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    fn bytes(&mut self) -> &'a [u8] {
        let bytes = self.number();
        self.take(bytes as usize)
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("a path in text")
    }

    fn node(&mut self, directory: &Path) -> io::Result<Rc<Node>> {
        let path = self.text();
        let real = if path.is_empty() {
            let real = nameless(directory)?;
            real.write_all_at(self.bytes(), 0)?;
            real
        } else {
            fs::OpenOptions::new().read(true).write(true).open(path)?
        };
        let (bytes, floor, count) = (self.number(), self.number(), self.number());
        let sectors = (0..count).map(|_| (self.number(), self.take(SECTOR_BYTES).into())).collect();
        Ok(Rc::new(Node::with_unsynced(real, Layer { bytes, floor, sectors })))
    }

    fn change(&mut self, nodes: &[Rc<Node>]) -> Change {
        match self.number() {
            CREATE => Change::Create { path: self.text(), node: nodes[self.number() as usize].clone() },
            CREATE_DIR => Change::CreateDir { path: self.text() },
            RENAME => Change::Rename { from: self.text(), to: self.text() },
            _ => Change::Remove { path: self.text() },
        }
    }
}

impl Names {
    /// Numbers of the real files in the visible directories.
    fn real_names(&self) -> io::Result<BTreeMap<u64, PathBuf>> {
        let mut real_names = BTreeMap::new();
        let directories: BTreeSet<&Path> =
            self.seen.keys().filter_map(|path| Path::new(path).parent()).collect();
        for directory in directories.into_iter().filter(|directory| directory.is_dir()) {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                real_names.insert(entry.metadata()?.ino(), entry.path());
            }
        }
        Ok(real_names)
    }

    /// Writes everything that is not durable into the file of leftovers, for the next process.
    pub(super) fn leave(&self, to: &Path) -> io::Result<()> {
        let mut names = Writer::default();
        names.number(self.seen.len() as u64);
        for (path, slot) in &self.seen {
            names.bytes(path.as_bytes());
            match slot {
                Slot::File(node) => {
                    names.number(FILE);
                    names.node(node);
                }
                Slot::Dir => names.number(DIR),
                Slot::Gone => names.number(GONE),
            }
        }
        names.number(self.changes.len() as u64);
        for (change, _) in &self.changes {
            names.change(change);
        }
        let mut files = Writer::default();
        files.number(names.nodes.len() as u64);
        let real_names = self.real_names()?;
        for node in &names.nodes {
            files.contents(node, &real_names)?;
        }
        fs::write(to, [files.out, names.out].concat())
    }

    /// Loads the leftovers of another process and removes their file. What this process does not leave again is lost.
    pub(super) fn take_up(from: &Path) -> io::Result<Names> {
        let bytes = fs::read(from)?;
        fs::remove_file(from)?;
        let directory = from.parent().expect("a file lies in a directory");
        let mut reader = Reader(&bytes);
        let nodes = (0..reader.number()).map(|_| reader.node(directory)).collect::<io::Result<Vec<_>>>()?;
        let mut seen = BTreeMap::new();
        for _ in 0..reader.number() {
            let path = reader.text();
            let slot = match reader.number() {
                FILE => Slot::File(nodes[reader.number() as usize].clone()),
                DIR => Slot::Dir,
                _ => Slot::Gone,
            };
            seen.insert(path, slot);
        }
        let changes = (0..reader.number()).map(|_| (reader.change(&nodes), false)).collect();
        Ok(Names { seen, changes })
    }
}
