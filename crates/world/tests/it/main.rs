//! What the simulated world promises.

mod durability;
mod executor;
mod faults;
mod names;
mod network;
mod pages;
mod random_programs;
mod side_by_side;
mod storage;

use std::ops::Range;
use std::rc::Rc;

use smallvec::smallvec;
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, PowerCut, SimConfig, Simulation};
use world::{Bufs, File, OpenMode, PageBuf, PageCodec, TemplatePages, World};

/// One block with every byte the same.
fn block(byte: u8) -> Bufs {
    smallvec![PageBuf::copy_of(&[byte; 4096])]
}

fn buf(len: usize, byte: u8) -> Bufs {
    smallvec![PageBuf::copy_of(&vec![byte; len])]
}

async fn read(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let (result, bufs) = file.read_at(offset, smallvec![PageBuf::empty(len)]).await;
    result.expect("reads");
    bufs[0].as_slice().to_vec()
}

async fn write(file: &File, offset: u64, bufs: Bufs) {
    file.write_at(offset, bufs).await.0.expect("writes");
}

async fn create(world: &World, path: &str) -> File {
    world.open(path, OpenMode::CreateNew).await.expect("creates")
}

async fn reopen(world: &World, path: &str) -> File {
    world.open(path, OpenMode::ReadWrite).await.expect("is there")
}

/// A file whose existence and contents are durable.
async fn durable_file(world: &World, path: &str, bytes: usize, byte: u8) -> File {
    let file = create(world, path).await;
    if bytes > 0 {
        write(&file, 0, buf(bytes, byte)).await;
    }
    file.sync().await.expect("syncs");
    world.sync_dir("/d").await.expect("syncs");
    file
}

/// A simulation with host `a` and its volume `/d`.
fn with_faults(seed: u64, faults: Faults) -> (Simulation, World) {
    with_config(seed, SimConfig { faults, ..SimConfig::default() })
}

fn with_power_cut(seed: u64, power_cut: PowerCut) -> (Simulation, World) {
    with_faults(seed, Faults { power_cut, ..Faults::default() })
}

fn with_config(seed: u64, config: SimConfig) -> (Simulation, World) {
    let sim = Simulation::new(seed, config);
    let world = sim.host("a");
    sim.volume("a", "/d", 1 << 40);
    (sim, world)
}

/// Storage that takes time, so that requests are under way together.
fn slow_storage(seed: u64) -> Box<FixedLatency> {
    Box::new(FixedLatency::new(seed, FixedLatencyTimes::default()))
}

const PAGE: usize = 32768;

/// Template whose pages hold their own number in every byte pair.
struct Numbered {
    pages: u64,
}

impl TemplatePages for Numbered {
    fn id(&self) -> u64 {
        42
    }
    fn page_bytes(&self) -> usize {
        PAGE
    }
    fn pages(&self) -> u64 {
        self.pages
    }
    fn fill(&self, index: u64, page: &mut [u8]) {
        page.fill(template_byte(index));
    }
}

fn template_byte(index: u64) -> u8 {
    (index % 251) as u8 + 1
}

/// Codec that stores a page as runs of equal bytes.
struct RunLength;

impl PageCodec for RunLength {
    fn encode(&self, _index: u64, page: &[u8], out: &mut Vec<u8>) {
        for run in page.chunk_by(|a, b| a == b) {
            out.push(run[0]);
            out.extend_from_slice(&(run.len() as u32).to_le_bytes());
        }
    }
    fn encode_unsealed(&self, index: u64, page: &[u8], _unused: Range<usize>, out: &mut Vec<u8>) -> bool {
        self.encode(index, page, out);
        true
    }
    fn decode(&self, _index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        let mut at = 0;
        for run in encoded.chunks(5) {
            let len = u32::from_le_bytes(run.get(1..5)?.try_into().ok()?) as usize;
            page.get_mut(at..at + len)?.fill(run[0]);
            at += len;
        }
        if at == page.len() { Some(()) } else { None }
    }
}

/// A durable file of `pages` untouched template pages.
async fn adopted_file(world: &World, path: &str, pages: u64) -> File {
    let file = create(world, path).await;
    assert!(file.adopt_template(Rc::new(Numbered { pages }), Rc::new(RunLength)).await.expect("adopts"));
    world.sync_dir("/d").await.expect("syncs");
    file
}
