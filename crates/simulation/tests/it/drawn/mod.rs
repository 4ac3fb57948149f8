//! Drills drawn from seeds.

use std::fmt::Write as _;

use solution::Solution;

/// Hosts and copies: name, sites with hosts in each, copies per site.
pub const LAYOUTS: [(&str, u64, u64, &str); 4] = [
    ("two hosts", 1, 2, "[2]"),
    ("three hosts", 1, 3, "[3]"),
    ("two sites", 2, 1, "[1, 1]"),
    ("two sites of two", 2, 2, "[2, 2]"),
];
pub const DIALS: [&str; 3] = ["lossless", "good_availability", "best_availability"];
pub const KINDS: [&str; 4] = ["host_killed", "host_cut_off", "volume_failed", "site_lost"];
/// Time from the event before to the failure of a volume, s. A failed volume takes the log that only it holds, so the
/// other copies must have had time to fetch it.
const WHOLE_AGAIN_S: u64 = 25;

pub struct Drawn {
    pub solution: Solution,
    pub text: String,
    /// Whether pages of the active copies get flipped bits. There are enough copies that one of them holds each page
    /// intact at any time.
    pub rots: bool,
    /// Words about the drill: its layout, its dial, and the kinds of its failures.
    pub said: Vec<&'static str>,
}

/// Draws the drill of a seed: one to three failures, each of which ends before the next one begins.
pub fn draw(seed: u64) -> Drawn {
    let mut number = testkit::numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (0..8).for_each(|_| _ = number());
    let mut below = |end: u64| number() % end;
    let (layout, sites, hosts, per_site) = LAYOUTS[below(4) as usize];
    let dial = DIALS[below(3) as usize];
    let partner = ["same_site", "other_site"][below(2) as usize];
    let batches_per_s = 2 + below(4);
    // Small ones, so that old log goes while the drill lasts.
    let log_file_kib = [128, 256, 1024][below(3) as usize];
    let mut said = vec![layout, dial];
    let (mut events, mut at_s) = (String::new(), 5);
    for _ in 0..=below(3) {
        // Two copies, and both of them in a site that is lost, serve no user; that is expected.
        let kinds = if sites > 1 { 4 } else { 3 };
        let kind = KINDS[below(kinds) as usize];
        let back_after_s = 2 + below(10);
        at_s += if kind == "volume_failed" { WHOLE_AGAIN_S } else { 1 + below(9) };
        let site = ["A", "B"][below(sites) as usize];
        let what = match kind {
            "site_lost" => format!("site = \"{site}\""),
            _ => format!("host = \"{site}{}\"", 1 + below(hosts)),
        };
        let volume = if kind == "volume_failed" { "volume = \"V\"\n" } else { "" };
        writeln!(
            events,
            "[[test.drill.event]]\nkind = \"{kind}\"\n{what}\n{volume}at_s = {at_s}\nback_after_s = {back_after_s}"
        )
        .expect("a string takes it");
        at_s += back_after_s;
        said.push(kind);
    }
    // A seeding reads each rotten page five times more; a volume that fails meanwhile takes the last whole copy.
    let rots = hosts == 3 && !said.contains(&"volume_failed");
    let mut places = String::new();
    for site in &["A", "B"][..sites as usize] {
        writeln!(
            places,
            "[[site]]\nname = \"{site}\"\n[[host]]\nname = \"{site}{{n}}\"\ncount = {hosts}\nsite = \"{site}\""
        )
        .expect("a string takes it");
    }
    let drill = format!("mount_dial = \"{dial}\"\npartner = \"{partner}\"\n{events}");
    let duration_s = at_s + 10;
    let name = format!("seed {seed}");
    let (name, places, drill) = (name.as_str(), places.as_str(), drill.as_str());
    let text =
        Drilled { name, databases: 2, per_site, places, log_file_kib, batches_per_s, duration_s, drill }
            .text();
    let solution = Solution::parse(&text, "drill.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    Drawn { solution, text, rots, said }
}

/// Parts of a small solution with a drill.
pub struct Drilled<'a> {
    pub name: &'a str,
    pub databases: u64,
    /// Copies, by site.
    pub per_site: &'a str,
    /// The tables of sites and hosts.
    pub places: &'a str,
    pub log_file_kib: u64,
    pub batches_per_s: u64,
    pub duration_s: u64,
    /// The table of the drill and those of its failures.
    pub drill: &'a str,
}

impl Drilled<'_> {
    pub fn text(&self) -> String {
        let Drilled { name, databases, per_site, places, log_file_kib, batches_per_s, duration_s, drill } =
            self;
        format!(
            r#"
[solution]
name = "{name}"
schema = 1
[profile]
exchange = "2016"
mailboxes = 20
messages_per_day = 150
quota_mb = 64
[dag]
databases = {databases}
databases_per_volume = {databases}
[copies]
per_site = {per_site}
{places}
[[volume]]
name = "V"
path = "/v"
capacity_gib = 100
[[instance]]
name = "DB{{n}}"
count = {databases}
volume = "V"
log_file_kib = {log_file_kib}
[sizing]
database_mib = 32
[engine]
cache_min_mib = 4
cache_max_mib = 8
[load]
batches_per_s = {batches_per_s}
copies = 1
[[test]]
kind = "drill"
duration_s = {duration_s}
warmup_limit_s = 3
[test.drill]
{drill}"#
        )
    }
}
