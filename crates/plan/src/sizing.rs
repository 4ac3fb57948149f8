//! The sizing table: what each database, server, group and the whole environment needs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bound::Bound;
use crate::formula;
use crate::inputs::Inputs;
use solution::Generation;

/// Row of the sizing table: one quantity at four levels; `None` where it has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Stable name of the quantity.
    pub key: &'static str,
    /// Name of the quantity for people.
    pub label: &'static str,
    /// Unit of the quantity.
    pub unit: &'static str,
    /// Value for one database (one copy of it, if copies are counted).
    pub per_database: Option<f64>,
    /// Value for one server; for logs per day one that normally hosts active databases.
    pub per_server: Option<f64>,
    /// Value for one group.
    pub per_dag: Option<f64>,
    /// Value for all groups.
    pub per_environment: Option<f64>,
}

/// Memory and processor of one server in the worst failure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ServerNeed {
    /// Active databases for which the server is sized.
    pub worst_actives: f64,
    /// Active mailboxes for which the server is sized.
    pub worst_active_mailboxes: f64,
    /// Database cache, GB.
    pub cache_gb: f64,
    /// Memory, GB; from Exchange 2013 on, if the cores are given.
    pub memory_gb: Option<f64>,
    /// Megacycles that the mailboxes need; from Exchange 2013 on.
    pub mcycles: Option<f64>,
    /// Used share of the server's processor, if its SPECint rate is given.
    pub cpu_share: Option<f64>,
}

/// Sizing table with the figures that explain it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sizing {
    /// Number of databases per group.
    pub databases: u32,
    /// Number of mailboxes per database (fractional).
    pub mailboxes_per_database: f64,
    /// Size of a mailbox on disk, MB.
    pub mailbox_mb: f64,
    /// Logs per mailbox and day.
    pub logs_per_mailbox_day: f64,
    /// I/O per second and mailbox without headroom.
    pub iops_per_mailbox: f64,
    /// I/O per second and mailbox with headroom.
    pub iops_per_mailbox_with_headroom: f64,
    /// Share of reads in the database I/O, 0 to 1.
    pub read_share: f64,
    /// Mean number of copies per server.
    pub copies_per_server: f64,
    /// Days of logs on a volume.
    pub log_days: f64,
    /// Rows of the table.
    pub rows: Vec<Row>,
    /// Needs of the fullest server, by the calculator's bound.
    pub server: ServerNeed,
    /// Database size of one copy, GB.
    #[serde(skip)]
    pub database_gb: f64,
    /// Log space of one copy, GB.
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
    /// Row of a quantity, by its stable name.
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == key)
    }
}

/// Needs of one database (one copy of it, if copies are counted) and of one server.
struct Quantities {
    mailboxes: f64,
    user_logs: f64,
    move_logs: f64,
    database_gb: f64,
    log_gb: f64,
    volume_gb: f64,
    log_volume_gb: f64,
    restore_gb: f64,
    iops: f64,
    log_writes: f64,
    server_log_iops: f64,
    transport_gb: f64,
    shipping_mbit_per_s: f64,
}

impl Quantities {
    fn of(inputs: &Inputs<'_>, levels: &Levels, bound: &Bound) -> Quantities {
        let (users, figures) = (inputs.users, &inputs.figures);
        let v = f64::from(inputs.sized_databases_per_volume);
        let mailboxes = inputs.mailboxes_per_dag() / levels.databases;
        let user_logs = mailboxes * figures.logs_per_day;
        let move_logs =
            formula::move_logs_per_day(mailboxes, figures.mailbox_mb, users.moves_percent_per_week);
        let database_gb = formula::database_gb(mailboxes, figures.mailbox_mb, users.data_overhead_percent());
        let log_gb = formula::log_gb(figures.log_days, user_logs, move_logs);
        let indexed_gb = database_gb
            * formula::index_factor(users.content_index_percent(), users.index_merge_percent(), v);
        let on_volume = |gb: f64| formula::with_free_space(gb, users.free_percent);
        let (volume_gb, log_volume_gb) = if inputs.has_log_volumes() {
            (on_volume(indexed_gb), on_volume(log_gb))
        } else {
            (on_volume(indexed_gb + log_gb), 0.0)
        };
        let iops = mailboxes * figures.iops_with_headroom;
        let log_writes = formula::log_writes_per_s(iops, figures.read_share);
        let ships_index = users.exchange < Generation::E2019;
        Quantities {
            mailboxes,
            user_logs,
            move_logs,
            database_gb,
            log_gb,
            volume_gb,
            log_volume_gb,
            restore_gb: v * on_volume(database_gb + log_gb),
            iops,
            log_writes,
            server_log_iops: formula::log_iops_per_server(
                log_writes,
                levels.copies_per_server(),
                bound.worst_on_active_server,
            ),
            transport_gb: formula::transport_gb(
                figures.mailboxes * figures.messages_per_day,
                users.message_kb,
                f64::from(bound.servers_left.max(1)) * levels.dags,
                users.queue_days,
                users.safety_net_days,
            ),
            shipping_mbit_per_s: formula::replication_mbit_per_s(
                user_logs + move_logs,
                users.peak_hour_log_percent,
                ships_index,
            ),
        }
    }
}

/// Factors from one unit to server, group and environment. A quantity counts every copy, every database once, or every
/// server.
struct Levels {
    databases: f64,
    copies: f64,
    servers: f64,
    active_servers: f64,
    dags: f64,
}

impl Levels {
    fn copies_per_server(&self) -> f64 {
        self.copies / self.servers
    }

    fn each_copy(&self, key: &'static str, label: &'static str, unit: &'static str, value: f64) -> Row {
        Row {
            key,
            label,
            unit,
            per_database: Some(value),
            per_server: Some(value * self.copies_per_server()),
            per_dag: Some(value * self.copies),
            per_environment: Some(value * self.copies * self.dags),
        }
    }

    fn each_database(&self, key: &'static str, label: &'static str, unit: &'static str, value: f64) -> Row {
        Row {
            key,
            label,
            unit,
            per_database: Some(value),
            per_server: Some(value * self.databases / self.active_servers),
            per_dag: Some(value * self.databases),
            per_environment: Some(value * self.databases * self.dags),
        }
    }

    fn each_server(&self, key: &'static str, label: &'static str, unit: &'static str, value: f64) -> Row {
        Row {
            key,
            label,
            unit,
            per_database: None,
            per_server: Some(value),
            per_dag: Some(value * self.servers),
            per_environment: Some(value * self.servers * self.dags),
        }
    }
}

/// Computes the sizing table for this number of databases, with the worst cases of `bound`.
pub fn size(inputs: &Inputs<'_>, databases: u32, bound: &Bound) -> Sizing {
    let figures = &inputs.figures;
    let levels = Levels {
        databases: f64::from(databases),
        copies: f64::from(databases) * f64::from(inputs.copies()),
        servers: inputs.servers.len() as f64,
        active_servers: inputs.active_servers() as f64,
        dags: f64::from(inputs.solution.dag.count),
    };
    let need = Quantities::of(inputs, &levels, bound);
    let mut rows = space_rows(inputs, &levels, &need);
    rows.extend(load_rows(inputs, &levels, &need));
    Sizing {
        databases,
        mailboxes_per_database: need.mailboxes,
        mailbox_mb: figures.mailbox_mb,
        logs_per_mailbox_day: figures.logs_per_day,
        iops_per_mailbox: figures.iops,
        iops_per_mailbox_with_headroom: figures.iops_with_headroom,
        read_share: figures.read_share,
        copies_per_server: levels.copies_per_server(),
        log_days: figures.log_days,
        rows,
        server: server_need(inputs, need.mailboxes, levels.copies_per_server(), bound.worst),
        database_gb: need.database_gb,
        log_gb: need.log_gb,
        database_iops: need.iops,
        log_writes_per_s: need.log_writes,
    }
}

/// Rows for mailboxes, logs and space.
fn space_rows(inputs: &Inputs<'_>, levels: &Levels, need: &Quantities) -> Vec<Row> {
    let figures = &inputs.figures;
    let logs_are_known = figures.logs_per_day > 0.0;
    let mut rows = vec![levels.each_database("mailboxes", "Mailboxes", "", need.mailboxes)];
    if logs_are_known {
        let label = "Transaction logs of users";
        rows.push(levels.each_database("user_logs_per_day", label, "/day", need.user_logs));
    }
    rows.push(levels.each_database("move_logs_per_day", "Transaction logs of moves", "/day", need.move_logs));
    if logs_are_known {
        let logs = need.user_logs + need.move_logs;
        rows.push(levels.each_database("logs_per_day", "Transaction logs", "/day", logs));
    }
    rows.extend([
        levels.each_copy("database_gb", "Database space", "GB", need.database_gb),
        levels.each_copy("log_gb", "Log space", "GB", need.log_gb),
        levels.each_copy("database_volume_gb", "Volume space, database and log", "GB", need.volume_gb),
        levels.each_copy("log_volume_gb", "Volume space, log alone", "GB", need.log_volume_gb),
        levels.each_server("restore_volume_gb", "Restore volume", "GB", need.restore_gb),
    ]);
    if inputs.users.exchange >= Generation::E2013 && figures.messages_per_day > 0.0 {
        rows.push(levels.each_server("transport_gb", "Transport queue database", "GB", need.transport_gb));
    }
    rows
}

/// Rows for I/O and network.
fn load_rows(inputs: &Inputs<'_>, levels: &Levels, need: &Quantities) -> Vec<Row> {
    let server_iops = need.iops * levels.copies_per_server() + inputs.users.extra_iops_per_server;
    let log_iops = need.log_writes * (1.0 + formula::LOG_READS_PER_WRITE);
    let share = inputs.figures.read_share;
    let log_writes = need.log_writes * levels.copies_per_server();
    let each_server = |key, label, of_database, of_server| Row {
        per_database: Some(of_database),
        ..levels.each_server(key, label, "/s", of_server)
    };
    let mut rows = vec![
        each_server("database_iops", "Database I/O", need.iops, server_iops),
        each_server("database_reads", "... reads", need.iops * share, server_iops * share),
        each_server("database_writes", "... writes", need.iops * (1.0 - share), server_iops * (1.0 - share)),
        each_server("log_iops", "Log I/O", log_iops, need.server_log_iops),
        each_server("log_writes", "... writes", need.log_writes, log_writes),
        each_server("log_reads", "... reads", log_iops - need.log_writes, need.server_log_iops - log_writes),
        levels.each_copy(
            "maintenance_mb_per_s",
            "Background maintenance",
            "MB/s",
            inputs.users.maintenance_mb_per_s,
        ),
    ];
    let shipping = need.shipping_mbit_per_s;
    let (databases, dags) = (levels.databases, levels.dags);
    if inputs.copies() > 1 {
        let per_dag = shipping * databases * f64::from(inputs.copies() - 1);
        rows.push(Row {
            key: "replication_mbit_per_s",
            label: "Log shipping at the busiest hour",
            unit: "Mbit/s",
            per_database: Some(shipping),
            per_server: Some(per_dag / levels.active_servers),
            per_dag: Some(per_dag),
            per_environment: Some(per_dag * dags),
        });
    }
    let remote: u32 = inputs.copies_per_site.iter().skip(1).sum();
    if remote > 0 {
        rows.push(Row {
            key: "site_link_mbit_per_s",
            label: "... of it between sites",
            unit: "Mbit/s",
            per_database: Some(shipping * f64::from(remote)),
            per_server: None,
            per_dag: Some(shipping * databases * f64::from(remote)),
            per_environment: Some(shipping * databases * f64::from(remote) * dags),
        });
    }
    rows
}

/// Memory and processor of the server with `actives` active databases among `copies`.
pub fn server_need(
    inputs: &Inputs<'_>,
    mailboxes_per_database: f64,
    copies: f64,
    actives: f64,
) -> ServerNeed {
    let (users, figures) = (inputs.users, &inputs.figures);
    let worst_active_mailboxes = actives * mailboxes_per_database;
    let cache_gb = formula::cache_gb(worst_active_mailboxes, figures.cache_mb);
    let known = users.exchange >= Generation::E2013 && figures.active_mcycles > 0.0;
    let cores = inputs.servers.iter().filter_map(|server| server.cores).min();
    let passive = (copies - actives).max(0.0) * mailboxes_per_database;
    let mcycles = worst_active_mailboxes * figures.active_mcycles + passive * figures.passive_mcycles;
    let weakest = inputs.servers.iter().filter_map(|server| server.mcycles).reduce(f64::min);
    ServerNeed {
        worst_actives: actives,
        worst_active_mailboxes,
        cache_gb,
        memory_gb: match (known, users.multi_role(), cores) {
            (false, _, _) | (_, true, None) => None,
            (_, multi_role, cores) => {
                Some(formula::memory_gb(cache_gb, multi_role, cores.unwrap_or(0), copies))
            }
        },
        mcycles: known.then_some(mcycles),
        cpu_share: weakest.filter(|_| known).map(|there| mcycles / there),
    }
}
