//! Which points cannot have been measured: each alone, and all of them together.

use crate::point::{Latency, Load, Pattern, ProbeError, Row};

/// Most share by which operations under way and rate times latency may differ. Between two operations a program takes
/// time that is no latency, so at light load on fast storage the product is somewhat lower.
const LITTLE: f64 = 0.25;
/// Largest share by which two bandwidths differ that count as equal.
const EQUAL: f64 = 0.02;
/// Least ratio of the largest to the smallest block size at which a set says something about bandwidth.
const WIDE: u64 = 4;

const MEASURE_AGAIN: &str = "measure this point again, or leave it out";

/// Refuses a row that no storage can have produced.
pub fn check_row(row: &Row) -> Result<(), ProbeError> {
    let wrong = |message: String| Err(ProbeError::new(message, MEASURE_AGAIN));
    if row.point.block_bytes == 0 {
        return wrong("`block_bytes` is 0: an operation has at least one byte".into());
    }
    let share = row.point.read_share;
    if !(0.0..=1.0).contains(&share) {
        return wrong(format!("`read_share` is {share}: not between 0 and 1"));
    }
    match row.point.load {
        Load::Outstanding(outstanding) if outstanding < 1.0 => {
            return wrong(format!("`outstanding` is {outstanding}: a closed loop has at least 1"));
        }
        Load::Offered(rate) if rate <= 0.0 => {
            return wrong(format!("`offered_iops` is {rate}: a load has operations"));
        }
        _ => {}
    }
    if row.iops == Some(0.0) {
        return wrong("`iops` is 0: nothing was measured".into());
    }
    for (name, latency) in [("read", row.reads), ("write", row.writes)] {
        if !in_order(&latency) {
            return wrong(format!("a higher percentile of {name} latency is lower"));
        }
    }
    check_little(row)
}

fn in_order(latency: &Latency) -> bool {
    let known: Vec<f64> = [latency.p50_ms, latency.p95_ms, latency.p99_ms].into_iter().flatten().collect();
    known.is_sorted()
}

fn check_little(row: &Row) -> Result<(), ProbeError> {
    let (Load::Outstanding(outstanding), Some(iops), Some(mean_ms)) =
        (row.point.load, row.iops, row.mean_ms())
    else {
        return Ok(());
    };
    let under_way = iops * mean_ms / 1e3;
    if (under_way / outstanding - 1.0).abs() <= LITTLE {
        return Ok(());
    }
    let message = format!(
        "breaks Little's law: {iops:.0} operations a second of {mean_ms:.3} ms are {under_way:.2} under way, \
         not {outstanding}"
    );
    Err(ProbeError::new(message, MEASURE_AGAIN))
}

/// Refuses a set in which IOPS equal bandwidth / block size everywhere. Its author measured only bandwidth and
/// divided, so the set says nothing about small blocks.
pub fn check_set(rows: &[Row]) -> Result<(), ProbeError> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows.iter().filter(|row| row.iops.is_some()) {
        match groups.iter_mut().find(|group| alike(group[0], row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.retain(|group| {
        let blocks = || group.iter().map(|row| row.point.block_bytes);
        blocks().max() >= blocks().min().map(|smallest| smallest * WIDE)
    });
    if groups.is_empty() || !groups.iter().all(|group| collapsed(group)) {
        return Ok(());
    }
    let bandwidth = bandwidth(groups[0][0]) / 1e6;
    let message = format!(
        "IOPS equal bandwidth / block size everywhere ({bandwidth:.0} MB/s at every size): a collapsed probe"
    );
    Err(ProbeError::new(message, "measure IOPS at each block size; do not derive them from a bandwidth"))
}

/// Whether two points differ only in their block size and their measured figures.
fn alike(one: &Row, other: &Row) -> bool {
    let key = |row: &Row| (row.point.read_share, row.point.pattern, row.point.load);
    one.point.pattern != Pattern::Sync && key(one) == key(other)
}

fn bandwidth(row: &Row) -> f64 {
    row.iops.unwrap_or_default() * row.point.block_bytes as f64
}

fn collapsed(group: &[&Row]) -> bool {
    let (least, most) = group.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), row| {
        (least.min(bandwidth(row)), most.max(bandwidth(row)))
    });
    most <= least * (1.0 + EQUAL)
}

#[cfg(test)]
mod tests {
    use crate::csv::read;

    use super::*;

    #[test]
    fn a_point_that_breaks_littles_law_is_refused() {
        let text = "block_bytes,outstanding,read_share,iops,read_mean_ms,write_mean_ms\n";
        read(&format!("{text}4096,8,0.5,8000,1.5,0.5\n4096,8,1,8000,0.95,\n")).unwrap();
        let error = read(&format!("{text}4096,8,0.5,8000,1.5,0.5\n4096,8,0.5,8000,15,0.5\n")).unwrap_err();
        assert!(error.message.starts_with("line 3: breaks Little's law"), "{}", error.message);
    }

    #[test]
    fn a_set_that_only_divides_a_bandwidth_is_refused() {
        let of = |iops: fn(f64, f64) -> f64| {
            let mut text = "block_bytes,outstanding,read_share,iops\n".to_owned();
            for outstanding in [1.0, 8.0] {
                for block in [4096.0, 16384.0, 65536.0, 1048576.0] {
                    text += &format!("{block},{outstanding},1,{}\n", iops(block, outstanding));
                }
            }
            check_set(&read(&text).unwrap())
        };
        let error = of(|block, outstanding| 5e8 * outstanding.sqrt() / block).unwrap_err();
        assert!(error.message.contains("collapsed"), "{}", error.message);
        of(|block, outstanding| outstanding / (1e-4 + block / 5e8)).unwrap();
    }
}
