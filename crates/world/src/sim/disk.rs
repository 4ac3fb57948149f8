//! Names and volumes of one host's disks.
//!
//! Invariants
//! 1. A name change shows at once and is durable only after a sync of a directory it touches.
//! 2. A name change is atomic: after a power cut all of it happened or none of it.
//! 3. A sync of a directory makes all its names durable as they were when it was issued, however they came to be.
//! 4. A removed file lives on while it is open.
//!
//! Limits: only files can be renamed, and only within their volume (a top-level directory is a volume).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::SmallVec;

use super::content::Contents;
use super::power_cut::Dice;
use super::storage::{FileId, VolumeId};
use crate::{Entry, ErrorKind, OpenMode};

/// Reason why a name operation is refused; the caller adds operation and path.
pub(super) type Refused = (ErrorKind, &'static str);

const NO_ENTRY: Refused = (ErrorKind::NotFound, "no such file or directory");
const EXISTS: Refused = (ErrorKind::AlreadyExists, "the name is taken");
pub(super) const FULL: Refused = (ErrorKind::NoSpace, "the volume is full");

/// Largest number of blocks of removed files that are kept as stale bytes.
const LEFTOVERS_MAX: usize = 64;

/// Volume: a top-level directory with its capacity.
pub(super) struct Volume {
    pub id: VolumeId,
    pub capacity_bytes: Cell<u64>,
    used_bytes: Cell<u64>,
    resized: Rc<Resized>,
    charged: Rc<Charged>,
}

/// Files of a disk that take space, also removed ones with an open handle.
type Charged = RefCell<BTreeMap<FileId, VolumeId>>;

/// Size changes since the storage model was last told.
pub(super) type Resized = RefCell<Vec<Resize>>;

/// Size change of a file; size 0 means that it is gone.
pub(super) struct Resize {
    pub volume: VolumeId,
    pub file: FileId,
    pub bytes: u64,
    /// Whether all of the file has contents that no write made.
    pub is_filled: bool,
}

impl Volume {
    fn new(numbers: &Numbers, charged: &Rc<Charged>, capacity_bytes: u64) -> Rc<Volume> {
        Rc::new(Volume {
            id: numbers.volume(),
            capacity_bytes: Cell::new(capacity_bytes),
            used_bytes: Cell::new(0),
            resized: numbers.resized.clone(),
            charged: charged.clone(),
        })
    }

    pub fn free_bytes(&self) -> u64 {
        self.capacity_bytes.get().saturating_sub(self.used_bytes.get())
    }
}

/// File, reachable by name or by handle.
pub(super) struct FileNode {
    pub id: FileId,
    pub volume: Rc<Volume>,
    pub contents: RefCell<Contents>,
    handles: Cell<u32>,
    named: Cell<bool>,
    /// Bytes that the file takes from its volume.
    charged_bytes: Cell<u64>,
}

impl FileNode {
    /// Reserves space for `bytes` in total, or frees what is above; false if the volume is full.
    pub fn charge(&self, bytes: u64) -> bool {
        let charged = self.charged_bytes.get();
        if bytes > charged && bytes - charged > self.volume.free_bytes() {
            return false;
        }
        self.volume.used_bytes.set(self.volume.used_bytes.get() - charged + bytes);
        self.set_charged(bytes);
        true
    }

    fn set_charged(&self, bytes: u64) {
        if self.charged_bytes.replace(bytes) != bytes {
            let mut charged = self.volume.charged.borrow_mut();
            match bytes {
                0 => charged.remove(&self.id),
                _ => charged.insert(self.id, self.volume.id),
            };
            self.tell_size(bytes, false);
        }
    }

    /// Notes that all of the file has contents, although no write made them.
    pub fn set_filled(&self) {
        self.tell_size(self.charged_bytes.get(), true);
    }

    fn tell_size(&self, bytes: u64, is_filled: bool) {
        let resize = Resize { volume: self.volume.id, file: self.id, bytes, is_filled };
        self.volume.resized.borrow_mut().push(resize);
    }

    fn release_if_gone(&self) {
        if self.handles.get() == 0 && !self.named.get() {
            self.charge(0);
        }
    }

    pub fn add_handle(&self) {
        self.handles.set(self.handles.get() + 1);
    }

    pub fn drop_handle(&self) {
        self.handles.set(self.handles.get() - 1);
        self.release_if_gone();
    }
}

type Names = BTreeMap<Rc<str>, Node>;

/// Directory of a simulated disk.
pub(super) struct Dir {
    pub id: FileId,
    pub volume: Rc<Volume>,
    visible: RefCell<Names>,
    durable: RefCell<Names>,
}

/// Object behind a name: file or directory.
#[derive(Clone)]
pub(super) enum Node {
    File(Rc<FileNode>),
    Dir(Rc<Dir>),
}

impl Node {
    fn is_same(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::File(a), Node::File(b)) => Rc::ptr_eq(a, b),
            (Node::Dir(a), Node::Dir(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn entry(&self, name: &str) -> Entry {
        match self {
            Node::File(file) => {
                Entry { name: name.into(), bytes: file.contents.borrow().size(), is_dir: false }
            }
            Node::Dir(_) => Entry { name: name.into(), bytes: 0, is_dir: true },
        }
    }
}

/// Assignment of a name in a directory to an object, or to nothing.
struct Put {
    dir: Rc<Dir>,
    name: Rc<str>,
    before: Option<Node>,
    after: Option<Node>,
}

impl Put {
    fn apply_to(&self, names: &RefCell<Names>) {
        match &self.after {
            Some(node) => names.borrow_mut().insert(self.name.clone(), node.clone()),
            None => names.borrow_mut().remove(&self.name),
        };
    }

    fn is_possible(&self) -> bool {
        match (self.dir.durable.borrow().get(&self.name), &self.before) {
            (Some(now), Some(before)) => now.is_same(before),
            (None, None) => true,
            _ => false,
        }
    }

    fn is_slot_of(&self, other: &Put) -> bool {
        Rc::ptr_eq(&self.dir, &other.dir) && self.name == other.name
    }
}

/// Name in a directory with its present object.
struct Slot {
    dir: Rc<Dir>,
    name: Rc<str>,
    node: Option<Node>,
}

impl Slot {
    fn becomes(self, after: Option<Node>) -> Put {
        Put { dir: self.dir, name: self.name, before: self.node, after }
    }
}

/// Assignments that happen together or not at all.
struct NameChange {
    number: u64,
    puts: SmallVec<[Put; 2]>,
}

/// Disk of one host with all volumes.
pub(super) struct Disk {
    root: Rc<Dir>,
    journal: RefCell<Vec<NameChange>>,
    next_number: Cell<u64>,
    leftovers: RefCell<Vec<Rc<[u8]>>>,
    charged: Rc<Charged>,
}

/// Counters for the numbers of files, directories and volumes of the simulation.
#[derive(Default)]
pub(super) struct Numbers {
    files: Cell<u64>,
    volumes: Cell<u32>,
    /// Size changes on all volumes, in order.
    pub resized: Rc<Resized>,
}

impl Numbers {
    fn file(&self) -> FileId {
        self.files.set(self.files.get() + 1);
        FileId(self.files.get())
    }
    fn volume(&self) -> VolumeId {
        self.volumes.set(self.volumes.get() + 1);
        VolumeId(self.volumes.get())
    }
}

fn components(path: &str) -> SmallVec<[&str; 8]> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

impl Disk {
    pub fn new(numbers: &Numbers, volume_bytes: u64) -> Disk {
        let charged = Rc::default();
        let volume = Volume::new(numbers, &charged, volume_bytes);
        Disk {
            root: Rc::new(Dir {
                id: numbers.file(),
                volume,
                visible: RefCell::default(),
                durable: RefCell::default(),
            }),
            journal: RefCell::default(),
            next_number: Cell::new(0),
            leftovers: RefCell::default(),
            charged,
        }
    }

    /// Volume of the root directory.
    pub fn root_volume(&self) -> &Rc<Volume> {
        &self.root.volume
    }

    pub fn dir(&self, path: &str) -> Result<Rc<Dir>, Refused> {
        self.dir_of(&components(path))
    }

    fn dir_of(&self, parts: &[&str]) -> Result<Rc<Dir>, Refused> {
        let mut dir = self.root.clone();
        for part in parts {
            let next = match dir.visible.borrow().get(*part) {
                Some(Node::Dir(next)) => next.clone(),
                Some(Node::File(_)) => {
                    return Err((ErrorKind::NotFound, "a part of the path is not a directory"));
                }
                None => return Err(NO_ENTRY),
            };
            dir = next;
        }
        Ok(dir)
    }

    /// Name in its directory for `path`; the directory must exist.
    fn slot(&self, path: &str) -> Result<Slot, Refused> {
        let parts = components(path);
        let Some((name, parents)) = parts.split_last() else {
            return Err((ErrorKind::AlreadyExists, "this is the root directory"));
        };
        let dir = self.dir_of(parents)?;
        let node = dir.visible.borrow().get(*name).cloned();
        Ok(Slot { dir, name: (*name).into(), node })
    }

    fn change(&self, puts: SmallVec<[Put; 2]>) {
        puts.iter().for_each(|put| put.apply_to(&put.dir.visible));
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.journal.borrow_mut().push(NameChange { number, puts });
    }

    pub fn open(&self, numbers: &Numbers, path: &str, mode: OpenMode) -> Result<Rc<FileNode>, Refused> {
        let slot = self.slot(path)?;
        match (&slot.node, mode) {
            (Some(Node::File(file)), OpenMode::Read | OpenMode::ReadWrite) => Ok(file.clone()),
            (Some(Node::Dir(_)), OpenMode::Read | OpenMode::ReadWrite) => {
                Err((ErrorKind::Io, "this is a directory"))
            }
            (Some(_), OpenMode::CreateNew) => Err(EXISTS),
            (None, OpenMode::Read | OpenMode::ReadWrite) => Err(NO_ENTRY),
            (None, OpenMode::CreateNew) => {
                let file = Rc::new(FileNode {
                    id: numbers.file(),
                    volume: slot.dir.volume.clone(),
                    contents: RefCell::new(Contents::new()),
                    handles: Cell::new(0),
                    named: Cell::new(true),
                    charged_bytes: Cell::new(0),
                });
                self.change(SmallVec::from_iter([slot.becomes(Some(Node::File(file.clone())))]));
                Ok(file)
            }
        }
    }

    /// Creates a directory. Returns a new volume if it is at the top level or `mounted`.
    pub fn create_dir(
        &self,
        numbers: &Numbers,
        path: &str,
        volume_bytes: u64,
        mounted: bool,
    ) -> Result<Option<Rc<Volume>>, Refused> {
        let slot = self.slot(path)?;
        if slot.node.is_some() {
            return Err(EXISTS);
        }
        let is_volume = mounted || Rc::ptr_eq(&slot.dir, &self.root);
        let new_volume =
            if is_volume { Some(Volume::new(numbers, &self.charged, volume_bytes)) } else { None };
        let dir = Rc::new(Dir {
            id: numbers.file(),
            volume: new_volume.clone().unwrap_or_else(|| slot.dir.volume.clone()),
            visible: RefCell::default(),
            durable: RefCell::default(),
        });
        self.change(SmallVec::from_iter([slot.becomes(Some(Node::Dir(dir)))]));
        Ok(new_volume)
    }

    pub fn list(&self, path: &str) -> Result<Vec<Entry>, Refused> {
        let dir = self.dir(path)?;
        let names = dir.visible.borrow();
        Ok(names.iter().map(|(name, node)| node.entry(name)).collect())
    }

    pub fn entry(&self, path: &str) -> Result<Option<Entry>, Refused> {
        if components(path).is_empty() {
            return Ok(Some(Node::Dir(self.root.clone()).entry("")));
        }
        match self.slot(path) {
            Ok(slot) => Ok(slot.node.map(|node| node.entry(&slot.name))),
            Err((ErrorKind::NotFound, _)) => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    pub fn file_id(&self, path: &str) -> Option<FileId> {
        self.file(path).map(|file| file.id)
    }

    pub fn file(&self, path: &str) -> Option<Rc<FileNode>> {
        match self.slot(path).ok()?.node? {
            Node::File(file) => Some(file),
            Node::Dir(_) => None,
        }
    }

    pub fn free_bytes(&self, path: &str) -> Result<u64, Refused> {
        match self.dir(path) {
            Ok(dir) => Ok(dir.volume.free_bytes()),
            Err(refused) => match self.slot(path) {
                Ok(Slot { dir, node: Some(_), .. }) => Ok(dir.volume.free_bytes()),
                _ => Err(refused),
            },
        }
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<(), Refused> {
        let (from, to) = (self.slot(from)?, self.slot(to)?);
        let Some(Node::File(file)) = from.node.clone() else {
            return Err(if from.node.is_some() {
                (ErrorKind::Io, "only files can be renamed")
            } else {
                NO_ENTRY
            });
        };
        let replaced = match &to.node {
            Some(Node::Dir(_)) => return Err((ErrorKind::Io, "the new name is a directory")),
            Some(Node::File(old)) if Rc::ptr_eq(old, &file) => return Ok(()),
            Some(Node::File(old)) => Some(old.clone()),
            None => None,
        };
        if !Rc::ptr_eq(&from.dir.volume, &to.dir.volume) {
            return Err((ErrorKind::Io, "the new name is on another volume"));
        }
        self.change(SmallVec::from_iter([from.becomes(None), to.becomes(Some(Node::File(file)))]));
        if let Some(replaced) = replaced {
            self.unname(&replaced);
        }
        Ok(())
    }

    pub fn remove(&self, path: &str) -> Result<(), Refused> {
        let slot = self.slot(path)?;
        let node = slot.node.clone().ok_or(NO_ENTRY)?;
        if let Node::Dir(removed) = &node
            && !removed.visible.borrow().is_empty()
        {
            return Err((ErrorKind::Io, "the directory is not empty"));
        }
        self.change(SmallVec::from_iter([slot.becomes(None)]));
        if let Node::File(file) = node {
            self.unname(&file);
        }
        Ok(())
    }

    fn unname(&self, file: &FileNode) {
        file.named.set(false);
        file.release_if_gone();
        let mut leftovers = self.leftovers.borrow_mut();
        leftovers.extend(file.contents.borrow().leftovers(LEFTOVERS_MAX / 4));
        let excess = leftovers.len().saturating_sub(LEFTOVERS_MAX);
        leftovers.drain(..excess);
    }

    /// Number to pass to [`Self::sync_dir`], which covers everything done by now.
    pub fn sync_mark(&self) -> u64 {
        self.next_number.get()
    }

    /// Makes the names in `dir` durable as they were at `mark`, with every older change on which they depend.
    pub fn sync_dir(&self, dir: &Rc<Dir>, mark: u64) {
        for change in self.take_changes_of(dir, mark) {
            change.puts.iter().for_each(|put| put.apply_to(&put.dir.durable));
        }
    }

    /// Handles a failed directory sync: random choices keep or drop each change, and all count as clean.
    pub fn fail_sync_dir(&self, dir: &Rc<Dir>, mark: u64, dice: &mut Dice) {
        for change in self.take_changes_of(dir, mark) {
            if dice.survives_failed_sync() {
                Self::apply_if_possible(&change);
            }
        }
    }

    fn take_changes_of(&self, dir: &Rc<Dir>, mark: u64) -> Vec<NameChange> {
        let mut journal = self.journal.borrow_mut();
        let mut taken: Vec<NameChange> = Vec::new();
        // Backwards, so that a change is taken when a later one that is taken builds on it.
        for at in (0..journal.len()).rev() {
            let change = &journal[at];
            let is_of_dir = change.puts.iter().any(|put| Rc::ptr_eq(&put.dir, dir));
            let is_base = change
                .puts
                .iter()
                .any(|put| taken.iter().any(|later| later.puts.iter().any(|later| later.is_slot_of(put))));
            if change.number < mark && (is_of_dir || is_base) {
                taken.push(journal.remove(at));
            }
        }
        taken.reverse();
        taken
    }

    fn apply_if_possible(change: &NameChange) {
        if change.puts.iter().all(Put::is_possible) {
            change.puts.iter().for_each(|put| put.apply_to(&put.dir.durable));
        }
    }

    /// Handles a power cut on the disk. `in_flight` returns the writes in flight on a file.
    pub fn power_cut(
        &self,
        mut in_flight: impl FnMut(&FileNode) -> Vec<super::content::Change>,
        dice: &mut Dice,
    ) {
        for change in self.journal.take() {
            if dice.keeps_name() {
                Self::apply_if_possible(&change);
            }
        }
        let leftovers = self.leftovers.borrow();
        let mut dice = dice.with_leftovers(&leftovers);
        let mut lost = self.charged.borrow().clone();
        let mut used = BTreeMap::new();
        let mut dirs = vec![self.root.clone()];
        while let Some(dir) = dirs.pop() {
            *dir.visible.borrow_mut() = dir.durable.borrow().clone();
            used.entry(dir.volume.id).or_insert((dir.volume.clone(), 0));
            for node in dir.durable.borrow().values() {
                match node {
                    Node::Dir(child) => dirs.push(child.clone()),
                    Node::File(file) => {
                        lost.remove(&file.id);
                        let changes = in_flight(file);
                        file.contents.borrow_mut().power_cut(changes, &mut dice);
                        file.handles.set(0);
                        file.named.set(true);
                        let bytes = file.contents.borrow().size();
                        file.set_charged(bytes);
                        used.entry(file.volume.id).or_insert((file.volume.clone(), 0)).1 += bytes;
                    }
                }
            }
        }
        for (volume, bytes) in used.into_values() {
            volume.used_bytes.set(bytes);
        }
        // Files whose names are lost, and removed ones that were open, give their room back.
        self.charged.borrow_mut().retain(|file, _| !lost.contains_key(file));
        let gone = lost.into_iter().map(|(file, volume)| Resize { volume, file, bytes: 0, is_filled: false });
        self.root.volume.resized.borrow_mut().extend(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::{FaultCounts, PowerCut};
    use super::super::random::{self, Use};
    use super::*;

    #[test]
    fn a_power_cut_gives_back_the_room_of_every_file_that_it_ends() {
        let numbers = Numbers::default();
        let disk = Disk::new(&numbers, 1 << 20);
        disk.create_dir(&numbers, "/d", 1 << 20, false).unwrap();
        disk.sync_dir(&disk.dir("/").unwrap(), disk.sync_mark());
        let make = |path: &str| {
            let file = disk.open(&numbers, path, OpenMode::CreateNew).unwrap();
            file.add_handle();
            assert!(file.charge(4096));
            file
        };
        let [kept, removed] = ["/d/kept", "/d/removed"].map(make);
        disk.sync_dir(&disk.dir("/d").unwrap(), disk.sync_mark());
        disk.remove("/d/removed").unwrap();
        disk.sync_dir(&disk.dir("/d").unwrap(), disk.sync_mark());
        disk.create_dir(&numbers, "/e", 1 << 20, false).unwrap();
        let [nameless, without_volume] = ["/d/nameless", "/e/without_volume"].map(make);
        for file in [&kept, &removed, &nameless, &without_volume] {
            file.contents.borrow_mut().set_size(4096);
        }
        numbers.resized.take();
        let mut dice = Dice {
            chances: &PowerCut { lost_size: 0.0, ..PowerCut::lose_all() },
            random: &mut random::stream(1, Use::PowerCut, 0),
            counts: &mut FaultCounts::default(),
            decisions: &mut 0,
            leftovers: &[],
        };
        disk.power_cut(|_| Vec::new(), &mut dice);
        let told: Vec<_> = numbers.resized.take().iter().map(|resize| (resize.file, resize.bytes)).collect();
        assert_eq!(told, [&removed, &nameless, &without_volume].map(|file| (file.id, 0)));
        assert_eq!(disk.free_bytes("/d").unwrap(), (1 << 20) - 4096);
    }
}
