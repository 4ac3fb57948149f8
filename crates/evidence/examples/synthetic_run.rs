//! Makes a run folder from a synthetic run: `cargo run -p evidence --example synthetic_run -- FOLDER [KIND [DATABASES
//! SECONDS]]`, where KIND is `pass`, `fail`, `cut`, `simulated`, `hosts`, `hostile` or `day` (24 h, 56 databases).
#![allow(missing_docs, clippy::print_stdout, clippy::disallowed_methods, reason = "a tool for developers")]

use std::path::Path;
use std::time::Instant;

use evidence::{Report, RunStore, load};
use results::WorldKind;
use testkit::synthetic;
use testkit::synthetic::Shape;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let shape = match arguments.next().as_deref() {
        None | Some("pass") => Shape::default(),
        Some("fail") => Shape { fails: true, ..Shape::default() },
        Some("cut") => Shape { cut: true, ..Shape::default() },
        Some("simulated") => Shape { world: WorldKind::Simulated, ..Shape::default() },
        Some("hosts") => Shape {
            hosts: 2,
            databases: 8,
            databases_per_instance: 4,
            window_s: 7_200,
            sample_s: 15,
            ..Shape::default()
        },
        Some("hostile") => Shape { hostile: "<script>alert(1)</script>&\"'", ..Shape::default() },
        Some("day") => Shape { databases: 56, window_s: 86_400, sample_s: 15, ..Shape::default() },
        Some(other) => return Err(format!("`{other}` is no kind").into()),
    };
    let mut number = || arguments.next().map(|text| text.parse::<u32>()).transpose();
    let (databases, seconds) = (number()?, number()?.map(u64::from));
    let shape = Shape {
        databases: databases.unwrap_or(shape.databases),
        window_s: seconds.unwrap_or(shape.window_s),
        sample_s: seconds.map_or(shape.sample_s, |seconds| (seconds / 20).clamp(1, 15)),
        ..shape
    };
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let path = folder.join("run.db");
    let mut start = Instant::now();
    let mut lap = |what: &str| {
        println!("{what}: {:.2} s", start.elapsed().as_secs_f64());
        start = Instant::now();
    };
    let mut store = RunStore::create(&path)?;
    synthetic::record(&shape, &mut store)?;
    store.close()?;
    lap("record");
    let data = load(&path)?;
    lap("load");
    let report = Report::new(&data)?;
    lap("analyse");
    report.write(folder)?;
    lap("write");
    for name in ["run.db", "report.json", "report.html", "junit.xml"] {
        println!("{name}: {} bytes", std::fs::metadata(folder.join(name))?.len());
    }
    Ok(())
}
