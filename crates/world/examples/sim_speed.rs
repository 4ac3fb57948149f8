//! What one operation in simulated time costs: operations per second of one core.
//!
//! `sim_speed [OPERATIONS]`: reads of untouched template pages one at a time and from many tasks, reads and writes of
//! plain pages (a sync after each 16 writes), and the same with a storage model.
#![allow(
    clippy::disallowed_methods,
    reason = "an example is a program of its own: it takes the time and prints"
)]

use std::io::Write;
use std::rc::Rc;
use std::time::Instant;

use smallvec::smallvec;
use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation};
use world::{File, OpenMode, PageBuf, PageCodec, TemplatePages, World};

const PAGE_BYTES: usize = 32768;
const PAGES: u64 = 1 << 25;

struct Numbered;

impl TemplatePages for Numbered {
    fn id(&self) -> u64 {
        1
    }
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
    fn pages(&self) -> u64 {
        PAGES
    }
    fn fill(&self, index: u64, page: &mut [u8]) {
        page.fill(0);
        page[..8].copy_from_slice(&index.to_le_bytes());
    }
}

struct Verbatim;

impl PageCodec for Verbatim {
    fn encode(&self, _index: u64, page: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(page);
    }
    fn decode(&self, _index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        page.copy_from_slice(encoded);
        Some(())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    PristineRead,
    BytesRead,
    Write,
}

async fn work(file: File, kind: Kind, operations: u64, first: u64) {
    let bytes = PageBuf::copy_of(&[7; PAGE_BYTES]);
    let mut bufs = smallvec![bytes];
    for at in 0..operations {
        let page = match kind {
            Kind::PristineRead => 1024 + (first + at * 7919) % (PAGES - 1024),
            Kind::BytesRead | Kind::Write => (first + at * 7919) % 1024,
        };
        let offset = page * PAGE_BYTES as u64;
        let (result, back) = if kind == Kind::Write {
            file.write_at(offset, bufs).await
        } else {
            file.read_at(offset, bufs).await
        };
        result.expect("the simulated disk has no faults here");
        bufs = back;
        if kind == Kind::Write && at % 16 == 15 {
            file.sync().await.expect("syncs");
        }
        assert_eq!(bufs[0].pristine().is_some(), kind == Kind::PristineRead);
    }
}

async fn all_tasks(world: World, file: File, kind: Kind, operations: u64, tasks: u64) {
    let started: Vec<_> = (0..tasks)
        .map(|task| world.spawn(work(file.clone(), kind, operations / tasks, task * 104_729)))
        .collect();
    for task in started {
        task.await;
    }
    file.sync().await.expect("syncs");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let operations: u64 = std::env::args().nth(1).map_or(Ok(4_000_000), |count| count.parse())?;
    let mut out = std::io::stdout().lock();
    for modelled in [false, true] {
        for (name, kind, tasks, share) in [
            ("pristine reads, 1 task", Kind::PristineRead, 1, 1),
            ("pristine reads, 64 tasks", Kind::PristineRead, 64, 1),
            ("32 KiB writes, 64 tasks", Kind::Write, 64, 40),
            ("32 KiB reads of bytes, 64 tasks", Kind::BytesRead, 64, 40),
        ] {
            let mut config = SimConfig::default();
            if modelled {
                config.storage = Box::new(FixedLatency::new(1, FixedLatencyTimes::default()));
            }
            let sim = Simulation::new(1, config);
            let world = sim.host("a");
            sim.volume("a", "/d", 1 << 50);
            let file = sim.run_until(async {
                let file = world.open("/d/x", OpenMode::CreateNew).await.expect("creates");
                file.adopt_template(Rc::new(Numbered), Rc::new(Verbatim)).await.expect("adopts");
                if kind == Kind::BytesRead {
                    work(file.clone(), Kind::Write, 1024, 0).await;
                }
                file
            });
            let start = Instant::now();
            sim.run_until(all_tasks(world, file, kind, operations / share, tasks));
            let rate = (operations / share) as f64 / start.elapsed().as_secs_f64();
            let model = if modelled { "fixed latency" } else { "zero latency" };
            writeln!(out, "{model:14} {name:32} {rate:>12.0}/s")?;
        }
    }
    Ok(())
}
