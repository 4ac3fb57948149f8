//! The formulas of the sizing, one function each.
//!
//! All are in f64 and unrounded unless the formula itself rounds; display rounds half up ([`round_half_up`]).
//! GB and MB are binary, as in the published tables. *Source* says where a formula is documented; "fits" names
//! the published tables whose printed cells it reproduces (`docs/planning.md` has the list).

use solution::{Generation, LagLogRule, Raid};

/// Rounds half up to a whole number, as tables are printed. A value that lies below a half only by rounding errors
/// counts as a half.
pub fn round_half_up(value: f64) -> f64 {
    (value * (1.0 + 8.0 * f64::EPSILON) + 0.5).floor()
}

/// Database I/O per second of one mailbox, without headroom, from its messages per day. `None` for generations that
/// are sized with a given figure (2003, 2007).
///
/// Source: vendor white papers for 2010 (0.0012 alone, 0.001 in a group); fits the R740xd and MD3260 tables for
/// 2013 and 2016 (0.00067, the slope of the published guidance table before its rounding). 2019 and SE are sized like
/// 2016: no table of their own is public.
pub fn iops_per_mailbox(generation: Generation, messages_per_day: f64, copies: u32) -> Option<f64> {
    let per_message = match generation {
        Generation::E2003 | Generation::E2007 => return None,
        Generation::E2010 if copies > 1 => 0.001,
        Generation::E2010 => 0.0012,
        Generation::E2013 | Generation::E2016 | Generation::E2019 | Generation::Se => 0.00067,
    };
    Some(per_message * messages_per_day)
}

/// I/O per second and mailbox with the multiplier of some of the users and with headroom.
///
/// Source: the role calculator's inputs "IOPS multiplication factor" and "I/O overhead factor".
pub fn iops_with_headroom(iops: f64, multiplier: f64, multiplied_percent: f64, headroom_percent: f64) -> f64 {
    iops * (1.0 + (multiplier - 1.0) * multiplied_percent / 100.0) * (1.0 + headroom_percent / 100.0)
}

/// Log writes per second of one copy, active or passive: half of its database writes.
///
/// Source: fits both Dell tables.
pub fn log_writes_per_s(database_iops: f64, read_share: f64) -> f64 {
    0.5 * (1.0 - read_share) * database_iops
}

/// Log reads per log write of an active copy: what the passive copies fetch.
///
/// Source: fits both Dell tables.
pub const LOG_READS_PER_WRITE: f64 = 0.1;

/// Log I/O per second of one server: every copy writes, and the actives of the worst case are read.
///
/// Source: fits MD3260 (14 copies, 9 worst actives: 96.26) and R740xd (96 copies, 56: 63.82).
pub fn log_iops_per_server(log_writes_per_s: f64, copies: f64, worst_actives: f64) -> f64 {
    log_writes_per_s * (copies + LOG_READS_PER_WRITE * worst_actives)
}

/// Transaction logs of 1 MB that one mailbox writes per day: 20 per 100 messages of 75 KB, 1.9 times that for
/// each doubling of the size. Below 75 KB the rate stays at that of 75 KB (unknown, so the safe side).
///
/// Source: Exchange Team Blog, "Capacity Planning – Yes, Transaction Log Space is Critical to Your Design".
pub fn user_logs_per_day(messages_per_day: f64, message_kb: f64) -> f64 {
    0.2 * messages_per_day * (1.0 + 0.9 * (message_kb.max(75.0) / 75.0 - 1.0))
}

/// Logs of 1 MB per day from moving mailboxes.
///
/// Source: fits the MD3260 table (1 % of the mailboxes a week).
pub fn move_logs_per_day(mailboxes: f64, mailbox_mb: f64, percent_per_week: f64) -> f64 {
    mailboxes * mailbox_mb * percent_per_week / 100.0 / 7.0
}

/// Parts that make a mailbox larger on disk than its quota.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MailboxContent {
    /// Quota of the mailbox, MB.
    pub quota_mb: f64,
    /// Messages per day of the mailbox.
    pub messages_per_day: f64,
    /// Mean message size, KB.
    pub message_kb: f64,
    /// Days for which deleted items are kept.
    pub deleted_item_days: f64,
    /// Whether single item recovery is on: 1.2 % of the quota.
    pub single_item_recovery: bool,
    /// Whether calendar versions are kept: 3 % of the quota.
    pub calendar_versions: bool,
}

impl MailboxContent {
    /// White space in MB: the mail of one day.
    pub fn white_space_mb(self) -> f64 {
        self.messages_per_day * self.message_kb / 1024.0
    }

    /// Dumpster in MB: deleted items, single item recovery, calendar versions.
    pub fn dumpster_mb(self) -> f64 {
        let recovery = if self.single_item_recovery { 0.012 } else { 0.0 };
        let calendar = if self.calendar_versions { 0.03 } else { 0.0 };
        self.quota_mb * (recovery + calendar) + self.white_space_mb() * self.deleted_item_days
    }
}

/// Mailbox size on disk in whole MB: quota, one day of white space, deleted items, single item recovery,
/// calendar versions.
///
/// Source: the role calculator's documentation; fits MD3260 (4487.76, used as 4488).
pub fn mailbox_mb(content: MailboxContent) -> f64 {
    round_half_up(content.quota_mb + content.white_space_mb() + content.dumpster_mb())
}

/// Database size in GB.
///
/// Source: fits MD3260 (mailboxes per database stay fractional).
pub fn database_gb(mailboxes: f64, mailbox_mb: f64, overhead_percent: f64) -> f64 {
    mailboxes * mailbox_mb / 1024.0 * (1.0 + overhead_percent / 100.0)
}

/// Days of logs that a volume must hold.
///
/// Source: the calculator takes the longer of the tolerance and the lag; the storage configuration page of Exchange's
/// documentation provisions the tolerance beyond the lag.
pub fn log_days(tolerance_days: f64, lag_days: Option<f64>, rule: LagLogRule) -> f64 {
    match (lag_days, rule) {
        (None, _) => tolerance_days,
        (Some(lag), LagLogRule::Longer) => tolerance_days.max(lag),
        (Some(lag), LagLogRule::BeyondLag) => tolerance_days + lag,
    }
}

/// Log space of one copy in GB: the user logs of these days and one whole week of moves.
///
/// Source: fits MD3260 (3 days: 42.34).
pub fn log_gb(days: f64, user_logs_per_day: f64, move_logs_per_day: f64) -> f64 {
    (days * user_logs_per_day + 7.0 * move_logs_per_day) / 1024.0
}

/// Share of a database's volume, per GB of database: the database, its content index, and one index merge per volume.
///
/// Source: the calculator's version notes; fits MD3260 (1.4 at one database per volume, 1.25 at four).
pub fn index_factor(index_percent: f64, merge_percent: f64, databases_per_volume: f64) -> f64 {
    1.0 + index_percent / 100.0 + merge_percent / 100.0 / databases_per_volume
}

/// Volume size for a given need, if a percentage of the volume stays free.
pub fn with_free_space(gb: f64, free_percent: f64) -> f64 {
    gb / (1.0 - free_percent / 100.0)
}

/// Transport queue database of one server in GB.
///
/// Source: the published sizing post ("Ask the Perf Guy: Sizing Exchange 2013 Deployments"); fits MD3260 (429.15 with
/// 4 servers left). The factor 2 is shadow redundancy; the queue counts half.
pub fn transport_gb(
    messages_per_day: f64,
    message_kb: f64,
    servers_left: f64,
    queue_days: f64,
    safety_net_days: f64,
) -> f64 {
    let kb_per_day = messages_per_day * message_kb / servers_left;
    kb_per_day * 2.0 * (1.0 + 0.5 * queue_days + safety_net_days) / f64::from(1 << 20)
}

/// Network of one copy's log shipping at the busiest hour, in Mbit/s: logs after 30 % compression, and the
/// content index (up to 2016; from 2019 it lies inside the database).
///
/// Source: the calculator's replication inputs.
pub fn replication_mbit_per_s(logs_per_day: f64, peak_hour_percent: f64, ships_index: bool) -> f64 {
    let index = if ships_index { 1.0 } else { 0.0 };
    peak_hour_percent / 100.0 * logs_per_day * 8.0 / 3600.0 * (0.7 + index)
}

/// Database cache of one active mailbox in MB: 3 MB per 50 messages a day.
///
/// Source: fits the published tables of 2013; the same steps (3 to 30 MB) are documented for 2010.
pub fn cache_mb_per_mailbox(messages_per_day: f64) -> f64 {
    0.06 * messages_per_day
}

/// Database cache of a server in whole GB at the worst number of active mailboxes.
pub fn cache_gb(worst_active_mailboxes: f64, cache_mb_per_mailbox: f64) -> f64 {
    (worst_active_mailboxes * cache_mb_per_mailbox / 1024.0).ceil()
}

/// Memory of a server in GB: the cache is a quarter of the mailbox role's, the client access part comes on top,
/// and there is a minimum by the number of copies (the table ends at 50).
///
/// Source: Exchange's documentation of the managed store (25 %); client access part inferred from the published
/// tables.
pub fn memory_gb(cache_gb: f64, multi_role: bool, cores: u32, copies: f64) -> f64 {
    let least = 8.0 + 2.0 * ((copies / 10.0).ceil() - 1.0).clamp(0.0, 4.0);
    let client_access = if multi_role { 2.0 + 2.0 * 0.2 * f64::from(cores) } else { 0.0 };
    (4.0 * cache_gb).max(least) + client_access
}

/// Memory that is bought for this need, GB: 6, 8, 12 or 16 modules of one size.
///
/// Source: the sizes that servers are sold with; `None` above the largest.
pub fn fitted_memory_gb(need_gb: f64) -> Option<f64> {
    const SIZES: [f64; 14] =
        [8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0];
    SIZES.into_iter().find(|&size| size >= need_gb)
}

/// Largest memory that the maker recommends for a server, GB.
///
/// Source: Exchange Team Blog ("How big is too big?") for 2013, its update for 2016, the Preferred Architecture for
/// 2019 and SE.
pub fn largest_memory_gb(generation: Generation) -> Option<f64> {
    match generation {
        Generation::E2003 | Generation::E2007 | Generation::E2010 => None,
        Generation::E2013 => Some(96.0),
        Generation::E2016 => Some(192.0),
        Generation::E2019 | Generation::Se => Some(256.0),
    }
}

/// Processor megacycles of one active mailbox. Client access on the same server adds 37.5 % (0.0584375 per message).
///
/// Source: the published sizing post of 2013, quoted by a public sizing script; filled-in workbooks agree to
/// four decimals.
pub fn active_mcycles(messages_per_day: f64, multi_role: bool) -> f64 {
    messages_per_day * 0.0425 * if multi_role { 1.375 } else { 1.0 }
}

/// Processor megacycles of one passive mailbox. Source: as [`active_mcycles`].
pub fn passive_mcycles(messages_per_day: f64) -> f64 {
    0.0137 * messages_per_day
}

/// Megacycles that a server offers, from its SPECint2006 rate. Source: as [`active_mcycles`] (33.75 per core = 2000).
pub fn available_mcycles(specint_rate: f64) -> f64 {
    specint_rate * 2000.0 / 33.75
}

/// SPECint2006 rate per SPECint2017 rate (base) of the same server. The maker published no sizing figure for the
/// newer benchmark. Assumption: servers that published both lie between 9 and 10, and the smaller ratio is the safe
/// side.
pub const SPECINT2006_PER_2017: f64 = 9.0;

/// Megacycles that a server offers, from its SPECint2006 rate, else from its SPECint2017 rate.
pub fn server_mcycles(specint2006_rate: Option<f64>, specint2017_rate: Option<f64>) -> Option<f64> {
    let converted = specint2017_rate.map(|rate| rate * SPECINT2006_PER_2017);
    specint2006_rate.or(converted).map(available_mcycles)
}

/// Back-end writes per front-end write.
///
/// Source: textbook values; each parity adds a read and a write (5: 4, 6: 6, triple: 8), each replica a write.
pub fn write_penalty(raid: Raid) -> f64 {
    match raid {
        Raid::Jbod | Raid::Raid0 => 1.0,
        Raid::Raid1 | Raid::Raid10 | Raid::Replica2 => 2.0,
        Raid::Replica3 => 3.0,
        Raid::Raid5 => 4.0,
        Raid::Raid6 => 6.0,
        Raid::TripleParity => 8.0,
    }
}

/// Back-end I/O per second.
pub fn back_end_iops(iops: f64, read_share: f64, write_penalty: f64) -> f64 {
    iops * (read_share + (1.0 - read_share) * write_penalty)
}

/// Share of the disks' I/O that is left while a failed disk is rebuilt. Without redundancy nothing is rebuilt:
/// the copy is reseeded instead.
///
/// Source: the calculator's derating (0.65 mirrored, 0.5 parity).
pub fn rebuild_share(raid: Raid) -> f64 {
    match raid {
        Raid::Jbod | Raid::Raid0 => 1.0,
        Raid::Raid1 | Raid::Raid10 | Raid::Replica2 | Raid::Replica3 => 0.65,
        Raid::Raid5 | Raid::Raid6 | Raid::TripleParity => 0.5,
    }
}

/// Largest database in GB that a volume of `formatted_gb` can carry, without logs.
///
/// Source: the calculator's figure for single disks; 1.25 is index plus merge at four databases per volume.
pub fn max_database_gb(
    formatted_gb: f64,
    free_percent: f64,
    databases_per_volume: f64,
    index_factor: f64,
) -> f64 {
    formatted_gb * (1.0 - free_percent / 100.0) / databases_per_volume / index_factor
}

/// Largest recommended database in GB, independent of the disks.
///
/// Source: the role calculator's workbooks show 2,000 GB with two or more copies, and 200 GB with one.
pub fn largest_database_gb(copies: u32) -> f64 {
    if copies > 1 { 2000.0 } else { 200.0 }
}

/// Mailboxes per database that a volume's I/O allows. Source: fits the calculator at four databases per volume.
pub fn mailboxes_by_io(volume_iops: f64, iops_with_headroom: f64, databases_per_volume: f64) -> f64 {
    (volume_iops / iops_with_headroom / databases_per_volume).floor()
}

/// Mailboxes per database that a volume's capacity allows (fractional, as the calculator keeps it).
pub fn mailboxes_by_capacity(max_database_gb: f64, mailbox_mb: f64) -> f64 {
    max_database_gb * 1024.0 / mailbox_mb
}

/// Number of databases of a group, by the smaller limit of mailboxes per database.
pub fn databases_needed(mailboxes: f64, by_io: f64, by_capacity: f64) -> f64 {
    (mailboxes / by_io.min(by_capacity).ceil().max(1.0)).ceil().max(1.0)
}

/// Number of databases with which the load of every lost server spreads evenly: a multiple of n(n-1) for each site
/// that hosts active databases.
pub fn even_databases(databases: u32, servers_per_site: u32, active_sites: u32) -> u32 {
    let step = active_sites.max(1) * servers_per_site * servers_per_site.saturating_sub(1);
    if step == 0 { databases } else { databases.div_ceil(step) * step }
}
