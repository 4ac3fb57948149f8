//! Solution files with a drill for hosts in namespaces.

/// Small databases with few batches, and latencies that prove nothing on a shared test machine.
pub struct Drilled<'a> {
    pub hosts: usize,
    pub databases: u32,
    /// Copies of each database in each site.
    pub per_site: &'a str,
    /// Sites of two hosts each; none for one site without a name.
    pub sites: &'a [&'a str],
    pub batches_per_s: u32,
    pub log_file_kib: u32,
    pub duration_s: u32,
    /// `[test.drill]` and its failures.
    pub drill: &'a str,
}

impl Drilled<'_> {
    fn places(&self) -> String {
        let mut places = String::new();
        for site in self.sites {
            places += &format!("[[site]]\nname = \"{site}\"\n");
        }
        for host in 1..=self.hosts {
            let site = match self.sites {
                [] => String::new(),
                sites => format!("site = \"{}\"\n", sites[(host - 1) / 2]),
            };
            // The controller has the first address.
            let address = host + 1;
            places +=
                &format!("[[host]]\nname = \"h{host}\"\ncopy_address = \"10.77.0.{address}:7400\"\n{site}");
        }
        places
    }

    pub fn text(&self) -> String {
        let Drilled { databases, per_site, batches_per_s, log_file_kib, duration_s, drill, .. } = self;
        let places = self.places();
        format!(
            r#"
[solution]
name = "Drill"
schema = 1

[profile]
exchange = "2016"
mailboxes = 30
messages_per_day = 150
quota_mb = 64

[dag]
databases = {databases}
databases_per_volume = 2

[copies]
per_site = {per_site}

{places}
[[volume]]
name = "V"
path = "data/{{host}}"
capacity_gib = 100

[[instance]]
name = "DB"
volume = "V"
log_file_kib = {log_file_kib}

[sizing]
database_mib = 16

[engine]
cache_min_mib = 4
cache_max_mib = 8

[load]
batches_per_s = {batches_per_s}
copies = 1

[thresholds]
read_avg_ms = 60000
read_max_ms = 60000
log_write_avg_ms = 60000
log_write_max_ms = 60000

[[test]]
kind = "drill"
duration_s = {duration_s}
warmup_limit_s = 3
{drill}"#
        )
    }
}
