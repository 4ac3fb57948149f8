//! Solution files that several crates test with.

/// Solution file of a small drill. Two hosts hold two copies of one database, and the first host is killed after 10 s
/// of 60 s. The text ends inside `[[test.drill.event]]`, so a test can append keys to it.
pub const SMALL_DRILL: &str = r#"
[solution]
name = "drill"
schema = 1
[profile]
exchange = "2016"
mailboxes = 10
messages_per_day = 150
quota_mb = 64
[dag]
databases = 1
[copies]
per_site = [2]
[[host]]
name = "h{n}"
count = 2
[[volume]]
name = "V"
path = "/v"
capacity_gib = 100
[[instance]]
name = "DB"
volume = "V"
[sizing]
database_mib = 64
[load]
batches_per_s = 1
[[test]]
kind = "drill"
duration_s = 60
[test.drill]
[[test.drill.event]]
kind = "host_killed"
host = "h1"
at_s = 10
"#;
