//! One simulated host as the code above sees it: [`Host`] and [`HostFile`] over the simulation's core.
//!
//! Operations on names and sizes take effect at once, in the call; reads, writes and syncs go through the storage
//! model. After its process has ended, an operation of a host never completes.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::disk::{FULL, FileNode};
use super::executor::Sleep;
use super::fault::{CrashPoint, FaultKind, OpKind, Verdict};
use super::requests::{Failure, Pending, RequestKind, explain};
use super::standstill::Suspends;
use super::{Core, HostId, hash_of_str};
use crate::{
    Bufs, Duration, Entry, ErrorKind, Host, HostConnection, HostFile, HostListener, IoTotals, LocalFuture,
    OpenMode, PageBuf, PageCodec, Passage, Result, SECTOR_BYTES, ShardStart, TemplatePages, Time, WallClock,
    World,
};

/// Process of a simulated host, as one shard sees it.
pub(super) struct SimHost {
    pub core: Rc<Core>,
    pub id: HostId,
    /// Number of the host's process start; objects of an earlier one are dead.
    pub incarnation: u32,
    /// Number of the machine's start.
    pub boot: u32,
    pub name: Rc<str>,
    pub started: Time,
    pub suspends: Rc<Suspends>,
    /// Number of the processor of the thread, as [`Host::in_lane`] gave it.
    pub lane: Option<u32>,
    pub random: Rc<RefCell<ChaCha8Rng>>,
    pub totals: Rc<Cell<IoTotals>>,
    /// Weak handle on this host, to start shards; a `World` always holds the host.
    pub this: std::rc::Weak<SimHost>,
}

/// Handling of an issued operation.
enum Issue {
    Go(Option<FaultKind>),
    /// The host crashes after the effect.
    GoThenDie,
    /// The host is dead; the operation never completes.
    Never,
}

impl SimHost {
    pub fn is_alive(&self) -> bool {
        self.core.is_alive(self.id, self.incarnation)
    }

    /// Counts and traces an operation, and decides its fate.
    fn issue(&self, kind: OpKind, path_hash: u64, offset: u64, bytes: u64) -> Issue {
        if !self.is_alive() {
            return Issue::Never;
        }
        self.core.trace_operation(self.id, kind as u64, path_hash, offset, bytes);
        let verdict = self.core.injector.borrow_mut().judge(kind);
        match verdict {
            Verdict::Fine => Issue::Go(None),
            Verdict::Fails(fault) => Issue::Go(Some(fault)),
            Verdict::Crashes(CrashPoint::After) => Issue::GoThenDie,
            Verdict::Crashes(CrashPoint::Before) => {
                self.core.let_die(self.id);
                Issue::Never
            }
        }
    }

    /// Operation that takes effect immediately.
    fn at_once<T: 'static>(
        &self,
        kind: OpKind,
        path: &str,
        operation: &str,
        effect: impl FnOnce(Option<FaultKind>) -> std::result::Result<T, Failure>,
    ) -> LocalFuture<'static, Result<T>> {
        let fault = match self.issue(kind, hash_of_str(path), 0, 0) {
            Issue::Go(fault) => fault,
            Issue::GoThenDie => {
                // Only the effect matters: no task waits for the result.
                let _ = effect(None);
                self.core.let_die(self.id);
                return Box::pin(pending());
            }
            Issue::Never => return Box::pin(pending()),
        };
        let result = if fault == Some(FaultKind::NameError) {
            self.core.count(FaultKind::NameError);
            Err((ErrorKind::Io, "injected I/O error"))
        } else {
            effect(fault)
        };
        Box::pin(ready(explain(result, path, || operation.into())))
    }

    /// Operation that takes storage time.
    fn request(
        self: &Rc<Self>,
        kind: OpKind,
        path_hash: u64,
        offset: u64,
        job: RequestKind,
        mut bufs: Bufs,
    ) -> Option<Pending> {
        let bytes = byte_count(&bufs);
        match self.issue(kind, path_hash, offset, bytes) {
            Issue::Never => None,
            Issue::Go(fault) => {
                let by = (self.id, self.lane);
                Some(Pending::new(self.core.clone(), self.core.submit(by, job, bufs, bytes, fault)))
            }
            Issue::GoThenDie => {
                let _ = self.core.perform(&job, &mut bufs, None);
                self.core.let_die(self.id);
                None
            }
        }
    }

    fn add_to_totals(&self, add: impl FnOnce(&mut IoTotals)) {
        let mut totals = self.totals.get();
        add(&mut totals);
        self.totals.set(totals);
    }
}

impl Host for SimHost {
    fn now(&self) -> Time {
        self.suspends.monotonic(self.core.executor.now(), self.started)
    }

    fn boot_time(&self) -> Time {
        Time { ns: self.core.executor.now().ns - self.started.ns }
    }

    fn wall_clock(&self) -> WallClock {
        self.core.wall_clock(self.id)
    }

    fn sleep_until(&self, at: Time) -> LocalFuture<'static, ()> {
        let (core, suspends, started) = (self.core.clone(), self.suspends.clone(), self.started);
        let sleep = move || Sleep::new(core.clone(), suspends.virtual_time(at, started));
        let (mut sleeping, core, suspends) = (sleep(), self.core.clone(), self.suspends.clone());
        Box::pin(async move {
            loop {
                sleeping.await;
                // A suspend has put the end off.
                if suspends.monotonic(core.executor.now(), started) >= at {
                    return;
                }
                sleeping = sleep();
            }
        })
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        if self.is_alive() {
            self.core.executor.spawn(self.id, task);
        }
    }

    fn spawn_shard(&self, index: usize, start: ShardStart) {
        let shard = self.core.host_handle(self.id, self.incarnation, index as u64 + 1);
        self.spawn(Box::pin(async move { start(World::new(shard)).await }));
    }

    fn in_lane(&self, lane: u32) -> Option<World> {
        Some(World::new(Rc::new_cyclic(|this| SimHost {
            core: self.core.clone(),
            name: self.name.clone(),
            suspends: self.suspends.clone(),
            lane: Some(lane),
            random: self.random.clone(),
            totals: self.totals.clone(),
            this: this.clone(),
            ..*self
        })))
    }

    fn operation_time(&self) -> Duration {
        let Some(lane) = self.lane else { return Duration::ZERO };
        self.core.model.borrow_mut().operation_time(self.core.executor.now(), &self.name, lane)
    }

    fn shards(&self) -> usize {
        self.core.shards
    }

    fn random_u64(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, path: &str, mode: OpenMode) -> LocalFuture<'static, Result<Rc<dyn HostFile>>> {
        let operation = if mode == OpenMode::CreateNew { "create" } else { "open" };
        self.at_once(OpKind::Open, path, operation, |_| {
            let node = self.core.disk(self.id).open(&self.core.numbers, path, mode)?;
            node.add_handle();
            let host = self.this.upgrade().ok_or((ErrorKind::Io, "the host is gone"))?;
            let file = SimFile { host, node, path: path.into(), path_hash: hash_of_str(path), mode };
            Ok(Rc::new(file) as Rc<dyn HostFile>)
        })
    }

    fn create_dir(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        self.at_once(OpKind::CreateDir, path, "create directory", |_| {
            self.core.create_dir(self.id, path, false)
        })
    }

    fn list(&self, path: &str) -> LocalFuture<'static, Result<Vec<Entry>>> {
        self.at_once(OpKind::List, path, "list", |_| self.core.disk(self.id).list(path))
    }

    fn entry(&self, path: &str) -> LocalFuture<'static, Result<Option<Entry>>> {
        self.at_once(OpKind::Entry, path, "look up", |_| self.core.disk(self.id).entry(path))
    }

    fn rename(&self, from: &str, to: &str) -> LocalFuture<'static, Result<()>> {
        let operation = format!("rename to {to}");
        self.at_once(OpKind::Rename, from, &operation, |_| self.core.disk(self.id).rename(from, to))
    }

    fn remove(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        self.at_once(OpKind::Remove, path, "remove", |_| self.core.disk(self.id).remove(path))
    }

    fn sync_dir(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        if !self.is_alive() {
            return Box::pin(pending());
        }
        let disk = self.core.disk(self.id);
        let path: Rc<str> = path.into();
        let dir = match disk.dir(&path) {
            Ok(dir) => dir,
            Err(refused) => return Box::pin(ready(explain(Err(refused), &path, || "sync directory".into()))),
        };
        let job = RequestKind::SyncDir { dir, mark: disk.sync_mark() };
        let Some(host) = self.this.upgrade() else { return Box::pin(pending()) };
        let Some(request) = host.request(OpKind::SyncDir, hash_of_str(&path), 0, job, Bufs::new()) else {
            return Box::pin(pending());
        };
        Box::pin(async move { explain(request.await.0, &path, || "sync directory".into()) })
    }

    fn free_bytes(&self, path: &str) -> LocalFuture<'static, Result<u64>> {
        self.at_once(OpKind::FreeBytes, path, "ask for free space of", |_| {
            self.core.disk(self.id).free_bytes(path)
        })
    }

    fn connect(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>> {
        match self.this.upgrade() {
            Some(host) if host.is_alive() => host.connect_to(address),
            _ => Box::pin(pending()),
        }
    }

    fn listen(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostListener>>> {
        match self.this.upgrade() {
            Some(host) if host.is_alive() => Box::pin(ready(host.listen_on(address))),
            _ => Box::pin(pending()),
        }
    }

    fn io_totals(&self) -> IoTotals {
        self.totals.get()
    }

    fn describe(&self) -> String {
        "simulated storage in virtual time".into()
    }
}

struct SimFile {
    host: Rc<SimHost>,
    node: Rc<FileNode>,
    path: Rc<str>,
    path_hash: u64,
    mode: OpenMode,
}

const READ_ONLY: Failure = (ErrorKind::PermissionDenied, "the file is open for reading only");
const NOT_WHOLE_SECTORS: Failure = (ErrorKind::Io, "not a whole number of sectors");

fn byte_count(bufs: &Bufs) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

impl SimFile {
    fn transfer(
        &self,
        kind: OpKind,
        offset: u64,
        job: RequestKind,
        bufs: Bufs,
    ) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        match self.host.request(kind, self.path_hash, offset, job, bufs) {
            Some(request) => {
                let (host, path) = (self.host.clone(), self.path.clone());
                Box::pin(Transfer { host, request, kind, offset, path })
            }
            None => Box::pin(pending()),
        }
    }
}

/// Read or write of a file in progress.
struct Transfer {
    host: Rc<SimHost>,
    request: Pending,
    kind: OpKind,
    offset: u64,
    path: Rc<str>,
}

impl Future for Transfer {
    type Output = (Result<Passage>, Bufs);
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (result, bufs) = ready!(Pin::new(&mut self.request).poll(cx));
        let (bytes, is_read) = (byte_count(&bufs), self.kind == OpKind::Read);
        if result.is_ok() {
            self.host.add_to_totals(|totals| {
                let (count, total_bytes) = match is_read {
                    true => (&mut totals.reads, &mut totals.read_bytes),
                    false => (&mut totals.writes, &mut totals.write_bytes),
                };
                *count += 1;
                *total_bytes += bytes;
            });
        }
        let operation = || match is_read {
            true => format!("read {bytes} bytes at {} of", self.offset),
            false => format!("write {bytes} bytes at {} of", self.offset),
        };
        Poll::Ready((explain(result, &self.path, operation).map(|()| Passage::default()), bufs))
    }
}

impl HostFile for SimFile {
    fn read_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        if !offset.is_multiple_of(SECTOR_BYTES as u64) {
            let result = explain(Err(NOT_WHOLE_SECTORS), &self.path, || format!("read at {offset} of"));
            return Box::pin(ready((result, bufs)));
        }
        self.transfer(OpKind::Read, offset, RequestKind::Read { file: self.node.clone(), offset }, bufs)
    }

    fn write_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        let refusal = match offset.is_multiple_of(SECTOR_BYTES as u64) {
            _ if self.mode == OpenMode::Read => Some(READ_ONLY),
            true => None,
            false => Some(NOT_WHOLE_SECTORS),
        };
        if let Some(refusal) = refusal {
            let result = explain(Err(refusal), &self.path, || format!("write at {offset} of"));
            return Box::pin(ready((result, bufs)));
        }
        self.transfer(OpKind::Write, offset, RequestKind::Write { file: self.node.clone(), offset }, bufs)
    }

    fn sync(&self) -> LocalFuture<'static, Result<Passage>> {
        let mark = self.node.contents.borrow().sync_mark();
        let job = RequestKind::Sync { file: self.node.clone(), mark };
        let Some(request) = self.host.request(OpKind::Sync, self.path_hash, 0, job, Bufs::new()) else {
            return Box::pin(pending());
        };
        let (host, path) = (self.host.clone(), self.path.clone());
        Box::pin(async move {
            let (result, _) = request.await;
            if result.is_ok() {
                host.add_to_totals(|totals| totals.syncs += 1);
            }
            explain(result, &path, || "sync".into()).map(|()| Passage::default())
        })
    }

    fn size(&self) -> LocalFuture<'static, Result<u64>> {
        self.host.at_once(OpKind::Size, &self.path, "ask for the size of", |_| {
            Ok(self.node.contents.borrow().size())
        })
    }

    fn set_size(&self, bytes: u64) -> LocalFuture<'static, Result<()>> {
        let operation = format!("set the size to {bytes} bytes of");
        self.host.at_once(OpKind::SetSize, &self.path, &operation, |fault| {
            if self.mode == OpenMode::Read {
                return Err(READ_ONLY);
            }
            if !bytes.is_multiple_of(SECTOR_BYTES as u64) {
                return Err(NOT_WHOLE_SECTORS);
            }
            if fault == Some(FaultKind::NoSpace) {
                self.host.core.count(FaultKind::NoSpace);
                return Err(FULL);
            }
            if !self.node.charge(bytes) {
                return Err(FULL);
            }
            self.node.contents.borrow_mut().set_size(bytes);
            Ok(())
        })
    }

    fn adopt_template(
        &self,
        template: Rc<dyn TemplatePages>,
        codec: Rc<dyn PageCodec>,
    ) -> LocalFuture<'static, Result<bool>> {
        self.host.at_once(OpKind::AdoptTemplate, &self.path, "adopt a template for", |_| {
            if self.mode == OpenMode::Read {
                return Err(READ_ONLY);
            }
            if !self.node.charge(template.pages() * template.page_bytes() as u64) {
                return Err(FULL);
            }
            self.node.contents.borrow_mut().adopt(template, codec);
            self.node.set_filled();
            Ok(true)
        })
    }

    fn keep_like(&self, path: &str) {
        let Some(like) = self.host.core.disk(self.host.id).file(path) else { return };
        if !Rc::ptr_eq(&like, &self.node) {
            self.node.contents.borrow_mut().keep_like(&like.contents.borrow());
        }
    }

    fn packs_pages(&self) -> bool {
        self.host.core.packs_pages
    }

    fn pack(&self, index: u64, page: &mut PageBuf) {
        self.node.contents.borrow().pack(index, page);
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        // A power cut has already taken the handles away.
        if self.host.core.is_on(self.host.id, self.host.boot) {
            self.node.drop_handle();
        }
    }
}
