//! `proofload probe`: what a storage does at points of load, and which points say most about it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use probe::{Ground, POINT_SECONDS, Point, Row, csv, farthest, measure_all, scatter, usual_points};
use world::World;

use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments};
use crate::stdout::data;

/// Measures what a storage does at points of load, or chooses these points.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct ProbeArguments {
    /// Measure the volumes of this host together, in new folders on them; they are removed at the end.
    #[arg(value_name = "SOLUTION.toml", group = "what")]
    solution: Option<PathBuf>,
    /// Name of this machine in the solution file; needed when the file describes several hosts.
    #[arg(long, value_name = "NAME", requires = "solution")]
    host: Option<String>,
    /// Measure the storage on which this new folder is made; it is removed at the end.
    #[arg(long, value_name = "DIR", group = "what")]
    folder: Option<PathBuf>,
    /// Measure the modelled storage of the first server of a solution.
    #[arg(long, value_name = "SOLUTION.toml", group = "what")]
    simulated: Option<PathBuf>,
    /// Measure nothing: choose N points and print them.
    #[arg(long, value_name = "N", group = "what")]
    next: Option<usize>,
    /// How long to measure: 90s, 10m, 1h; 10m, or as long as the points of --from take.
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "next")]
    time: Option<Duration>,
    /// Size of all files together: 4096, or 16384 where they are simulated.
    #[arg(long, value_name = "MIB", conflicts_with = "next", value_parser = clap::value_parser!(u64).range(64..=1 << 30))]
    size_mib: Option<u64>,
    /// Replace values of the storage models by this file (`simulate --assumptions`).
    #[arg(long, value_name = "FILE", requires = "simulated")]
    assumptions: Option<PathBuf>,
    /// Where all randomness of a simulation comes from.
    #[arg(long, default_value_t = 1, requires = "simulated")]
    seed: u64,
    /// Points that are measured already, for --next: a probe.csv or a result of fio (JSON). Can be repeated.
    #[arg(long, value_name = "FILE", requires = "next")]
    after: Vec<PathBuf>,
    /// Take these points instead of random I/O from 4 KiB to 1 MiB, 1 to 64 under way, five read shares.
    #[arg(long, value_name = "POINTS.csv")]
    from: Option<PathBuf>,
}

/// Longest time that is spent on reads before the first point, to warm caches.
const WARM_MOST: Duration = Duration::from_secs(120);

/// Runs the command: rows of probe.csv on stdout, each as soon as it is known.
pub fn run(arguments: &ProbeArguments) -> Result<Status, Failure> {
    let from = arguments.from.as_deref().map(inputs::points).transpose()?;
    if let Some(count) = arguments.next {
        return choose(count, from, &arguments.after);
    }
    let time = arguments.time.or_else(|| from.is_none().then_some(Duration::from_secs(600)));
    let points = match &from {
        Some(rows) => rows.iter().map(|row| row.point).collect(),
        None => probe::points(time.map_or(0, |time| time.as_secs() / POINT_SECONDS) as usize),
    };
    let interrupts = crate::signals::count_interrupts()?;
    let interrupted = || interrupts.load(Ordering::SeqCst) > 0;
    let (rows, not_told) = (RefCell::new(Vec::new()), RefCell::new(None));
    let bytes = arguments.size_mib.unwrap_or(if arguments.simulated.is_some() { 16384 } else { 4096 }) << 20;
    let measured = async |world: World, folders: Vec<String>| {
        let last = time.map(|time| world.now() + time.saturating_sub(Duration::from_secs(POINT_SECONDS)));
        let ground = Ground::make(&world, &folders, bytes / folders.len() as u64).await?;
        let warmest = time.map_or(WARM_MOST, |time| WARM_MOST.min(time / 5));
        ground.warm(&world, world.now() + warmest).await?;
        let mut told = |number: usize, row: &Row| {
            say!("{} of {}: {}", number + 1, points.len(), row.text());
            if let Err(failure) = data(&csv::line(row)) {
                not_told.replace(Some(failure));
            }
            rows.borrow_mut().push(*row);
        };
        let ends = |world: &World| {
            interrupted() || not_told.borrow().is_some() || last.is_some_and(|last| world.now() > last)
        };
        measure_all(&world, ground, &points, &mut told, &ends).await
    };
    let folders = match (&arguments.folder, &arguments.solution) {
        (Some(folder), _) => vec![folder.clone()],
        (None, Some(file)) => volumes(file, arguments.host.as_deref())?,
        (None, None) => Vec::new(),
    };
    let outcome = match &arguments.simulated {
        None => runner::probe::in_folders(
            &folders,
            probe::FILE,
            bytes / folders.len() as u64,
            async |world, folders| {
                data(&csv::heading()).ok();
                measured(world, folders).await
            },
        )?,
        Some(file) => {
            let solution = SolutionArguments::of_file(file.clone()).read_to_run()?;
            let assumptions = inputs::assumptions(arguments.assumptions.as_deref())?;
            data(&csv::heading())?;
            simulation::on_first_server(&solution, &assumptions, arguments.seed, measured)?
        }
    };
    outcome.map_err(|error| Failure::could_not_run("the probe has ended early").because(error))?;
    if let Some(failure) = not_told.into_inner() {
        return Err(failure);
    }
    let rows = rows.into_inner();
    if !interrupted() && rows.len() < points.len() {
        if rows.is_empty() {
            let message = "no point was measured: the files were ready too late for one";
            return Err(Failure::could_not_run(message).help("use a longer --for or a smaller --size-mib"));
        }
        say!("the time ended after {} of {} points", rows.len(), points.len());
    }
    if let Some(percent) = scatter(&rows) {
        say!("equal points differ from their mean by at most {percent:.1} %");
    }
    Ok(if interrupted() { Status::Interrupted } else { Status::Pass })
}

/// Folders to make on the volumes of this host.
fn volumes(file: &Path, host: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let deployment = SolutionArguments::of_file(file.to_owned()).read_to_run()?.deployment(host)?;
    Ok(deployment.volumes.iter().map(|volume| Path::new(&volume.dir).join("probe")).collect())
}

/// Prints the most informative of the points to measure next, each with what the file of candidates says of it.
fn choose(count: usize, from: Option<Vec<Row>>, after: &[PathBuf]) -> Result<Status, Failure> {
    let candidates = from.unwrap_or_else(|| usual_points().into_iter().map(Row::unmeasured).collect());
    let done = inputs::all_points(after)?;
    let of = |rows: &[Row]| rows.iter().map(|row| row.point).collect::<Vec<Point>>();
    let chosen = farthest(&of(&candidates), &of(&done), count);
    let chosen: Vec<Row> = chosen.into_iter().map(|index| candidates[index]).collect();
    data(&csv::write(&chosen))?;
    Ok(Status::Pass)
}

/// A time such as 90s, 10m or 1h.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.len() - text.len().min(1));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("a number and its unit: 90s, 10m, 1h".into()),
    };
    let number: u64 = number.parse().map_err(|_| "a whole number and its unit: 90s, 10m, 1h".to_owned())?;
    match number.saturating_mul(seconds) {
        total @ 10..=86_400 => Ok(Duration::from_secs(total)),
        _ => Err("from 10s to 24h".into()),
    }
}
