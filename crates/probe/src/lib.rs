//! What a storage does at many points of load: their choice, their file, and what follows from them for other points.
//!
//! A point is a block size, a read share, a pattern and a number of operations that are under way ([`Point`]).
//! [`farthest`] chooses the points that say most, [`measure_all`] measures them in a world, [`read()`] reads what
//! others have measured, and [`Calibration`] predicts the rate at other points, with an interval that holds nine of ten
//! measurements.
//!
//! Invariants
//! 1. Same points, same choice, same prediction.
//! 2. Points that no storage can have given are refused by line and reason.
//! 3. Nothing is predicted where nothing near was probed.

#[cfg(test)]
mod accuracy;
mod bottleneck;
mod calibrate;
mod check;
mod choose;
pub mod csv;
mod fio;
mod gaussian;
mod hull;
mod least_squares;
mod linear;
mod measure;
mod minimise;
mod model;
mod point;
mod session;
mod throttle;

pub use calibrate::{Calibration, Errors, Prediction, Surface};
pub use choose::{farthest, usual_points};
pub use measure::{FILE, Ground, POINT_SECONDS};
pub use model::model;
pub use point::{Latency, Load, Pattern, Point, ProbeError, Row};
pub use session::{measure_all, points, scatter};
pub use throttle::Throttle;

/// Reads points of load from a `probe.csv` or from a result of fio.
///
/// # Errors
/// If it is neither, or if a point cannot have been measured.
pub fn read(text: &str) -> Result<Vec<Row>, ProbeError> {
    if fio::is_fio(text) { fio::read(text) } else { csv::read(text) }
}
