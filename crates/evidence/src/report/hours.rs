//! The hours of the day that a load followed: what each asked for, and what was achieved.

use results::{Day, IoClass, IoTotals, Measure};

use super::model::HourRow;
use super::samples::Moment;
use super::window::{Scope, TestView};

const READ: Measure = Measure::Io(IoClass::TransactionalRead);
const WRITE: Measure = Measure::Io(IoClass::TransactionalWrite);
const LOG_WRITE: Measure = Measure::Io(IoClass::LogWrite);

/// Target of the peak hour: transactional I/O per second, all hosts together; the target itself without a day.
pub fn peak_target(view: &TestView<'_>) -> Option<f64> {
    let target = view.test.target_iops?;
    let Some(day) = view.test.day else { return Some(target) };
    let planned_s = view.test.window_planned_ms.map_or(day.length_s, |ms| ms as f64 / 1e3);
    Some(target / day.mean_between(0.0, planned_s))
}

/// Rows of the hours that the window reached; none for a load that stayed at its peak. An hour that comes again in a
/// long window counts in one row.
pub fn rows(view: &TestView<'_>) -> Vec<HourRow> {
    let Some(day) = view.test.day.filter(|_| view.test.window_start_ms.is_some()) else { return Vec::new() };
    let peak = peak_target(view);
    let seconds = seconds(&day, view.span.seconds());
    let [reads, writes, log_writes] = [READ, WRITE, LOG_WRITE].map(|measure| {
        let mut totals = [IoTotals::default(); 24];
        for point in view.points(Scope::All, &[measure]) {
            let after_s = point.middle_ms().saturating_sub(view.span.start_ms) as f64 / 1e3;
            totals[day.hour(after_s)].add(point.totals);
        }
        totals
    });
    let row = |hour: usize| HourRow {
        hour: hour as u32,
        percent: day.hours_percent[hour],
        seconds: seconds[hour],
        target_iops: peak.map(|peak| peak * day.hours_percent[hour] / 100.0),
        achieved_iops: (reads[hour].count + writes[hour].count) as f64 / seconds[hour],
        read_latency_ms: reads[hour].latency_ms(),
        log_write_latency_ms: log_writes[hour].latency_ms(),
    };
    (0..24).filter(|&hour| seconds[hour] > 0.0).map(row).collect()
}

/// Seconds of the window in each hour of the day.
fn seconds(day: &Day, window_s: f64) -> [f64; 24] {
    let days = (window_s / day.length_s).floor();
    let rest_s = window_s - days * day.length_s;
    let hour_s = day.hour_s();
    std::array::from_fn(|hour| days * hour_s + (rest_s - hour as f64 * hour_s).clamp(0.0, hour_s))
}

/// Achieved transactional I/O per second in the peak hours; `None` if the window reached none.
pub fn achieved_at_peak(rows: &[HourRow]) -> Option<f64> {
    let peak = || rows.iter().filter(|row| row.percent >= 100.0);
    let seconds: f64 = peak().map(|row| row.seconds).sum();
    (seconds > 0.0).then(|| peak().map(|row| row.achieved_iops * row.seconds).sum::<f64>() / seconds)
}

/// What the day asks for in a range of samples, as a share of the mean of all samples; 1 without a day.
pub fn asked_share(view: &TestView<'_>, from: usize, to: usize) -> f64 {
    let Some(day) = view.test.day else { return 1.0 };
    let start_s =
        |sample: usize| view.samples.start_ms(sample).saturating_sub(view.span.start_ms) as f64 / 1e3;
    let end_s = |sample: usize| start_s(sample) + view.samples.seconds(sample);
    let whole = day.mean_between(start_s(0), end_s(view.samples.len() - 1));
    if whole > 0.0 { day.mean_between(start_s(from), end_s(to - 1)) / whole } else { 1.0 }
}

/// Samples in which writes begin, as a range: the first one; the first hour with a load if the load follows a day.
pub fn first_load(view: &TestView<'_>) -> (usize, usize) {
    let Some(day) = view.test.day else { return (0, 1) };
    let samples = view.samples.len();
    let from = (0..samples).find(|&sample| asked_share(view, sample, sample + 1) > 0.0).unwrap_or(0);
    let hour = (day.hour_s() / view.samples.seconds(from)).ceil() as usize;
    (from, (from + hour.max(1)).min(samples))
}
