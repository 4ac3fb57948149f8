//! The users, with nothing left to default but what the planner derives by its formulas.

use crate::error::{Checked, Wrong};
use crate::file::{Generation, Profile, SolutionFile};

/// The users. What is `None` follows from other figures by a formula of the planner, unless its line says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Users {
    /// Generation of Exchange.
    pub generation: Generation,
    /// Mailboxes in the whole environment.
    pub mailboxes: u64,
    /// Messages sent and received per mailbox and day; not known when `None`, and then `iops_per_mailbox` is.
    pub messages_per_day: Option<f64>,
    /// Mean message size in KB.
    pub message_kb: f64,
    /// Mailbox quota in MB; not known when `None`, and then `mailbox_mb` is.
    pub quota_mb: Option<f64>,
    /// Room added to the I/O of a mailbox, in percent.
    pub headroom_percent: f64,
    /// I/O per second of one mailbox without headroom.
    pub iops_per_mailbox: Option<f64>,
    /// I/O per second of one mailbox with headroom, as tests print it.
    pub test_iops_per_mailbox: Option<f64>,
    /// Factor on the I/O of `iops_multiplied_percent` of the users.
    pub iops_multiplier: f64,
    /// Users that `iops_multiplier` applies to, in percent.
    pub iops_multiplied_percent: f64,
    /// I/O per second added to each server.
    pub extra_iops_per_server: f64,
    /// Share of reads in the database I/O, in percent.
    pub read_percent: f64,
    /// Transaction logs per mailbox and day.
    pub logs_per_mailbox_day: Option<f64>,
    /// Share of mailboxes moved per week, in percent.
    pub moves_percent_per_week: f64,
    /// Mailbox size on disk in MB.
    pub mailbox_mb: Option<f64>,
    /// Days that deleted items are kept.
    pub deleted_item_days: f64,
    /// Single item recovery keeps deleted items for the whole time.
    pub single_item_recovery: bool,
    /// Calendar versions are logged.
    pub calendar_versions: bool,
    /// Growth of the database beyond its mailboxes, in percent.
    pub data_overhead_percent: f64,
    /// Content index, in percent of the database.
    pub content_index_percent: f64,
    /// Room for one index merge per volume, in percent of one database.
    pub index_merge_percent: f64,
    /// Free space kept on each volume, in percent.
    pub free_percent: f64,
    /// Days of logs kept when truncation fails.
    pub truncation_days: f64,
    /// Days of logs kept when the network between copies fails.
    pub network_days: f64,
    /// Background maintenance per copy in MB/s.
    pub maintenance_mb_per_s: f64,
    /// Days of mail that the transport queue may hold.
    pub queue_days: f64,
    /// Days of mail that Safety Net holds.
    pub safety_net_days: f64,
    /// Database cache per active mailbox in MB.
    pub cache_mb_per_mailbox: Option<f64>,
    /// Processor megacycles per active mailbox.
    pub active_mcycles: Option<f64>,
    /// Processor megacycles per passive mailbox.
    pub passive_mcycles: Option<f64>,
    /// Servers carry the client access part as well.
    pub multi_role: bool,
    /// Largest share of a day's logs that falls into one hour, in percent.
    pub peak_hour_log_percent: f64,
}

/// Generation that defaults follow from when the file does not say one.
const USUAL_GENERATION: Generation = Generation::E2016;

/// Generation of Exchange.
pub(crate) fn generation(file: &SolutionFile) -> Generation {
    file.profile.as_ref().map_or(USUAL_GENERATION, |profile| profile.exchange)
}

/// The users, or what the file does not say about them.
pub(crate) fn users(file: &SolutionFile) -> Checked<Users> {
    let Some(profile) = &file.profile else {
        let lack = Wrong::new("profile", "nothing is said about the users");
        return Err(lack.help("add [profile] with exchange, mailboxes and messages_per_day"));
    };
    refuse_unsized(profile)?;
    let generation = profile.exchange;
    let (is_2010, since_2010) = (generation == Generation::E2010, generation >= Generation::E2010);
    let since_2013 = generation >= Generation::E2013;
    let index_percent = if since_2013 { 20.0 } else { 0.0 };
    Ok(Users {
        generation,
        mailboxes: profile.mailboxes,
        messages_per_day: profile.messages_per_day,
        message_kb: profile.message_kb.unwrap_or(75.0),
        quota_mb: profile.quota_mb,
        headroom_percent: profile.headroom_percent.unwrap_or(20.0),
        iops_per_mailbox: profile.iops_per_mailbox,
        test_iops_per_mailbox: profile.test_iops_per_mailbox,
        iops_multiplier: profile.iops_multiplier.unwrap_or(1.0),
        iops_multiplied_percent: profile.iops_multiplied_percent.unwrap_or(100.0),
        extra_iops_per_server: profile.extra_iops_per_server.unwrap_or(0.0),
        read_percent: profile.read_percent.unwrap_or(60.0),
        logs_per_mailbox_day: profile.logs_per_mailbox_day,
        moves_percent_per_week: profile.moves_percent_per_week.unwrap_or(1.0),
        mailbox_mb: profile.mailbox_mb,
        deleted_item_days: profile.deleted_item_days.unwrap_or(14.0),
        single_item_recovery: profile.single_item_recovery.unwrap_or(since_2010),
        calendar_versions: profile.calendar_versions.unwrap_or(since_2010),
        data_overhead_percent: profile.data_overhead_percent.unwrap_or(if is_2010 { 20.0 } else { 0.0 }),
        content_index_percent: profile.content_index_percent.unwrap_or(index_percent),
        index_merge_percent: profile.index_merge_percent.unwrap_or(index_percent),
        free_percent: profile.free_percent.unwrap_or(5.0),
        truncation_days: profile.truncation_days.unwrap_or(3.0),
        network_days: profile.network_days.unwrap_or(0.0),
        maintenance_mb_per_s: profile.maintenance_mb_per_s.unwrap_or(1.0),
        queue_days: profile.queue_days.unwrap_or(2.0),
        safety_net_days: profile.safety_net_days.unwrap_or(2.0),
        cache_mb_per_mailbox: profile.cache_mb_per_mailbox,
        active_mcycles: profile.active_mcycles,
        passive_mcycles: profile.passive_mcycles,
        multi_role: profile.multi_role.unwrap_or(since_2013),
        peak_hour_log_percent: profile.peak_hour_log_percent.unwrap_or(10.0),
    })
}

/// Users are sized by the I/O and the size of their mailboxes: stated, or following from messages and quota.
fn refuse_unsized(profile: &Profile) -> Checked<()> {
    let generation = profile.exchange;
    let follows = generation >= Generation::E2010 && profile.messages_per_day.is_some();
    if profile.iops_per_mailbox.is_none() && !follows {
        let year = generation.year();
        return Err(match generation < Generation::E2010 {
            true => {
                let message =
                    format!("Exchange {year} is sized with the I/O of a mailbox, which is not given");
                Wrong::new("profile", message).help("add iops_per_mailbox")
            }
            false => {
                let message = "the I/O of a mailbox follows from its messages, which are not given";
                Wrong::new("profile", message).help("add messages_per_day or iops_per_mailbox")
            }
        });
    }
    if profile.quota_mb.is_none() && profile.mailbox_mb.is_none() {
        return Err(Wrong::new("profile", "the size of a mailbox is not given").help("add quota_mb"));
    }
    Ok(())
}
