//! The solution in the shape that the planner computes with: figures of a mailbox by the formulas, sites with
//! their servers. A search changes servers and copies of it.

use solution::{HostSpec, Result, Role, Solution, Users};

use crate::formula::{self, MailboxContent};

/// Site with its servers, as planner input.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteInput {
    /// Name of the site.
    pub name: String,
    /// Whether databases are normally active in the site.
    pub active: bool,
    /// Indexes of the site's servers.
    pub servers: Vec<usize>,
}

/// Server of one group, as planner input.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerInput {
    /// Name of the server.
    pub name: String,
    /// Index of the server's site.
    pub site: usize,
    /// Index of the server's enclosure in [`Inputs::enclosures`], if it shares one.
    pub enclosure: Option<usize>,
    /// Largest number of active databases on the server.
    pub max_active: Option<u32>,
    /// Number of processor cores.
    pub cores: Option<u32>,
    /// Megacycles that the server offers, if its SPECint rate is given.
    pub mcycles: Option<f64>,
    /// Memory of the server, GiB.
    pub memory_gib: Option<f64>,
}

impl From<&HostSpec> for ServerInput {
    fn from(host: &HostSpec) -> ServerInput {
        ServerInput {
            name: host.name.clone(),
            site: host.site,
            enclosure: host.enclosure,
            max_active: host.max_active,
            cores: host.cores,
            mcycles: formula::server_mcycles(host.specint_rate, host.specint2017_rate),
            memory_gib: host.memory_gib,
        }
    }
}

/// Figures of the users, each from the file or by its formula.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Number of mailboxes of the whole environment.
    pub mailboxes: f64,
    /// Messages per mailbox and day; 0 if the file gives the I/O instead.
    pub messages_per_day: f64,
    /// I/O per second and mailbox without headroom.
    pub iops: f64,
    /// I/O per second and mailbox with multiplier and headroom.
    pub iops_with_headroom: f64,
    /// I/O per second and mailbox as tests print it, if rounded.
    pub test_iops: f64,
    /// Share of reads in the database I/O, 0 to 1.
    pub read_share: f64,
    /// Logs per mailbox and day.
    pub logs_per_day: f64,
    /// Mailbox size on disk in MB.
    pub mailbox_mb: f64,
    /// Dumpster and white space of a mailbox in MB, where the size of the mailbox follows from its content.
    pub dumpster_mb: Option<(f64, f64)>,
    /// Days of logs that a volume must hold.
    pub log_days: f64,
    /// Database cache per active mailbox, MB.
    pub cache_mb: f64,
    /// Megacycles of processor per active mailbox.
    pub active_mcycles: f64,
    /// Megacycles of processor per passive mailbox.
    pub passive_mcycles: f64,
}

impl Figures {
    /// Computes the figures for this number of copies of each database.
    fn of(solution: &Solution, users: &Users, copies: u32) -> Figures {
        let messages = users.messages_per_day.unwrap_or(0.0);
        let derived = || formula::iops_per_mailbox(users.exchange, messages, copies);
        let iops = users.iops_per_mailbox.or_else(derived).unwrap_or(0.0);
        let iops_with_headroom = formula::iops_with_headroom(
            iops,
            users.iops_multiplier,
            users.iops_multiplied_percent,
            users.headroom_percent,
        );
        let content = MailboxContent {
            quota_mb: users.quota_mb.unwrap_or(0.0),
            messages_per_day: messages,
            message_kb: users.message_kb,
            deleted_item_days: users.deleted_item_days,
            single_item_recovery: users.single_item_recovery(),
            calendar_versions: users.calendar_versions(),
        };
        let kept = &solution.copies;
        let lag_days = (kept.lagged > 0).then_some(kept.lag_days);
        let tolerance_days = users.truncation_days + users.network_days;
        Figures {
            mailboxes: users.mailboxes as f64,
            messages_per_day: messages,
            iops,
            iops_with_headroom,
            test_iops: users.test_iops_per_mailbox.unwrap_or(iops_with_headroom),
            read_share: users.read_percent / 100.0,
            logs_per_day: users
                .logs_per_mailbox_day
                .unwrap_or(formula::user_logs_per_day(messages, users.message_kb)),
            mailbox_mb: users.mailbox_mb.unwrap_or(formula::mailbox_mb(content)),
            dumpster_mb: users
                .mailbox_mb
                .is_none()
                .then(|| (content.dumpster_mb(), content.white_space_mb())),
            log_days: formula::log_days(tolerance_days, lag_days, kept.lag_log_rule),
            cache_mb: users.cache_mb_per_mailbox.unwrap_or(formula::cache_mb_per_mailbox(messages)),
            active_mcycles: users
                .active_mcycles
                .unwrap_or(formula::active_mcycles(messages, users.multi_role())),
            passive_mcycles: users.passive_mcycles.unwrap_or(formula::passive_mcycles(messages)),
        }
    }
}

/// Input of the planner, derived from a solution.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// Solution file.
    pub solution: &'a Solution,
    /// Profile of the users.
    pub users: &'a Users,
    /// Figures of the users.
    pub figures: Figures,
    /// Number of databases per volume in the layout.
    pub databases_per_volume: u32,
    /// Number of databases per volume in the sizing table.
    pub sized_databases_per_volume: u32,
    /// Number of copies in the home site, then in the sites after it.
    pub copies_per_site: Vec<u32>,
    /// Sites with their servers.
    pub sites: Vec<SiteInput>,
    /// Servers of one group.
    pub servers: Vec<ServerInput>,
    /// Names of the enclosures.
    pub enclosures: Vec<String>,
}

impl<'a> Inputs<'a> {
    /// Derives the planner's input from a solution.
    ///
    /// # Errors
    /// A file that does not say enough about the users.
    pub fn of(solution: &'a Solution) -> Result<Inputs<'a>> {
        let users = solution.users()?;
        let of_site = |site| (0..solution.hosts.len()).filter(move |&host| solution.hosts[host].site == site);
        let sites = solution.sites.iter().enumerate().map(|(number, site)| SiteInput {
            name: site.name.clone(),
            active: site.active,
            servers: of_site(number).collect(),
        });
        Ok(Inputs {
            solution,
            users,
            figures: Figures::of(solution, users, solution.copies.total()),
            databases_per_volume: solution.dag.databases_per_volume,
            sized_databases_per_volume: solution.dag.sized_databases_per_volume(),
            copies_per_site: solution.copies.per_site.clone(),
            sites: sites.collect(),
            servers: solution.hosts.iter().map(ServerInput::from).collect(),
            enclosures: solution.enclosures.iter().map(|enclosure| enclosure.name.clone()).collect(),
        })
    }

    /// The same input with other copies of each database. The I/O of a mailbox may depend on their number.
    pub fn with_copies(&self, per_site: &[u32]) -> Inputs<'a> {
        Inputs {
            figures: Figures::of(self.solution, self.users, per_site.iter().sum()),
            copies_per_site: per_site.to_vec(),
            ..self.clone()
        }
    }

    /// Number of copies of each database.
    pub fn copies(&self) -> u32 {
        self.copies_per_site.iter().sum()
    }

    /// Number of lagged copies, the last in preference.
    pub fn lagged(&self) -> u32 {
        self.solution.copies.lagged
    }

    /// Largest database that the plan accepts, GB.
    pub fn largest_database_gb(&self) -> f64 {
        self.solution.dag.max_database_gb.unwrap_or_else(|| formula::largest_database_gb(self.copies()))
    }

    /// Number of copies that may be activated.
    pub fn activatable(&self) -> u32 {
        let off = if self.solution.copies.lagged_can_activate { 0 } else { self.lagged() };
        self.copies() - off
    }

    /// Sites that normally host active databases.
    pub fn active_sites(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.sites.len()).filter(|&site| self.sites[site].active)
    }

    /// Number of servers that normally host active databases.
    pub fn active_servers(&self) -> usize {
        self.active_sites().map(|site| self.sites[site].servers.len()).sum()
    }

    /// Number of mailboxes of one group.
    pub fn mailboxes_per_dag(&self) -> f64 {
        self.figures.mailboxes / f64::from(self.solution.dag.count)
    }

    /// Whether logs have volumes of their own.
    pub fn has_log_volumes(&self) -> bool {
        self.solution.volumes.iter().any(|volume| volume.role == Role::Log)
    }
}
