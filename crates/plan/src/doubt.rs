//! Figures that may be, and are hardly meant.

use solution::{Generation, Users};

use crate::formula;
use crate::inputs::Inputs;

/// Sentences about percentages below one percent, which are probably shares.
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

/// Sentences about figures of the users that are unusual.
pub fn doubts(users: &Users) -> Vec<String> {
    /// Smallest quota that is not questioned, MB: no published profile has a smaller one.
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

/// Sentence about servers that need more memory than the maker recommends.
pub fn much_memory(users: &Users, need_gb: Option<f64>) -> Option<String> {
    let most = formula::largest_memory_gb(users.exchange)?;
    let fitted =
        need_gb.filter(|&need| formula::fitted_memory_gb(need).is_none_or(|fitted| fitted > most))?;
    let name = users.exchange.name();
    Some(format!("{fitted:.0} GB are needed, and {most} GB are the most recommended for Exchange {name}"))
}

/// Sentence about what the plan assumes for Exchange 2019 and SE, for which the maker publishes no figures.
pub fn newer_generation(inputs: &Inputs<'_>) -> Vec<(&'static str, String)> {
    let users = inputs.users;
    let mut assumed = Vec::new();
    let converts = |host: &solution::HostSpec| host.specint_rate.is_none() && host.specint2017_rate.is_some();
    if inputs.solution.hosts.iter().any(converts) {
        let ratio = formula::SPECINT2006_PER_2017;
        let text = format!("1 SPECint2017 counts as {ratio} SPECint2006, which is an assumption");
        assumed.push(("SPECint2017", text));
    }
    if users.exchange < Generation::E2019 {
        return assumed;
    }
    let name = users.exchange.name();
    let figures = "I/O, logs, cache and megacycles of a mailbox are those of 2016";
    assumed.push(("figures of 2016", format!("{figures}: none are published for Exchange {name}")));
    if users.data_overhead_percent() == 0.0 {
        let text =
            "it lies inside the database; its share is not published and counts as 0 (data_overhead_percent)";
        assumed.push(("content index", text.to_owned()));
    }
    assumed
}
