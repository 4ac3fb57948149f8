//! What is planted.

use super::solutions::Case;

/// A kind of cause.
pub struct Kind {
    /// Names of the cause; each of them is a right answer.
    pub names: &'static [&'static str],
    /// Change that the sound case has too.
    pub base: fn(Case) -> Case,
    /// Plants the cause with a severity from 0 to 1.
    pub plant: fn(Case, f64) -> Case,
}

/// Severity of a cause, drawn from the seed and the kind.
pub fn severity(seed: u64, kind: usize) -> f64 {
    let drawn = (seed * 1_000 + kind as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    drawn as f64 / f64::from(1 << 24)
}

/// Replaces shipped assumptions about a storage part.
fn assume(case: Case, table: &str, lines: &[(&str, f64)]) -> Case {
    let line = |(key, value): &(&str, f64)| {
        let value = if *key == "steps" { format!("{value}") } else { format!("{value:.1}") };
        format!("{key} = {{ value = {value}, source = \"assumption: planted\" }}\n")
    };
    Case { assumptions: format!("[{table}]\n{}", lines.iter().map(line).collect::<String>()), ..case }
}

fn fault(case: Case, text: String) -> Case {
    Case { fault: format!("test = \"performance\"\n{text}"), ..case }
}

const STALL: &str = "[array.remote_copy]\ndistance_km = 1\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"";
const CONTROLLER: &str = "controller.sas-array-2013";

fn same(case: Case) -> Case {
    case
}

/// A pool of mirrored disks in place of groups, so that a clone of it can be read.
fn pool(case: Case) -> Case {
    let sessions = case.sessions.max(8);
    Case { is_thin: true, sessions, disks: 4, raid: "raid10", volumes: 1, database_mib: 30_000, ..case }
}

/// All kinds.
pub const KINDS: [Kind; 18] = [
    Kind {
        names: &["too_much_load", "load_above_target"],
        base: same,
        plant: |c, x| c.with_load(4.0 + 4.0 * x),
    },
    Kind {
        names: &["too_few_sessions"],
        base: same,
        plant: |c, _| Case { is_paced: false, sessions: 1, ..c },
    },
    Kind {
        names: &["processors"],
        base: same,
        plant: |c, x| assume(c, "host.default", &[("io_us", 4_500.0 + 3_000.0 * x)]),
    },
    Kind {
        names: &["load_above_target"],
        base: same,
        plant: |c, x| Case { is_paced: false, sessions: 120 + (100.0 * x) as u32, target: 10.0, ..c },
    },
    Kind {
        names: &["one_slow_part"],
        base: same,
        plant: |c, x| {
            fault(c, format!("kind = \"disk_slow\"\ndisk = 1\nfactor = {:.1}\nat_s = 0", 3.0 + 4.0 * x))
        },
    },
    Kind {
        names: &["lost_path"],
        base: same,
        plant: |c, x| fault(c, format!("kind = \"controller_fails\"\nat_s = {}", 5 + (15.0 * x) as u32)),
    },
    Kind {
        names: &["write_cache_off"],
        base: same,
        plant: |c, x| fault(c, format!("kind = \"cache_unprotected\"\nat_s = {}", (12.0 * x) as u32)),
    },
    Kind {
        names: &["rebuild"],
        base: same,
        plant: |c, x| {
            let case = fault(c, "kind = \"disk_fails\"\ndisk = 1\nat_s = 0".into());
            assume(case, "rebuild.default", &[("start_after_ms", 100.0), ("steps", 8.0 + (24.0 * x).floor())])
        },
    },
    Kind {
        names: &["throttled"],
        base: same,
        plant: |c, x| assume(c, CONTROLLER, &[("mb_per_s", 2.5 + 2.0 * x)]),
    },
    Kind {
        names: &["noisy_neighbour"],
        base: pool,
        plant: |c, x| {
            let rate = 150 + (300.0 * x) as u32;
            fault(c, format!("kind = \"clone_read\"\nat_s = 3\nmib_per_s = {rate}"))
        },
    },
    Kind {
        names: &["stalled_sync"],
        base: |c| Case { array: STALL, ..c },
        plant: |c, x| {
            let seconds = 4 + (6.0 * x) as u32;
            fault(c, format!("kind = \"remote_copy_lost\"\nat_s = 12\nduration_s = {seconds}"))
        },
    },
    Kind {
        names: &["slow_disks"],
        base: same,
        plant: |c, x| {
            let average = 16.0 + 6.0 * x;
            let seeks =
                [("seek_average_ms", average), ("seek_full_ms", 2.0 * average), ("seek_track_ms", 6.0)];
            assume(c, "drive.ST4000NM0023", &seeks)
        },
    },
    Kind {
        names: &["slow_acknowledge"],
        base: same,
        plant: |c, x| assume(c, CONTROLLER, &[("acknowledge_us", 12_000.0 + 10_000.0 * x)]),
    },
    Kind {
        names: &["link_full"],
        base: same,
        plant: |c, x| assume(c, "link.sas-6g-x4", &[("mb_per_s", 1.5 + x)]),
    },
    Kind {
        names: &["database_fits_cache"],
        base: same,
        plant: |c, _| Case { database_mib: 16, cache_mib: 256, warmup_s: 2, duration_s: 4, ..c },
    },
    Kind {
        names: &["write_cache_full"],
        base: |c| c.with_load(1.9),
        plant: |c, _| Case { array_cache_mib: 1, ..c },
    },
    Kind {
        names: &["cache_too_small"],
        base: |c| {
            let target = if c.is_paced { c.target } else { 1.9 * c.target };
            Case { flush_percent: [2, 3], ..Case { target, ..c }.with_load(1.9) }
        },
        plant: |c, _| Case { cache_mib: 1, ..c },
    },
    Kind {
        names: &["write_bursts"],
        base: |c| Case { cache_mib: 64, ..c },
        plant: |c, _| Case { flush_percent: [1, 50], ..c },
    },
];
