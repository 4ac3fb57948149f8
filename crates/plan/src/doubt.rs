//! Figures that may be, and are hardly meant.

use solution::Users;

/// Percentages that are doubtful below one percent: a share was probably written for a percentage.
fn percentages(users: &Users) -> [(&'static str, f64); 8] {
    [
        ("read_percent", users.read_percent),
        ("headroom_percent", users.headroom_percent),
        ("iops_multiplied_percent", users.iops_multiplied_percent),
        ("data_overhead_percent", users.data_overhead_percent()),
        ("content_index_percent", users.content_index_percent()),
        ("index_merge_percent", users.index_merge_percent()),
        ("free_percent", users.free_percent),
        ("peak_hour_log_percent", users.peak_hour_log_percent),
    ]
}

/// One sentence for each figure of the users that is worth a second look.
pub fn doubts(users: &Users) -> Vec<String> {
    /// No published profile has a smaller quota.
    const SMALL_QUOTA_MB: f64 = 25.0;
    let mut doubts = Vec::new();
    if users.messages_per_day == Some(0.0) {
        doubts.push(
            "messages_per_day = 0: mailboxes without mail write no logs and need no cache or processor"
                .into(),
        );
    }
    if let Some(quota_mb) = users.quota_mb.filter(|&mb| mb < SMALL_QUOTA_MB) {
        doubts.push(format!("quota_mb = {quota_mb} is a mailbox of {quota_mb} MB, not GB"));
    }
    for (key, value) in percentages(users).into_iter().filter(|&(_, value)| value > 0.0 && value < 1.0) {
        doubts.push(format!("{key} = {value} means {value} % and not {} %", (value * 1e4).round() / 100.0));
    }
    doubts
}
