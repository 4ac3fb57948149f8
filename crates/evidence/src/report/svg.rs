//! Charts as inline SVG. Colours are CSS classes, so that one picture is right in light, in dark and on paper.

use std::fmt::Write;

use super::model::*;
use super::text::{duration, number};
use crate::markup::escape;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const PLOT: f64 = WIDTH - LEFT - RIGHT;
/// Width of a small chart, of which three stand side by side, in pixels.
const SMALL: f64 = 350.0;
/// Height of a row of the legend, in pixels.
const KEY_ROW: f64 = 16.0;
/// Width of a character in the legend, and of the space before and after a name, in pixels.
const KEY_CHAR: f64 = 5.9;
const KEY_EXTRA: f64 = 38.0;
/// Shades of a heat map, without the empty one.
const SHADES: usize = 9;

/// A line chart with its title, axes, limits and legend.
pub fn line_chart(chart: &Chart) -> String {
    lines(chart, WIDTH, 150.0)
}

/// A line chart for a third of the page.
pub fn small_chart(chart: &Chart) -> String {
    lines(chart, SMALL, 105.0)
}

fn lines(chart: &Chart, width: f64, height: f64) -> String {
    let plot = width - LEFT - RIGHT;
    let values = || chart.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
    let highest = values().fold(0.0, f64::max);
    // A limit far above everything would press the lines flat; the verdict table has it anyway.
    let limits: Vec<&ChartLimit> = chart.limits.iter().filter(|limit| limit.value <= highest * 2.5).collect();
    let (ticks, decimals) =
        linear_ticks(limits.iter().map(|limit| limit.value * 1.05).fold(highest, f64::max));
    let max = *ticks.last().unwrap_or(&1.0);
    let (keys, key_rows) = legend(chart, &limits, width);
    let top = 30.0 + KEY_ROW * f64::from(key_rows);
    let y = |value: f64| top + height * (1.0 - value / max);
    let mut svg = open(&chart.title, &chart.unit, width, top + height + 34.0);
    svg.push_str(&keys);
    for tick in &ticks {
        grid_line(&mut svg, plot, y(*tick), &number(*tick, decimals));
    }
    axis(&mut svg, chart.duration_s, top + height, LEFT, plot);
    for (n, limit) in limits.iter().enumerate() {
        let at = y(limit.value);
        let _ = write!(svg, "<path class=\"limit l{n}\" d=\"M{LEFT} {at:.1}h{plot:.1}\"/>");
    }
    for (n, line) in chart.lines.iter().enumerate() {
        let mut path = String::new();
        let mut drawing = false;
        for (step, value) in line.values.iter().enumerate() {
            let Some(value) = value else {
                drawing = false;
                continue;
            };
            let t = ((step as f64 + 0.5) * chart.step_s).min(chart.duration_s);
            let x = LEFT + plot * t / chart.duration_s;
            let alone = !drawing && line.values.get(step + 1).is_none_or(Option::is_none);
            let _ = write!(path, "{}{x:.1} {:.1}", if drawing { 'L' } else { 'M' }, y(*value));
            if alone {
                path.push_str("h0.1");
            }
            drawing = true;
        }
        let _ = write!(svg, "<path class=\"{}\" d=\"{path}\"/>", line_class(n));
    }
    svg.push_str("</svg>");
    svg
}

/// Where the latencies of a measure lie over time: time to the right, latency upwards, more operations darker.
pub fn latency_map(map: &LatencyMap, title: &str) -> String {
    let top = 30.0 + KEY_ROW;
    let Some(rows) = map.bounds_ms.len().checked_sub(1).filter(|rows| *rows > 0) else {
        return String::new();
    };
    let cell = (160.0 / rows as f64).min(14.0);
    let height = cell * rows as f64;
    let mut svg = open(title, "ms", WIDTH, top + height + 34.0);
    scale(&mut svg, "few operations", "many");
    let most = map.columns.iter().flatten().copied().max().unwrap_or(0).max(1) as f64;
    let mut cells = Cells::default();
    for (column, counts) in map.columns.iter().enumerate() {
        let (x, width) = step(column, map.step_s, map.duration_s);
        for (row, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            // Square root: rare slow operations are what one looks for, and they stay visible.
            let shade = ((count as f64 / most).sqrt() * (SHADES - 1) as f64).ceil() as usize;
            cells.add(shade, x, top + height - cell * (row + 1) as f64, width, cell);
        }
    }
    cells.draw(&mut svg);
    let (low, high) = (map.bounds_ms[0], map.bounds_ms[rows]);
    for ms in log_ticks(low, high) {
        grid_line(&mut svg, PLOT, top + height * (1.0 - (ms / low).ln() / (high / low).ln()), &short_ms(ms));
    }
    time_axis(&mut svg, map.duration_s, top + height);
    svg.push_str("</svg>");
    svg
}

/// Mean latency of each instance over time: a strip per instance, slower darker.
pub fn instance_map(map: &InstanceMap, title: &str) -> String {
    let top = 30.0 + KEY_ROW;
    let strip = if map.rows.len() > 40 {
        7.0
    } else if map.rows.len() > 16 {
        10.0
    } else {
        14.0
    };
    let height = strip * map.rows.len() as f64;
    let values = || map.rows.iter().flat_map(|row| row.latency_ms_mean.iter().flatten().copied());
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let shade = |ms: f64| {
        let share = if high > low { (ms - low) / (high - low) } else { 0.0 };
        (share * (SHADES - 1) as f64).round() as usize
    };
    let mut svg = open(title, "", WIDTH, top + height + 34.0);
    scale(&mut svg, &format!("{} ms", number(low, 2)), &format!("{} ms", number(high, 2)));
    let mut cells = Cells::default();
    let every = (9.0 / strip).ceil() as usize;
    for (row, values) in map.rows.iter().enumerate() {
        let y = top + strip * row as f64;
        for (column, value) in values.latency_ms_mean.iter().enumerate() {
            if let Some(ms) = value {
                let (x, width) = step(column, map.step_s, map.duration_s);
                cells.add(shade(*ms), x, y, width, strip);
            }
        }
        if row % every == 0 {
            let name = clip(values.origin.instance.as_deref().unwrap_or(&values.origin.host), 8);
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + strip / 2.0 + 3.5,
                escape(&name)
            );
        }
    }
    cells.draw(&mut svg);
    time_axis(&mut svg, map.duration_s, top + height);
    svg.push_str("</svg>");
    svg
}

/// The tests of a run as bars on one time axis.
pub fn campaign(report: &Report) -> String {
    let (top, row) = (6.0, 20.0);
    let height = row * report.tests.len() as f64;
    let duration_s = report.run.duration_s.max(0.001);
    let left = 215.0;
    let width = WIDTH - left - RIGHT;
    let mut svg = frame("The tests over time", WIDTH, top + height + 34.0);
    axis(&mut svg, duration_s, top + height, left, width);
    for (n, test) in report.tests.iter().enumerate() {
        let y = top + row * n as f64;
        let x = |t: f64| left + width * (t / duration_s).clamp(0.0, 1.0);
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 10.0,
            y + row / 2.0 + 4.0,
            escape(&clip(&test.name, 28))
        );
        let (from, to) = (x(test.started_s), x(test.started_s + test.duration_s));
        bar(&mut svg, "bar", from, y + 6.0, to - from, row - 12.0);
        let (from, to) = match &test.window {
            Some(window) => (x(window.start_s), x(window.start_s + window.duration_s)),
            None => (from, to),
        };
        let class = match test.outcome {
            Some(results::Outcome::Fail) => "bar fail",
            Some(results::Outcome::Pass) => "bar pass",
            _ => "bar info",
        };
        bar(&mut svg, class, from, y + 3.0, to - from, row - 6.0);
    }
    svg.push_str("</svg>");
    svg
}

fn bar(svg: &mut String, class: &str, x: f64, y: f64, width: f64, height: f64) {
    let width = width.max(1.5);
    let _ = write!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"1.5\"/>"
    );
}

/// Cells of a heat map by shade: one SVG path per shade takes a tenth of the bytes of an element per cell.
#[derive(Default)]
struct Cells {
    paths: [String; SHADES],
}

impl Cells {
    fn add(&mut self, shade: usize, x: f64, y: f64, width: f64, height: f64) {
        let path = &mut self.paths[shade.min(SHADES - 1)];
        let _ = write!(path, "M{x:.1} {y:.1}h{width:.1}v{height:.1}H{x:.1}z");
    }

    fn draw(&self, svg: &mut String) {
        for (shade, path) in self.paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let _ = write!(svg, "<path class=\"h{shade}\" d=\"{path}\"/>");
        }
    }
}

/// Position and width of a step on the time axis.
fn step(n: usize, step_s: f64, duration_s: f64) -> (f64, f64) {
    let x = |t: f64| LEFT + PLOT * (t / duration_s).min(1.0);
    let (from, to) = (x(n as f64 * step_s), x((n + 1) as f64 * step_s));
    (from, to - from)
}

fn frame(title: &str, width: f64, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{}\" \
         xmlns=\"http://www.w3.org/2000/svg\">",
        escape(title)
    )
}

fn open(title: &str, unit: &str, width: f64, height: f64) -> String {
    let mut svg = frame(title, width, height);
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let _ = write!(
        svg,
        "<text class=\"title\" x=\"0\" y=\"14\">{}<tspan class=\"unit\">{}</tspan></text>",
        escape(title),
        escape(&unit)
    );
    svg
}

/// CSS class of the nth line: six colours; beyond them the same again, dashed.
fn line_class(n: usize) -> String {
    format!("line c{}{}", n % 6, if n < 6 { "" } else { " again" })
}

/// The legend: names of lines and limits, in as many rows as they need.
fn legend(chart: &Chart, limits: &[&ChartLimit], width: f64) -> (String, u32) {
    let lines = chart.lines.iter().enumerate().map(|(n, line)| (line_class(n), &line.name));
    let limits = limits.iter().enumerate().map(|(n, limit)| (format!("limit l{n}"), &limit.name));
    let (mut svg, mut x, mut row) = (String::new(), LEFT, 0);
    for (class, name) in lines.chain(limits) {
        let key = KEY_EXTRA + name.chars().count() as f64 * KEY_CHAR;
        if x > LEFT && x + key > width {
            (x, row) = (LEFT, row + 1);
        }
        let y = 30.0 + KEY_ROW * f64::from(row);
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{x:.1} {y}h16\"/><text class=\"key\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 21.0,
            y + 3.5,
            escape(name)
        );
        x += key;
    }
    (svg, row + 1)
}

/// The legend of a heat map: shades from the lightest to the darkest, and what they stand for.
fn scale(svg: &mut String, low: &str, high: &str) {
    let _ = write!(svg, "<text class=\"key\" x=\"{LEFT}\" y=\"33.5\">{}</text>", escape(low));
    let start = LEFT + 10.0 + low.chars().count() as f64 * KEY_CHAR;
    for shade in 0..SHADES {
        let _ = write!(
            svg,
            "<rect class=\"h{shade}\" x=\"{:.1}\" y=\"25\" width=\"14\" height=\"9\"/>",
            start + 14.0 * shade as f64
        );
    }
    let end = start + 14.0 * SHADES as f64 + 8.0;
    let _ = write!(svg, "<text class=\"key\" x=\"{end:.1}\" y=\"33.5\">{}</text>", escape(high));
}

fn grid_line(svg: &mut String, plot: f64, y: f64, label: &str) {
    let _ = write!(
        svg,
        "<path class=\"grid\" d=\"M{LEFT} {y:.1}h{plot:.1}\"/>\
         <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
        LEFT - 6.0,
        y + 3.5
    );
}

fn time_axis(svg: &mut String, duration_s: f64, y: f64) {
    axis(svg, duration_s, y, LEFT, PLOT);
}

fn axis(svg: &mut String, duration_s: f64, y: f64, left: f64, width: f64) {
    let _ = write!(svg, "<path class=\"axis\" d=\"M{left} {y:.1}h{width:.1}\"/>");
    let step = time_step(duration_s, width);
    let ticks = (duration_s / step + 1e-6) as u32;
    for n in 0..=ticks {
        let t = f64::from(n) * step;
        let x = left + width * t / duration_s;
        let anchor = if x > left + width - 14.0 { "end" } else { "middle" };
        let label = if n == 0 { "0".to_owned() } else { duration(t) };
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{x:.1} {y:.1}v4\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            y + 17.0
        );
    }
}

/// The smallest distance of time labels that gives at most eight with room between them; the last may lean to the
/// left.
fn time_step(duration_s: f64, width: f64) -> f64 {
    let steps = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0,
        7_200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0,
    ];
    let fits = |step: &f64| {
        let ticks = (duration_s / step + 1e-6) as u32;
        let longest = (1..=ticks.min(8)).map(|n| duration(f64::from(n) * step).chars().count()).max();
        let label = longest.unwrap_or(0) as f64 * KEY_CHAR;
        duration_s / step <= 8.0 && width * step / duration_s >= 1.5 * label + 6.0
    };
    steps.into_iter().find(fits).unwrap_or(duration_s / 2.0)
}

/// Labels of a linear axis from zero to at least `highest`, in steps of 1, 2 or 5 times a power of ten, and their
/// decimals.
fn linear_ticks(highest: f64) -> (Vec<f64>, usize) {
    if !highest.is_finite() || highest <= 0.0 {
        return (vec![0.0, 1.0], 0);
    }
    let power = 10f64.powf((highest / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|s| highest / s <= 4.0);
    let step = step.unwrap_or(10.0 * power);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let count = (highest / step - 1e-9).ceil() as u32;
    ((0..=count).map(|n| f64::from(n) * step).collect(), decimals)
}

/// Labels of a logarithmic axis between two latencies: powers of ten, and between them 2 and 5 if there is room.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low > 200.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|ms| (low..=high).contains(ms)).collect()
}

/// A round latency in ms (a power of ten, or 2 or 5 times one) without needless zeros.
fn short_ms(ms: f64) -> String {
    number(ms, (-ms.log10()).ceil().max(0.0) as usize)
}

fn clip(name: &str, length: usize) -> String {
    if name.chars().count() <= length {
        return name.to_owned();
    }
    name.chars().take(length - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_of_any_length_stays_inside_the_picture() {
        let names = ["Database reads", "Header and checkpoint writes", "Batches, from intended start"];
        let line = |n: usize| ChartLine { name: names[n % 3].to_owned(), values: vec![Some(1.0); 4] };
        for lines in [1, 3, 8, 15] {
            let chart = Chart {
                title: "Throughput".into(),
                unit: "MiB/s".into(),
                duration_s: 4.0,
                step_s: 1.0,
                lines: (0..lines).map(line).collect(),
                limits: Vec::new(),
            };
            let svg = line_chart(&chart);
            let keys: Vec<(f64, f64)> = svg
                .split("class=\"key\" x=\"")
                .skip(1)
                .map(|rest| {
                    let (x, rest) = rest.split_once('"').expect("a number");
                    let name = rest.split_once('>').expect("a name").1.split('<').next().expect("a name");
                    (x.parse().expect("a number"), name.chars().count() as f64)
                })
                .collect();
            assert_eq!(keys.len(), lines);
            assert!(keys.iter().all(|(x, length)| x + length * KEY_CHAR <= WIDTH), "{keys:?}");
        }
    }

    #[test]
    fn axes_are_readable_from_half_a_minute_to_weeks_and_from_microseconds_to_millions() {
        for duration_s in [0.5, 30.0, 90.0, 5_400.0, 7_200.0, 86_400.0, 100_000.0, 604_800.0] {
            for width in [PLOT, WIDTH - 215.0 - RIGHT] {
                let mut svg = String::new();
                axis(&mut svg, duration_s, 0.0, 0.0, width);
                let mut free_from = -10.0;
                let labels = svg.split("class=\"tick\" x=\"").skip(1);
                let count = labels
                    .map(|label| {
                        let (x, rest) = label.split_once('"').expect("a place");
                        let text = rest.split_once('>').expect("a text").1.split('<').next().expect("a text");
                        let length = text.chars().count() as f64 * KEY_CHAR;
                        let x: f64 = x.parse().expect("a number");
                        let from = if rest.contains("\"end\"") { x - length } else { x - length / 2.0 };
                        assert!(from > free_from, "{duration_s} s: {text} overlaps: {svg}");
                        free_from = from + length;
                    })
                    .count();
                assert!((3..=9).contains(&count), "{duration_s} s has {count} labels");
            }
        }
        assert_eq!(log_ticks(0.3, 12.0), [0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(log_ticks(0.09, 400.0), [0.1, 1.0, 10.0, 100.0]);
        for highest in [0.0004, 0.07, 1.0, 9.99, 10.0, 640.0, 1_234_567.0] {
            let (ticks, _) = linear_ticks(highest);
            assert!((2..=6).contains(&ticks.len()), "{highest} has {} ticks", ticks.len());
            assert!(*ticks.last().unwrap() >= highest * 0.999_999);
        }
    }
}
