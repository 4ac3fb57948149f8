//! The [`Host`] of one thread.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::ClockId;

use super::file::RealFile;
use super::hold::{HeldFile, PATIENCE};
use super::names;
use super::ops::{Ops, give_way};
use super::shared::{Counters, RealRun};
use super::usage::{self, clock};
use crate::{
    DeviceUsage, Entry, Host, HostConnection, HostFile, HostListener, HostUsage, IoTotals, Lapse,
    LocalFuture, OpenMode, Result, ShardStart, Time, WallClock, Work,
};

/// World of one thread on the real machine.
pub(super) struct RealHost {
    run: Arc<RealRun>,
    ops: Rc<Ops>,
    counters: Arc<Counters>,
    random: RefCell<ChaCha12Rng>,
    driver: &'static str,
}

impl RealHost {
    /// Creates the host of the current thread. `driver`: name of its runtime's I/O driver.
    pub fn new(run: &Arc<RealRun>, ops: &Rc<Ops>, driver: &'static str) -> io::Result<RealHost> {
        Ok(RealHost {
            run: run.clone(),
            ops: ops.clone(),
            counters: run.new_counters(),
            random: RefCell::new(ChaCha12Rng::from_seed(seed()?)),
            driver,
        })
    }

    /// Runs a blocking call with the path on the thread pool.
    fn blocking<T: Send + 'static>(
        &self,
        path: &str,
        call: impl FnOnce(&str) -> Result<T> + Send + 'static,
    ) -> LocalFuture<'static, Result<T>> {
        let (ops, path) = (self.ops.clone(), path.to_owned());
        Box::pin(async move { ops.blocking(move || call(&path)).await })
    }
}

fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    // Up to 256 bytes come whole once the pool is ready.
    while retry_on_intr(|| getrandom(&mut seed, GetRandomFlags::empty()))? < seed.len() {}
    Ok(seed)
}

impl Host for RealHost {
    fn now(&self) -> Time {
        Time { ns: self.run.started.elapsed().as_nanos() as u64 }
    }

    fn boot_time(&self) -> Time {
        let since_start = clock(ClockId::Boottime).saturating_sub(self.run.started_boot_time);
        Time { ns: since_start.as_nanos() as u64 }
    }

    fn wall_clock(&self) -> WallClock {
        let unix_ms = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => after.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        };
        WallClock { unix_ms }
    }

    fn sleep_until(&self, at: Time) -> LocalFuture<'static, ()> {
        match self.run.started.checked_add(Duration::from_nanos(at.ns)) {
            // A timer that has expired would not let other tasks go first.
            Some(deadline) if deadline <= Instant::now() => Box::pin(give_way()),
            Some(deadline) => Box::pin(compio::time::sleep_until(deadline)),
            None => Box::pin(std::future::pending()),
        }
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        self.run.spawn_watched(task);
    }

    fn spawn_shard(&self, index: usize, start: ShardStart) {
        self.run.start_on_shard(index, start);
    }

    fn compute(&self, work: Work) -> LocalFuture<'static, ()> {
        let ops = self.ops.clone();
        Box::pin(async move { ops.blocking(work).await })
    }

    fn hand_over(&self) {
        self.ops.hand_over();
    }

    fn shards(&self) -> usize {
        self.run.config.shards
    }

    fn random_u64(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    fn name(&self) -> &str {
        &self.run.config.host_name
    }

    fn open(&self, path: &str, mode: OpenMode) -> LocalFuture<'static, Result<Rc<dyn HostFile>>> {
        let direct = self.run.config.direct;
        let opened = self.blocking(path, move |path| {
            HeldFile::new(names::open(path, mode, direct)?, path, mode, PATIENCE)
        });
        let (path, ops, counters) = (path.to_owned(), self.ops.clone(), self.counters.clone());
        let run = self.run.clone();
        Box::pin(async move {
            let file = RealFile::new(opened.await?, path, ops, counters);
            run.modes.files.add();
            if file.is_in_memory() {
                run.modes.files_in_memory.add();
            }
            let file: Rc<dyn HostFile> = Rc::new(file);
            Ok(file)
        })
    }

    fn create_dir(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        self.blocking(path, names::create_dir)
    }

    fn list(&self, path: &str) -> LocalFuture<'static, Result<Vec<Entry>>> {
        self.blocking(path, names::list)
    }

    fn entry(&self, path: &str) -> LocalFuture<'static, Result<Option<Entry>>> {
        self.blocking(path, names::entry)
    }

    fn rename(&self, from: &str, to: &str) -> LocalFuture<'static, Result<()>> {
        let to = to.to_owned();
        self.blocking(from, move |from| names::rename(from, &to))
    }

    fn remove(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        self.blocking(path, names::remove)
    }

    fn sync_dir(&self, path: &str) -> LocalFuture<'static, Result<()>> {
        self.blocking(path, names::sync_dir)
    }

    fn free_bytes(&self, path: &str) -> LocalFuture<'static, Result<u64>> {
        self.blocking(path, names::free_bytes)
    }

    fn device_usage(&self, path: &str) -> LocalFuture<'static, Result<Option<DeviceUsage>>> {
        self.blocking(path, usage::of_device)
    }

    fn connect(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>> {
        super::net::connect(address)
    }

    fn listen(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostListener>>> {
        super::net::listen(address)
    }

    fn io_totals(&self) -> IoTotals {
        self.run.io_totals()
    }

    fn describe(&self) -> String {
        let mode =
            if self.run.config.direct { "direct (O_DIRECT)" } else { "buffered (through the page cache)" };
        format!("{}, {mode}{}", self.driver, self.run.modes.describe())
    }

    fn thread_cpu(&self) -> Option<Duration> {
        Some(usage::clock(ClockId::ThreadCPUTime))
    }

    fn host_usage(&self) -> Option<HostUsage> {
        usage::of_host(self.run.clocks.late())
    }

    fn lapses(&self) -> Vec<Lapse> {
        self.run.clocks.take_lapses()
    }
}
