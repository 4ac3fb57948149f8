//! `proofload calibrate`: what points that were measured say about others.

use std::path::PathBuf;

use probe::{Calibration, Errors, ProbeError, csv, model};

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::stdout::{data, tell, write_file};

/// Predicts IOPS and latency at other points of load from points that were measured.
#[derive(clap::Args)]
pub struct CalibrateArguments {
    /// What was measured: a probe.csv or a result of fio (JSON).
    #[arg(value_name = "PROBE.csv", required = true)]
    files: Vec<PathBuf>,
    /// Print these points with what is expected there, as CSV; without it, how far predictions are off.
    #[arg(long, value_name = "POINTS.csv")]
    predict: Option<PathBuf>,
    /// Write what was measured as a storage, for `simulate --assumptions`.
    #[arg(long, value_name = "MODEL.toml")]
    out: Option<PathBuf>,
    /// Name of the volume that was probed apart: with --out, it has this storage for itself.
    #[arg(long, value_name = "NAME", requires = "out")]
    volume: Option<String>,
}

/// Runs the command: exit status 1 if a point lies outside what was probed.
pub fn run(arguments: &CalibrateArguments) -> Result<Status, Failure> {
    let wrong = |error: ProbeError| {
        Failure::wrong_input("cannot calibrate on these points").because(&error).help(error.remedy)
    };
    let rows = inputs::all_points(&arguments.files)?;
    let calibration = Calibration::new(&rows).map_err(wrong)?;
    let mut report = String::new();
    for surface in &calibration.surfaces {
        let errors = figures(&surface.left_out);
        report += &format!("{} points, each predicted from others: {errors}\n", surface.pattern.name());
    }
    for throttle in &calibration.throttles {
        report += &format!("{}\n", throttle.text());
    }
    if let Some(path) = &arguments.out {
        let names: Vec<String> = arguments.files.iter().map(|path| path.display().to_string()).collect();
        let text = model(&calibration, &names.join(", "), arguments.volume.as_deref()).map_err(wrong)?;
        write_file(path, &text)?;
    }
    let Some(path) = &arguments.predict else {
        tell(&report)?;
        return Ok(Status::Pass);
    };
    say!("{}", report.trim_end());
    let mut predicted = Vec::new();
    for row in inputs::points(path)? {
        predicted.push((row, calibration.predict(&row).map_err(wrong)?));
    }
    data(&csv::write_predictions(&predicted))?;
    let pairs: Vec<_> = predicted.iter().filter_map(|(row, one)| Some(((*one)?, row.iops?))).collect();
    if let Some(errors) = Errors::of(&pairs) {
        say!("beside what {} has: {}", path.display(), figures(&errors));
    }
    let unproved = predicted.iter().filter(|(_, one)| one.is_none()).count();
    if unproved == 0 {
        return Ok(Status::Pass);
    }
    say!("{unproved} of {} points are unproved: they lie outside what was probed", predicted.len());
    Ok(Status::VerdictFail)
}

fn figures(errors: &Errors) -> String {
    let Errors { points, mean, p90, covered } = errors;
    format!(
        "{points} predictions, IOPS off by {mean:.1} % in the mean, nine of ten by at most {p90:.1} %, \
         {covered:.0} % within their interval"
    )
}
