//! A decorator for kill tests: the real files hold only what is durable, everything else lives in this process.
//!
//! Purpose: a SIGKILL of the process then loses what a power cut of the machine would lose, without cutting power.
//!
//! Invariants
//! 1. Writes and sizes reach the real file at [`HostFile::sync`] (or by chance before it, see
//!    [`ShadowOptions::early_write_percent`]); names reach the real directory at `sync_dir`.
//! 2. Everything that is read, listed or looked up is as if it had all been done.
//! 3. A file whose name is not durable is lost with its synced contents.
//! 4. Changes of names become durable in the order in which they were made, as far as they concern the same names; a
//!    power cut ([`PowerSwitch`]) knows no order.
//!
//! A process can also end alone and leave what is not durable to the next one (`left`).
//!
//! Limits: against the death of the process, not of the machine (the real files are not synced). One thread's view:
//! shards must not share files. Only files can be renamed. Needs a file system with `O_TMPFILE`.

mod file;
mod left;
mod names;
mod node;
mod power_cut;
mod power_switch;
mod shared;

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;

use futures_util::lock::Mutex;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;

use self::file::ShadowFile;
use self::names::Names;
pub use self::power_cut::{DiskEvent, Pieces, PowerCut};
pub use self::power_switch::PowerSwitch;
pub use self::shared::ShadowOptions;
use self::shared::{Shared, turn};
use world::{
    Entry, Host, HostConnection, HostFile, HostListener, IoTotals, LocalFuture, OpenMode, Result, ShardStart,
    Time, WallClock, Work, World,
};

/// Test host whose unsynced writes, names and sizes live in memory only (see the [module](self)).
pub struct ShadowHost {
    inner: Rc<dyn Host>,
    shared: Rc<Shared>,
    names: Rc<RefCell<Names>>,
    syncing_names: Rc<Mutex<()>>,
    power: PowerSwitch,
}

impl ShadowHost {
    /// Decorates `inner`. Use [`World::host`] for it, and [`World::new`] with the result.
    pub fn new(inner: Rc<dyn Host>, options: ShadowOptions) -> ShadowHost {
        ShadowHost::seeing(Names::default(), inner, options)
    }

    /// Decorates a host over the leftovers of a process that ended alone ([`PowerSwitch::arm_process_end`]). This
    /// process reads them, and what it does not sync is lost when the power fails. Removes the file of leftovers.
    ///
    /// # Errors
    /// If the file, or a real one that it names, cannot be read.
    pub fn take_up(left: &Path, inner: Rc<dyn Host>, options: ShadowOptions) -> io::Result<ShadowHost> {
        Ok(ShadowHost::seeing(Names::take_up(left)?, inner, options))
    }

    /// Creates the host with these visible names.
    fn seeing(names: Names, inner: Rc<dyn Host>, options: ShadowOptions) -> ShadowHost {
        let shared = Rc::new(Shared {
            inner: inner.clone(),
            options,
            random: RefCell::new(ChaCha12Rng::seed_from_u64(options.seed)),
            totals: Cell::default(),
            cut: Cell::default(),
            leaves: RefCell::default(),
        });
        let names = Rc::new(RefCell::new(names));
        let power = PowerSwitch { shared: shared.clone(), names: names.clone() };
        ShadowHost { inner, shared, names, syncing_names: Rc::default(), power }
    }

    /// Switch that ends the process as a power cut would.
    pub fn power_switch(&self) -> PowerSwitch {
        self.power.clone()
    }

    /// Reads or changes the table of directory entries in one step that no power cut divides.
    fn with_names<T: 'static>(
        &self,
        work: impl FnOnce(&mut Names) -> Result<T> + 'static,
    ) -> LocalFuture<'static, Result<T>> {
        let names = self.names.clone();
        Box::pin(async move {
            turn().await;
            work(&mut names.borrow_mut())
        })
    }

    /// Changes directory entries (create, rename, delete) in one step that no power cut divides.
    fn change_names<T: 'static>(
        &self,
        work: impl FnOnce(&mut Names) -> Result<T> + 'static,
    ) -> LocalFuture<'static, Result<T>> {
        let (changed, power) = (self.with_names(work), self.power.clone());
        Box::pin(async move {
            let changed = changed.await;
            power.event(DiskEvent::Name);
            changed
        })
    }
}

impl Host for ShadowHost {
    fn now(&self) -> Time {
        self.inner.now()
    }

    fn boot_time(&self) -> Time {
        self.inner.boot_time()
    }

    fn wall_clock(&self) -> WallClock {
        self.inner.wall_clock()
    }

    fn sleep_until(&self, at: Time) -> LocalFuture<'static, ()> {
        self.inner.sleep_until(at)
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        self.inner.spawn(task)
    }

    fn spawn_shard(&self, index: usize, start: ShardStart) {
        let mut options = self.shared.options;
        options.seed = options.seed.wrapping_add(1 + index as u64);
        self.inner.spawn_shard(
            index,
            Box::new(move |world: World| {
                start(World::new(Rc::new(ShadowHost::new(world.host().clone(), options))))
            }),
        )
    }

    fn compute(&self, work: Work) -> LocalFuture<'static, ()> {
        self.inner.compute(work)
    }

    fn hand_over(&self) {
        self.inner.hand_over();
    }

    fn shards(&self) -> usize {
        self.inner.shards()
    }

    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn open(&self, path: &str, mode: OpenMode) -> LocalFuture<'static, Result<Rc<dyn HostFile>>> {
        let (path, shared, power) = (path.to_owned(), self.shared.clone(), self.power.clone());
        let open = move |names: &mut Names| {
            let node = match mode {
                OpenMode::CreateNew => names.create(&path)?,
                OpenMode::Read | OpenMode::ReadWrite => names.open(&path, mode)?,
            };
            let file: Rc<dyn HostFile> = Rc::new(ShadowFile::new(node, &path, mode, shared, power));
            Ok(file)
        };
        match mode {
            OpenMode::CreateNew => self.change_names(open),
            OpenMode::Read | OpenMode::ReadWrite => self.with_names(open),
        }
    }

    fn create_dir(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        let path = path.to_owned();
        self.change_names(move |names| names.create_dir(&path))
    }

    fn list(&self, path: &str) -> LocalFuture<'static, Result<Vec<Entry>>> {
        let path = path.to_owned();
        self.with_names(move |names| names.list(&path))
    }

    fn entry(&self, path: &str) -> LocalFuture<'static, Result<Option<Entry>>> {
        let path = path.to_owned();
        self.with_names(move |names| names.entry(&path))
    }

    fn rename(&self, from: &str, to: &str) -> LocalFuture<'static, Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.change_names(move |names| names.rename(&from, &to))
    }

    fn remove(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        let path = path.to_owned();
        self.change_names(move |names| names.remove(&path))
    }

    fn sync_dir(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        let (path, names, shared) = (path.to_owned(), self.names.clone(), self.shared.clone());
        let (turns, power) = (self.syncing_names.clone(), self.power.clone());
        if shared.ignores_sync() {
            return self.with_names(|_| Ok(()));
        }
        self.shared.finish(async move {
            let _turn = turns.lock().await;
            names.borrow_mut().mark_synced(&path)?;
            loop {
                shared.pause().await;
                power.event(DiskEvent::SyncDir);
                if !names.borrow_mut().apply_next()? {
                    break;
                }
            }
            names.borrow_mut().forget_clean();
            Ok(())
        })
    }

    fn free_bytes(&self, path: &str) -> LocalFuture<'static, Result<u64>> {
        self.inner.free_bytes(names::existing_ancestor(path))
    }

    fn connect(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>> {
        self.inner.connect(address)
    }

    fn listen(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostListener>>> {
        self.inner.listen(address)
    }

    fn io_totals(&self) -> IoTotals {
        self.shared.totals.get()
    }

    fn describe(&self) -> String {
        format!("kill-test shadow of {}", self.inner.describe())
    }
}

#[cfg(test)]
mod tests;
