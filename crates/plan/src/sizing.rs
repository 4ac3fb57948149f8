//! The sizing table: what each database, server, group and the whole environment needs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bound::Bound;
use crate::formula;
use crate::inputs::Inputs;
use solution::Generation;

/// One quantity at the four levels; `None` where it has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Name for machines.
    pub key: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// One database (one copy of it, for what is counted per copy).
    pub per_database: Option<f64>,
    /// One server; for logs per day one that normally hosts actives.
    pub per_server: Option<f64>,
    /// One group.
    pub per_dag: Option<f64>,
    /// All groups.
    pub per_environment: Option<f64>,
}

/// Memory and processor of one server in the worst failure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ServerNeed {
    /// Active databases that it is sized for.
    pub worst_actives: f64,
    /// Active mailboxes that it is sized for.
    pub worst_active_mailboxes: f64,
    /// Database cache in GB.
    pub cache_gb: f64,
    /// Memory in GB; known from 2013 on, when the cores are given.
    pub memory_gb: Option<f64>,
    /// Megacycles that the mailboxes need; known from 2013 on.
    pub mcycles: Option<f64>,
    /// Share of the server's processor, when its SPECint rate is given.
    pub cpu_share: Option<f64>,
}

/// The whole table, and the figures in between that explain it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sizing {
    /// Databases per group.
    pub databases: u32,
    /// Mailboxes per database (fractional).
    pub mailboxes_per_database: f64,
    /// Mailbox on disk in MB.
    pub mailbox_mb: f64,
    /// Logs per mailbox and day.
    pub logs_per_mailbox_day: f64,
    /// I/O per second and mailbox without headroom.
    pub iops_per_mailbox: f64,
    /// I/O per second and mailbox with headroom.
    pub iops_per_mailbox_with_headroom: f64,
    /// Reads in the database I/O, 0 to 1.
    pub read_share: f64,
    /// Copies per server, on average.
    pub copies_per_server: f64,
    /// Days of logs on a volume.
    pub log_days: f64,
    /// The quantities.
    pub rows: Vec<Row>,
    /// What the fullest server needs, by the calculator's bound.
    pub server: ServerNeed,
    /// Database GB of one copy.
    #[serde(skip)]
    pub database_gb: f64,
    /// Log GB of one copy.
    #[serde(skip)]
    pub log_gb: f64,
    /// Database I/O per second of one copy.
    #[serde(skip)]
    pub database_iops: f64,
    /// Log writes per second of one copy.
    #[serde(skip)]
    pub log_writes_per_s: f64,
}

impl Sizing {
    /// The row of a quantity.
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == key)
    }
}

/// Computes the table for so many databases, with the worst cases of `bound`.
pub fn size(inputs: &Inputs<'_>, databases: u32, bound: &Bound, separate_logs: bool) -> Sizing {
    let profile = &inputs.profile;
    let d = f64::from(databases);
    let servers = inputs.servers.len() as f64;
    let copies = d * f64::from(inputs.copies());
    let per_server = copies / servers;
    let dags = f64::from(inputs.dags);
    let v = f64::from(inputs.sized_databases_per_volume);
    let mailboxes = inputs.mailboxes_per_dag() / d;

    let user_logs = mailboxes * profile.logs_per_day;
    let move_logs = formula::move_logs_per_day(mailboxes, profile.mailbox_mb, profile.moves_percent);
    let database_gb = formula::database_gb(mailboxes, profile.mailbox_mb, profile.overhead_percent);
    let log_gb = formula::log_gb(profile.log_days, user_logs, move_logs);
    let indexed_gb = database_gb * formula::index_factor(profile.index_percent, profile.merge_percent, v);
    let on_volume = |gb: f64| formula::with_free_space(gb, profile.free_percent);
    let (volume_gb, log_volume_gb) = if separate_logs {
        (on_volume(indexed_gb), on_volume(log_gb))
    } else {
        (on_volume(indexed_gb + log_gb), 0.0)
    };
    let restore_gb = v * on_volume(database_gb + log_gb);
    let iops = mailboxes * profile.iops_with_headroom;
    let log_writes = formula::log_writes_per_s(iops, profile.read_share);
    let server_log_iops = formula::log_iops_per_server(log_writes, per_server, bound.worst_on_active_server);
    let left = f64::from(bound.servers_left.max(1)) * dags;
    let transport_gb = formula::transport_gb(
        profile.mailboxes * profile.messages_per_day,
        profile.message_kb,
        left,
        profile.queue_days,
        profile.safety_net_days,
    );
    let ships_index = profile.generation < Generation::E2019;
    let shipping =
        formula::replication_mbit_per_s(user_logs + move_logs, profile.peak_hour_percent, ships_index);
    let remote: u32 = inputs.copies_per_site.iter().skip(1).sum();

    // Three ways to add up: every copy counts, every database counts once, every server counts.
    let each_copy = |key, label, unit, value: f64| Row {
        key,
        label,
        unit,
        per_database: Some(value),
        per_server: Some(value * per_server),
        per_dag: Some(value * copies),
        per_environment: Some(value * copies * dags),
    };
    let each_database = |key, label, unit, value: f64| Row {
        key,
        label,
        unit,
        per_database: Some(value),
        per_server: Some(value * d / inputs.active_servers() as f64),
        per_dag: Some(value * d),
        per_environment: Some(value * d * dags),
    };
    let each_server = |key, label, unit, per_database: Option<f64>, value: f64| Row {
        key,
        label,
        unit,
        per_database,
        per_server: Some(value),
        per_dag: Some(value * servers),
        per_environment: Some(value * servers * dags),
    };
    let mut rows = vec![each_database("mailboxes", "Mailboxes", "", mailboxes)];
    if profile.logs_per_day > 0.0 {
        rows.push(each_database("user_logs_per_day", "Transaction logs of users", "/day", user_logs));
    }
    rows.push(each_database("move_logs_per_day", "Transaction logs of moves", "/day", move_logs));
    if profile.logs_per_day > 0.0 {
        rows.push(each_database("logs_per_day", "Transaction logs", "/day", user_logs + move_logs));
    }
    rows.extend([
        each_copy("database_gb", "Database space", "GB", database_gb),
        each_copy("log_gb", "Log space", "GB", log_gb),
        each_copy("database_volume_gb", "Volume space, database and log", "GB", volume_gb),
        each_copy("log_volume_gb", "Volume space, log alone", "GB", log_volume_gb),
        each_server("restore_volume_gb", "Restore volume", "GB", None, restore_gb),
    ]);
    if profile.generation >= Generation::E2013 && profile.messages_per_day > 0.0 {
        rows.push(each_server("transport_gb", "Transport queue database", "GB", None, transport_gb));
    }
    let extra = profile.extra_iops_per_server;
    rows.extend([
        each_server("database_iops", "Database I/O", "/s", Some(iops), iops * per_server + extra),
        each_server(
            "log_iops",
            "Log I/O",
            "/s",
            Some(log_writes * (1.0 + formula::LOG_READS_PER_WRITE)),
            server_log_iops,
        ),
        each_copy("maintenance_mb_per_s", "Background maintenance", "MB/s", profile.maintenance_mb_per_s),
    ]);
    if inputs.copies() > 1 {
        rows.push(Row {
            key: "replication_mbit_per_s",
            label: "Log shipping at the busiest hour",
            unit: "Mbit/s",
            per_database: Some(shipping),
            per_server: Some(shipping * d * f64::from(inputs.copies() - 1) / inputs.active_servers() as f64),
            per_dag: Some(shipping * d * f64::from(inputs.copies() - 1)),
            per_environment: Some(shipping * d * f64::from(inputs.copies() - 1) * dags),
        });
    }
    if remote > 0 {
        rows.push(Row {
            key: "site_link_mbit_per_s",
            label: "... of it between sites",
            unit: "Mbit/s",
            per_database: Some(shipping * f64::from(remote)),
            per_server: None,
            per_dag: Some(shipping * d * f64::from(remote)),
            per_environment: Some(shipping * d * f64::from(remote) * dags),
        });
    }
    Sizing {
        databases,
        mailboxes_per_database: mailboxes,
        mailbox_mb: profile.mailbox_mb,
        logs_per_mailbox_day: profile.logs_per_day,
        iops_per_mailbox: profile.iops,
        iops_per_mailbox_with_headroom: profile.iops_with_headroom,
        read_share: profile.read_share,
        copies_per_server: per_server,
        log_days: profile.log_days,
        rows,
        server: server_need(inputs, mailboxes, per_server, bound.worst),
        database_gb,
        log_gb,
        database_iops: iops,
        log_writes_per_s: log_writes,
    }
}

/// Memory and processor of the server with `actives` active databases among `copies`.
pub fn server_need(
    inputs: &Inputs<'_>,
    mailboxes_per_database: f64,
    copies: f64,
    actives: f64,
) -> ServerNeed {
    let profile = &inputs.profile;
    let worst_active_mailboxes = actives * mailboxes_per_database;
    let cache_gb = formula::cache_gb(worst_active_mailboxes, profile.cache_mb);
    let known = profile.generation >= Generation::E2013 && profile.active_mcycles > 0.0;
    let cores = inputs.servers.iter().filter_map(|server| server.cores).min();
    let passive = (copies - actives).max(0.0) * mailboxes_per_database;
    let mcycles = worst_active_mailboxes * profile.active_mcycles + passive * profile.passive_mcycles;
    let weakest = inputs.servers.iter().filter_map(|server| server.specint_rate).reduce(f64::min);
    ServerNeed {
        worst_actives: actives,
        worst_active_mailboxes,
        cache_gb,
        memory_gb: match (known, profile.multi_role, cores) {
            (false, _, _) | (_, true, None) => None,
            (_, multi_role, cores) => {
                Some(formula::memory_gb(cache_gb, multi_role, cores.unwrap_or(0), copies))
            }
        },
        mcycles: known.then_some(mcycles),
        cpu_share: weakest.filter(|_| known).map(|rate| mcycles / formula::available_mcycles(rate)),
    }
}
