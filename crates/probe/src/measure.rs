//! Measures points in a world: a closed loop, or Poisson arrivals, on files of its own, one point after the other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hdrhistogram::Histogram;
use world::{
    Bufs, Duration, Error, ErrorKind, File, OpenMode, PageBuf, PageCodec, SECTOR_BYTES, Task, TemplatePages,
    Time, World,
};

use crate::point::{Latency, Load, Pattern, Point, Row};

/// Name of the file that a probe reads and writes in each of its folders.
pub const FILE: &str = "probe.dat";
/// Time before the measured part of a point, in which caches and queues fill.
const SETTLE: Duration = Duration::from_secs(1);
/// Measured time of a point.
const WINDOW: Duration = Duration::from_secs(4);
/// Time that one point takes, s.
pub const POINT_SECONDS: u64 = SETTLE.as_secs() + WINDOW.as_secs();
/// Upper end of the latency histogram; longer latencies count as this one.
const LONGEST: Duration = Duration::from_secs(600);
/// Size of the writes that fill the file, bytes, and the number of outstanding ones.
const MAKING: (usize, u64) = (1 << 20, 8);
/// Size of the reads that warm caches, bytes, and the number of outstanding ones in each file.
const WARMING: (u64, u64) = (64 << 10, 32);
/// Reads that show whether the storage is idle: their size in bytes, the number in a sample, and the longest wait.
const RESTING: (u64, u32, Duration) = (4096, 16, Duration::from_secs(60));
/// Largest ratio of the latency of such reads to that before the first point at which the storage counts as idle.
const REST: f64 = 1.5;
/// Largest number of outstanding operations of an open loop; beyond it the storage does not keep up.
const OPEN_MOST: usize = 1024;
/// Largest share by which the two halves of a steady window may differ, and an open loop may be behind its arrivals, in
/// addition to chance.
const STEADY: f64 = 0.1;

/// Files that a probe reads and writes.
pub struct Ground {
    files: Vec<File>,
    file_bytes: u64,
    /// Mean latency of single reads before the first point.
    rest: Cell<Option<Duration>>,
}

impl Ground {
    /// Creates and fills a file in each of these folders.
    ///
    /// # Errors
    /// A folder has such a file, or has no space for it.
    pub async fn make(world: &World, folders: &[String], file_bytes: u64) -> world::Result<Ground> {
        let file_bytes = file_bytes / MAKING.0 as u64 * MAKING.0 as u64;
        let mut files = Vec::new();
        for folder in folders {
            let file = world.open(&format!("{folder}/{FILE}"), OpenMode::CreateNew).await?;
            let content = Rc::new(Stamped { pages: file_bytes / SECTOR_BYTES as u64, body: body() });
            if !file.adopt_template(content.clone(), content).await? {
                fill(world, &file, file_bytes).await?;
            }
            world.sync_dir(folder).await?;
            files.push(file);
        }
        Ok(Ground { files, file_bytes, rest: Cell::new(None) })
    }

    /// Reads every place of the files once in scattered order, so that caches of the storage fill. Stops at `until` in
    /// any case.
    ///
    /// # Errors
    /// A read fails.
    pub async fn warm(&self, world: &World, until: Time) -> world::Result<()> {
        let blocks = self.file_bytes / WARMING.0;
        let places =
            self.files.iter().flat_map(|file| (0..WARMING.1).map(move |first| (file.clone(), first)));
        let readers = places.map(|(file, first)| {
            let clock = world.clone();
            world.spawn(async move {
                let mut bufs: Bufs = std::iter::once(PageBuf::empty(WARMING.0 as usize)).collect();
                let own = (first..blocks).step_by(WARMING.1 as usize);
                for block in own.take_while(|_| clock.now() < until) {
                    let (outcome, back) = file.read_at(scattered(block, blocks) * WARMING.0, bufs).await;
                    outcome?;
                    bufs = back;
                }
                Ok(())
            })
        });
        all(readers.collect()).await
    }

    /// Waits until the storage has written its caches out. Single reads then take about as long as before the first
    /// point. Waits at most a minute, or until `ends` returns true.
    ///
    /// # Errors
    /// A read fails.
    pub async fn rest(&self, world: &World, ends: &dyn Fn(&World) -> bool) -> world::Result<()> {
        let (bytes, sample, longest) = RESTING;
        let mut bufs: Bufs = std::iter::once(PageBuf::empty(bytes as usize)).collect();
        let began = world.now();
        loop {
            let started = world.now();
            for number in 0..sample {
                let file = &self.files[number as usize % self.files.len()];
                let block = world.random_u64() % (self.file_bytes / bytes);
                let (outcome, back) = file.read_at(block * bytes, bufs).await;
                outcome?;
                bufs = back;
            }
            let mean = (world.now() - started) / sample;
            let Some(before) = self.rest.get() else {
                self.rest.set(Some(mean));
                return Ok(());
            };
            if mean <= before.mul_f64(REST) || world.now() - began > longest || ends(world) {
                return Ok(());
            }
        }
    }

    /// Removes the files of the probe.
    ///
    /// # Errors
    /// The storage refuses.
    pub async fn remove(self, world: &World) -> world::Result<()> {
        let paths: Vec<String> = self.files.iter().map(|file| file.path().to_owned()).collect();
        drop(self);
        for path in paths {
            world.remove(&path).await?;
        }
        Ok(())
    }

    /// Measures the storage at one point of load.
    ///
    /// # Errors
    /// An operation fails, or it is a point that cannot be measured.
    pub async fn measure(&self, world: &World, point: Point) -> world::Result<Row> {
        self.check(&point)?;
        let begin = world.now() + SETTLE;
        let tally = Rc::new(Tally {
            begin,
            end: begin + WINDOW,
            reads: RefCell::new(histogram()),
            writes: RefCell::new(histogram()),
            first_half: Cell::new(0),
            keeps_up: Cell::new(true),
            stamp: Cell::new(world.random_u64()),
            cursor: Cell::new(world.random_u64() % (self.file_bytes / point.block_bytes)),
        });
        let worker = |number: u64| {
            let file = self.files[number as usize % self.files.len()].clone();
            Worker { world: world.clone(), file, file_bytes: self.file_bytes, point }
        };
        let workers = match point.load {
            Load::Outstanding(outstanding) => (0..outstanding as u64)
                .map(|number| world.spawn(worker(number).work(tally.clone())))
                .collect(),
            Load::Offered(rate) => arrivals(world, rate, &tally, &worker).await,
        };
        all(workers).await?;
        // What the host has not written yet must not be written at the cost of the next point.
        for file in &self.files {
            file.sync().await?;
        }
        Ok(tally.row(point))
    }

    fn check(&self, point: &Point) -> world::Result<()> {
        let refuse = |reason: String| {
            let (operation, path) = ("measure a point in".into(), self.files[0].path().to_owned());
            Err(Error { kind: ErrorKind::Unsupported, operation, path, reason })
        };
        if !point.block_bytes.is_multiple_of(SECTOR_BYTES as u64) || point.block_bytes > self.file_bytes {
            return refuse(format!("blocks of {} bytes do not fit", point.block_bytes));
        }
        if let Load::Outstanding(outstanding) = point.load
            && outstanding.fract() != 0.0
        {
            return refuse("a closed loop has a whole number of operations".into());
        }
        Ok(())
    }
}

/// Starts an operation at each arrival of a Poisson process until the end of the window, each in a task of its own.
async fn arrivals(
    world: &World,
    rate: f64,
    tally: &Rc<Tally>,
    worker: &dyn Fn(u64) -> Worker,
) -> Vec<Task<world::Result<()>>> {
    let (mut tasks, mut number) = (Vec::new(), 0);
    let under_way = Rc::new(Cell::new(0));
    let (bufs, mut at) = (Rc::new(RefCell::new(Vec::new())), world.now());
    loop {
        let dice = ((world.random_u64() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        at = at + Duration::from_secs_f64(-dice.ln() / rate);
        if at >= tally.end {
            return tasks;
        }
        world.sleep_until(at).await;
        if under_way.get() >= OPEN_MOST {
            tally.keeps_up.set(false);
            continue;
        }
        under_way.set(under_way.get() + 1);
        let (worker, tally, under_way, bufs) =
            (worker(number), tally.clone(), under_way.clone(), bufs.clone());
        number += 1;
        tasks.push(world.spawn(async move {
            let free = bufs.borrow_mut().pop();
            let mut own = free.unwrap_or_else(|| Buffers::of(worker.point.block_bytes));
            let outcome = worker.operate(&tally, &mut own).await;
            bufs.borrow_mut().push(own);
            under_way.set(under_way.get() - 1);
            outcome
        }));
    }
}

/// Writes a file from its beginning to its end.
async fn fill(world: &World, file: &File, bytes: u64) -> world::Result<()> {
    let (piece, side_by_side) = MAKING;
    let writers: Vec<_> = (0..side_by_side)
        .map(|first| {
            let (file, pieces) = (file.clone(), bytes / piece as u64);
            world.spawn(async move {
                let mut bufs = content(piece);
                for number in (first..pieces).step_by(side_by_side as usize) {
                    stamp(&mut bufs, number * (piece / SECTOR_BYTES) as u64);
                    let (outcome, back) = file.write_at(number * piece as u64, bufs).await;
                    outcome?;
                    bufs = back;
                }
                Ok(())
            })
        })
        .collect();
    all(writers).await?;
    file.sync().await?;
    Ok(())
}

/// Waits for all tasks. Returns the first error of any of them.
async fn all(tasks: Vec<Task<world::Result<()>>>) -> world::Result<()> {
    let mut outcome = Ok(());
    for task in tasks {
        outcome = outcome.and(task.await);
    }
    outcome
}

/// Permutation of 0..`all` that maps neighbours to distant places. Returns the place of `number`.
fn scattered(number: u64, all: u64) -> u64 {
    // A prime that divides no count of blocks of a file that could be made.
    (u128::from(number) * 2_147_483_647 % u128::from(all)) as u64
}

/// State that the workers of a point share.
struct Tally {
    begin: Time,
    end: Time,
    reads: RefCell<Histogram<u64>>,
    writes: RefCell<Histogram<u64>>,
    first_half: Cell<u64>,
    /// Whether the storage keeps up with the arrivals of an open loop.
    keeps_up: Cell<bool>,
    /// Next stamp: a number that makes each written block differ from all earlier ones.
    stamp: Cell<u64>,
    /// Next block of a sequential pattern.
    cursor: Cell<u64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1000, LONGEST.as_nanos() as u64, 3).expect("these bounds are possible")
}

impl Tally {
    fn count(&self, is_read: bool, started: Time, completed: Time) {
        if completed < self.begin || completed > self.end {
            return;
        }
        if completed < self.begin + WINDOW / 2 {
            self.first_half.set(self.first_half.get() + 1);
        }
        let histogram = if is_read { &self.reads } else { &self.writes };
        histogram.borrow_mut().saturating_record((completed - started).as_nanos() as u64);
    }

    fn row(&self, point: Point) -> Row {
        let (reads, writes) = (self.reads.borrow(), self.writes.borrow());
        let all = (reads.len() + writes.len()) as f64;
        let first = self.first_half.get() as f64;
        let differ = (all - 2.0 * first).abs();
        let asked = match point.load {
            Load::Offered(rate) => rate * WINDOW.as_secs_f64(),
            Load::Outstanding(_) => 0.0,
        };
        let is_behind = all < (1.0 - STEADY) * asked - 3.0 * asked.sqrt();
        Row {
            point,
            iops: Some(all / WINDOW.as_secs_f64()).filter(|iops| *iops > 0.0),
            reads: latency(&reads),
            writes: latency(&writes),
            seconds: Some(WINDOW.as_secs_f64()),
            steady: Some(
                self.keeps_up.get() && !is_behind && differ <= STEADY * all / 2.0 + 3.0 * all.sqrt(),
            ),
        }
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let at = |quantile| Some(histogram.value_at_quantile(quantile) as f64 / 1e6);
    Latency { mean_ms: Some(histogram.mean() / 1e6), p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99) }
}

/// Worker that does operations of a point, one at a time.
struct Worker {
    world: World,
    file: File,
    file_bytes: u64,
    point: Point,
}

/// Buffers of a worker, for reads and for writes; empty while an operation has them.
struct Buffers {
    read: Bufs,
    written: Bufs,
}

impl Buffers {
    fn of(block_bytes: u64) -> Buffers {
        let bytes = block_bytes as usize;
        Buffers { read: std::iter::once(PageBuf::empty(bytes)).collect(), written: content(bytes) }
    }
}

impl Worker {
    /// Keeps one operation outstanding until the end of the window.
    async fn work(self, tally: Rc<Tally>) -> world::Result<()> {
        let mut bufs = Buffers::of(self.point.block_bytes);
        loop {
            if self.world.now() >= tally.end {
                return Ok(());
            }
            self.operate(&tally, &mut bufs).await?;
        }
    }

    /// Does one operation. Its latency counts from here: how late a timer is says nothing of the storage.
    async fn operate(&self, tally: &Tally, bufs: &mut Buffers) -> world::Result<()> {
        let is_read = self.is_read();
        let offset = self.offset(tally);
        let started = self.world.now();
        let outcome = if is_read {
            let (outcome, back) = self.file.read_at(offset, std::mem::take(&mut bufs.read)).await;
            bufs.read = back;
            outcome
        } else {
            tally.stamp.set(stamp(&mut bufs.written, tally.stamp.get()));
            let (outcome, back) = self.file.write_at(offset, std::mem::take(&mut bufs.written)).await;
            bufs.written = back;
            outcome
        };
        outcome?;
        if self.point.pattern == Pattern::Sync {
            self.file.sync().await?;
        }
        tally.count(is_read, started, self.world.now());
        Ok(())
    }

    fn is_read(&self) -> bool {
        (self.world.random_u64() >> 11) as f64 / ((1_u64 << 53) as f64) < self.point.read_share
    }

    fn offset(&self, tally: &Tally) -> u64 {
        let blocks = self.file_bytes / self.point.block_bytes;
        let block = match self.point.pattern {
            Pattern::Random => self.world.random_u64() % blocks,
            Pattern::Sequential | Pattern::Sync => {
                let block = tally.cursor.get();
                tally.cursor.set((block + 1) % blocks);
                block
            }
        };
        block * self.point.block_bytes
    }
}

/// Generator of file contents: each sector is a number followed by noise that does not compress and is the same in
/// every sector.
struct Stamped {
    pages: u64,
    body: Box<[u8]>,
}

const STAMP: usize = size_of::<u64>();

fn body() -> Box<[u8]> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let words = (0..SECTOR_BYTES / STAMP - 1).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

/// Creates a buffer with such contents.
fn content(bytes: usize) -> Bufs {
    let body = body();
    let mut buf = PageBuf::empty(bytes);
    for sector in buf.as_mut_slice().chunks_mut(SECTOR_BYTES) {
        sector[STAMP..].copy_from_slice(&body);
    }
    std::iter::once(buf).collect()
}

/// Stamps the sectors of a buffer with ascending numbers from `first`. Returns the next number.
fn stamp(bufs: &mut Bufs, first: u64) -> u64 {
    let mut number = first;
    for sector in bufs[0].as_mut_slice().chunks_mut(SECTOR_BYTES) {
        sector[..STAMP].copy_from_slice(&number.to_le_bytes());
        number = number.wrapping_add(1);
    }
    number
}

impl TemplatePages for Stamped {
    fn id(&self) -> u64 {
        u64::from_le_bytes(*b"probe.da")
    }

    fn page_bytes(&self) -> usize {
        SECTOR_BYTES
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn fill(&self, index: u64, page: &mut [u8]) {
        page[..STAMP].copy_from_slice(&index.to_le_bytes());
        page[STAMP..].copy_from_slice(&self.body);
    }
}

impl PageCodec for Stamped {
    fn encode(&self, _index: u64, page: &[u8], out: &mut Vec<u8>) {
        let is_stamped = page[STAMP..] == *self.body;
        out.extend_from_slice(if is_stamped { &page[..STAMP] } else { page });
    }

    fn decode(&self, _index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        page.get(..encoded.len())?;
        page[..encoded.len()].copy_from_slice(encoded);
        if encoded.len() == STAMP {
            page[STAMP..].copy_from_slice(&self.body);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_is_not_steady_where_the_program_itself_is_behind_its_arrivals() {
        for (rate, is_steady) in [(100.0, true), (110.0, true), (200.0, false)] {
            let tally = Tally {
                begin: Time::default(),
                end: Time::default() + WINDOW,
                reads: RefCell::new(histogram()),
                writes: RefCell::new(histogram()),
                first_half: Cell::new(0),
                keeps_up: Cell::new(true),
                stamp: Cell::new(0),
                cursor: Cell::new(0),
            };
            for n in 0..400 {
                let at = Time::default() + Duration::from_millis(10 * n);
                tally.count(true, at, at);
            }
            let load = Load::Offered(rate);
            let row = tally.row(Point { block_bytes: 4096, read_share: 1.0, pattern: Pattern::Random, load });
            assert_eq!((row.iops, row.steady), (Some(100.0), Some(is_steady)), "{rate} a second");
        }
    }
}
