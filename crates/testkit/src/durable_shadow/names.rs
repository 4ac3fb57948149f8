//! The names that are seen, and the changes that have yet to reach the real directories.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, linkat};

use super::node::Node;
use super::power_cut::Unkindness;
use super::shared::Shared;
use world::real::failed;
use world::real::names as real;
use world::{Entry, Error, ErrorKind, OpenMode, Result};

/// State of a path that may differ from the real directory, or at which files are open.
pub(super) enum Slot {
    File(Rc<Node>),
    Dir,
    Gone,
}

pub(super) enum Change {
    Create { path: String, node: Rc<Node> },
    CreateDir { path: String },
    Rename { from: String, to: String },
    Remove { path: String },
}

impl Change {
    fn paths(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Change::Create { path, .. } | Change::CreateDir { path } | Change::Remove { path } => {
                (path, None)
            }
            Change::Rename { from, to } => (from, Some(to)),
        };
        std::iter::once(first).chain(second).map(String::as_str)
    }

    /// Name that the change creates.
    fn gives(&self) -> Option<&str> {
        match self {
            Change::Create { path, .. } | Change::CreateDir { path } => Some(path),
            Change::Rename { to, .. } => Some(to),
            Change::Remove { .. } => None,
        }
    }

    /// Name that must exist before the change.
    fn takes(&self) -> Option<&str> {
        match self {
            Change::Rename { from, .. } => Some(from),
            Change::Create { .. } | Change::CreateDir { .. } | Change::Remove { .. } => None,
        }
    }

    fn mentions(&self, path: &str) -> bool {
        self.paths().any(|mentioned| mentioned == path)
    }

    fn apply(&self) -> Result<()> {
        match self {
            Change::Create { path, node } => link(node.real(), path),
            Change::CreateDir { path } => real::create_dir(path),
            Change::Rename { from, to } => real::rename(from, to),
            Change::Remove { path } => real::remove(path),
        }
    }
}

/// Names of files as the program sees them, with the changes that are not durable (see the module).
#[derive(Default)]
pub(super) struct Names {
    pub(super) seen: BTreeMap<String, Slot>,
    /// Changes in their order; `true` once `sync_dir` has asked for the change.
    pub(super) changes: Vec<(Change, bool)>,
}

impl Names {
    /// Opens the file that the program sees at `path`.
    pub fn open(&mut self, path: &str, mode: OpenMode) -> Result<Rc<Node>> {
        match self.seen.get(path) {
            Some(Slot::File(node)) => return Ok(node.clone()),
            Some(Slot::Gone) => return Err(error(ErrorKind::NotFound, "open", path)),
            Some(Slot::Dir) => return Err(error(ErrorKind::Io, "open as a file", path)),
            None => {}
        }
        // Another handle may write, so the node is writable even if this one is not, where that is allowed.
        let opened = match real::open(path, OpenMode::ReadWrite, false) {
            Err(error) if error.kind == ErrorKind::PermissionDenied && mode == OpenMode::Read => {
                real::open(path, mode, false)
            }
            opened => opened,
        };
        let node = Node::new(opened?).map_err(|cause| failed("open", path, &cause))?;
        Ok(self.see(path, Rc::new(node)))
    }

    /// Creates a file whose name does not exist on the real disk yet.
    pub fn create(&mut self, path: &str) -> Result<Rc<Node>> {
        self.check_free(path)?;
        let nameless = nameless(Path::new(existing_ancestor(path))).and_then(Node::new);
        let node = Rc::new(nameless.map_err(|cause| failed("create", path, &cause))?);
        self.changes.push((Change::Create { path: path.into(), node: node.clone() }, false));
        Ok(self.see(path, node))
    }

    pub fn create_dir(&mut self, path: &str) -> Result<()> {
        self.check_free(path)?;
        self.seen.insert(path.into(), Slot::Dir);
        self.changes.push((Change::CreateDir { path: path.into() }, false));
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let node = self.open(from, OpenMode::ReadWrite)?;
        if self.entry(parent(to))?.is_none() {
            return Err(error(ErrorKind::NotFound, "rename into", parent(to)));
        }
        self.seen.insert(from.into(), Slot::Gone);
        self.seen.insert(to.into(), Slot::File(node));
        self.changes.push((Change::Rename { from: from.into(), to: to.into() }, false));
        Ok(())
    }

    pub fn remove(&mut self, path: &str) -> Result<()> {
        match self.entry(path)? {
            None => return Err(error(ErrorKind::NotFound, "remove", path)),
            Some(entry) if entry.is_dir && !self.list(path)?.is_empty() => {
                let reason = io::Error::from_raw_os_error(libc::ENOTEMPTY);
                return Err(failed("remove", path, &reason));
            }
            Some(_) => {}
        }
        self.seen.insert(path.into(), Slot::Gone);
        self.changes.push((Change::Remove { path: path.into() }, false));
        Ok(())
    }

    pub fn entry(&self, path: &str) -> Result<Option<Entry>> {
        match self.seen.get(path) {
            Some(slot) => Ok(slot.entry(path)),
            None => real::entry(path),
        }
    }

    pub fn list(&self, path: &str) -> Result<Vec<Entry>> {
        let entries = match self.seen.get(path) {
            Some(Slot::Gone) => return Err(error(ErrorKind::NotFound, "list", path)),
            Some(Slot::Dir) if !Path::new(path).exists() => Vec::new(),
            _ => real::list(path)?,
        };
        let mut entries =
            entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect::<BTreeMap<_, _>>();
        for (seen, slot) in self.seen.iter().filter(|(seen, _)| parent(seen) == path) {
            match slot.entry(seen) {
                Some(entry) => entries.insert(entry.name.clone(), entry),
                None => entries.remove(name(seen)),
            };
        }
        Ok(entries.into_values().collect())
    }

    /// Marks the changes in `dir`, and earlier ones on which they depend, as asked for by a directory sync.
    pub fn mark_synced(&mut self, dir: &str) -> Result<()> {
        if !self.entry(dir)?.is_some_and(|entry| entry.is_dir) {
            return Err(error(ErrorKind::NotFound, "sync directory", dir));
        }
        let mut needed = Vec::<String>::new();
        for (change, synced) in self.changes.iter_mut().rev() {
            let wanted = *synced
                || change.paths().any(|path| parent(path) == dir || needed.iter().any(|need| need == path));
            if wanted {
                *synced = true;
                needed.extend(change.paths().map(str::to_owned));
            }
        }
        Ok(())
    }

    /// Applies the next change that a directory sync asked for to the real disk; `false` if there is none.
    ///
    /// Names in a directory whose own name is not durable wait for it: a power cut would lose them with it.
    pub fn apply_next(&mut self) -> Result<bool> {
        let next = self.changes.iter().position(|(change, synced)| {
            *synced && change.paths().all(|path| Path::new(parent(path)).is_dir())
        });
        let Some(next) = next else { return Ok(false) };
        let (change, _) = self.changes.remove(next);
        change.apply()?;
        Ok(true)
    }

    /// Files that the program sees.
    pub fn nodes(&self) -> impl Iterator<Item = &Rc<Node>> {
        self.seen.values().filter_map(|slot| match slot {
            Slot::File(node) => Some(node),
            Slot::Dir | Slot::Gone => None,
        })
    }

    /// Decides which changes of names survive a power cut, and applies them.
    pub fn lose(&self, shared: &Shared, unkindness: &Unkindness) {
        let mut surviving = Vec::new();
        let mut needed = None;
        for (number, (change, _)) in self.changes.iter().rev().enumerate() {
            let survives = if unkindness.newest_name_only {
                number == 0 || needed.is_some() && needed == change.gives()
            } else {
                shared.below(100) < unkindness.pieces.survives_percent
            };
            if survives {
                needed = change.takes();
                surviving.push(change);
            }
        }
        for change in surviving.into_iter().rev() {
            // Without a change that is lost this one may be impossible: it is lost then, too.
            let _ = change.apply();
        }
    }

    /// Drops entries that equal the real directory.
    pub fn forget_clean(&mut self) {
        let changes = &self.changes;
        self.seen.retain(|path, slot| {
            let in_use = match slot {
                Slot::File(node) => Rc::strong_count(node) > 1 || !node.is_clean(),
                Slot::Dir | Slot::Gone => false,
            };
            in_use || changes.iter().any(|(change, _)| change.mentions(path))
        });
    }

    fn see(&mut self, path: &str, node: Rc<Node>) -> Rc<Node> {
        self.seen.insert(path.into(), Slot::File(node.clone()));
        node
    }

    fn check_free(&self, path: &str) -> Result<()> {
        if self.entry(path)?.is_some() {
            return Err(error(ErrorKind::AlreadyExists, "create", path));
        }
        match self.entry(parent(path))? {
            Some(entry) if entry.is_dir => Ok(()),
            _ => Err(error(ErrorKind::NotFound, "create", path)),
        }
    }
}

impl Slot {
    fn entry(&self, path: &str) -> Option<Entry> {
        let (bytes, is_dir) = match self {
            Slot::File(node) => (node.bytes(), false),
            Slot::Dir => (0, true),
            Slot::Gone => return None,
        };
        Some(Entry { name: name(path).into(), bytes, is_dir })
    }
}

/// Creates a file without a name in this directory.
pub(super) fn nameless(directory: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(directory)
}

/// Nearest existing real directory above `path`, or `path` itself.
pub(super) fn existing_ancestor(path: &str) -> &str {
    let mut ancestor = path;
    while !Path::new(ancestor).is_dir() && parent(ancestor) != ancestor {
        ancestor = parent(ancestor);
    }
    ancestor
}

/// Gives a file without a name its name on the real disk.
fn link(file: &fs::File, path: &str) -> Result<()> {
    let link = || -> io::Result<()> {
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    };
    link().map_err(|cause| failed("create", path, &cause))
}

fn error(kind: ErrorKind, operation: &str, path: &str) -> Error {
    let reason = match kind {
        ErrorKind::NotFound => "no such file or directory",
        ErrorKind::AlreadyExists => "the name is taken",
        _ => "it is a directory",
    };
    Error { kind, operation: operation.into(), path: path.into(), reason: reason.into() }
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => ".",
    }
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
