//! Figures that may be, and are hardly meant.

use solution::Profile;

/// Percentages that nobody plans below one percent.
fn percentages(profile: &Profile) -> [(&'static str, Option<f64>); 8] {
    [
        ("read_percent", profile.read_percent),
        ("headroom_percent", profile.headroom_percent),
        ("iops_multiplied_percent", profile.iops_multiplied_percent),
        ("data_overhead_percent", profile.data_overhead_percent),
        ("content_index_percent", profile.content_index_percent),
        ("index_merge_percent", profile.index_merge_percent),
        ("free_percent", profile.free_percent),
        ("peak_hour_log_percent", profile.peak_hour_log_percent),
    ]
}

/// One sentence for each figure of the users that is worth a second look.
pub fn doubts(profile: &Profile) -> Vec<String> {
    /// No published profile has a smaller quota.
    const SMALL_QUOTA_MB: f64 = 25.0;
    let mut doubts = Vec::new();
    if profile.messages_per_day == Some(0.0) {
        doubts.push(
            "messages_per_day = 0: mailboxes without mail write no logs and need no cache or processor"
                .into(),
        );
    }
    if let Some(quota_mb) = profile.quota_mb.filter(|&mb| mb < SMALL_QUOTA_MB) {
        doubts.push(format!("quota_mb = {quota_mb} is a mailbox of {quota_mb} MB, not GB"));
    }
    let fractions = percentages(profile).into_iter().filter_map(|(key, value)| Some((key, value?)));
    for (key, value) in fractions.filter(|&(_, value)| value > 0.0 && value < 1.0) {
        doubts.push(format!("{key} = {value} means {value} % and not {} %", (value * 1e4).round() / 100.0));
    }
    doubts
}
