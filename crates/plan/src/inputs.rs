//! The solution file as the planner understands it: every default filled in, every impossible wish refused.

use solution::{Copies, Dag, Databases, Generation, LagLogRule, Profile, RemoteRule, Result, Role, Solution};

use crate::formula::{self, MailboxContent};

/// Most members of a group, and most copies of a database.
pub const MAX_MEMBERS: usize = 16;

/// Most databases (active and passive) on a server of the largest edition.
pub const MAX_MOUNTED: u32 = 100;

/// Most databases of a group that are laid out: every member full.
pub const MAX_DATABASES: u32 = MAX_MOUNTED * MAX_MEMBERS as u32;

/// A site and its servers.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteInput {
    /// Name.
    pub name: String,
    /// Databases are normally active here.
    pub active: bool,
    /// Indices of its servers.
    pub servers: Vec<usize>,
}

/// A server of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerInput {
    /// Name.
    pub name: String,
    /// Index of its site.
    pub site: usize,
    /// Index of its enclosure in [`Inputs::enclosures`], if it shares one.
    pub enclosure: Option<usize>,
    /// Most databases that may be active on it.
    pub max_active: Option<u32>,
    /// Processor cores.
    pub cores: Option<u32>,
    /// SPECint2006 rate.
    pub specint_rate: Option<f64>,
    /// Memory in GiB.
    pub memory_gib: Option<f64>,
}

/// The users, all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileInput {
    /// Generation of Exchange.
    pub generation: Generation,
    /// Mailboxes of the whole environment.
    pub mailboxes: f64,
    /// Messages per day; 0 when the file gives the I/O instead.
    pub messages_per_day: f64,
    /// Message size in KB.
    pub message_kb: f64,
    /// I/O per second and mailbox without headroom.
    pub iops: f64,
    /// I/O per second and mailbox with multiplier and headroom.
    pub iops_with_headroom: f64,
    /// The same as tests print it, where that is rounded.
    pub test_iops: f64,
    /// I/O per second added to each server.
    pub extra_iops_per_server: f64,
    /// Reads in the database I/O, 0 to 1.
    pub read_share: f64,
    /// Logs per mailbox and day.
    pub logs_per_day: f64,
    /// Mailboxes moved per week in percent.
    pub moves_percent: f64,
    /// Mailbox size on disk in MB.
    pub mailbox_mb: f64,
    /// Database growth beyond its mailboxes in percent.
    pub overhead_percent: f64,
    /// Content index in percent.
    pub index_percent: f64,
    /// Index merge in percent.
    pub merge_percent: f64,
    /// Free space in percent.
    pub free_percent: f64,
    /// Days of logs that a volume holds.
    pub log_days: f64,
    /// Background maintenance per copy in MB/s.
    pub maintenance_mb_per_s: f64,
    /// Days of mail in the transport queue.
    pub queue_days: f64,
    /// Days of mail in Safety Net.
    pub safety_net_days: f64,
    /// Cache per active mailbox in MB.
    pub cache_mb: f64,
    /// Megacycles per active mailbox.
    pub active_mcycles: f64,
    /// Megacycles per passive mailbox.
    pub passive_mcycles: f64,
    /// Client access on the same servers.
    pub multi_role: bool,
    /// Share of a day's logs in the busiest hour, in percent.
    pub peak_hour_percent: f64,
}

/// Everything that the planner computes from.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// The file, for messages.
    pub solution: &'a Solution,
    /// The users.
    pub profile: ProfileInput,
    /// Groups in the environment.
    pub dags: u32,
    /// Databases per group, if the file says so.
    pub wished_databases: Option<u32>,
    /// Round derived databases up to an even number.
    pub symmetric: bool,
    /// Databases per volume of the layout.
    pub databases_per_volume: u32,
    /// Databases per volume of the sizing table.
    pub sized_databases_per_volume: u32,
    /// Largest database in GB that the file allows, if it says so.
    pub max_database_gb: Option<f64>,
    /// Template of the database names.
    pub database_name: String,
    /// Copies in the home site, then in the sites after it.
    pub copies_per_site: Vec<u32>,
    /// Lagged copies, the last ones in preference.
    pub lagged: u32,
    /// A lagged copy may be activated.
    pub lagged_can_activate: bool,
    /// Picture of the copies in other sites.
    pub remote: RemoteRule,
    /// Sites.
    pub sites: Vec<SiteInput>,
    /// Servers of one group.
    pub servers: Vec<ServerInput>,
    /// Names of enclosures.
    pub enclosures: Vec<String>,
}

impl<'a> Inputs<'a> {
    /// Reads what the planner needs from a solution.
    pub fn of(solution: &'a Solution) -> Result<Inputs<'a>> {
        let file = &solution.file;
        let Some(profile) = &file.profile else {
            let help = Some("add [profile] with exchange, mailboxes and messages_per_day".into());
            return Err(solution.error("profile", "nothing is said about the users", help));
        };
        let dag = file.dag.clone().unwrap_or_default();
        let copies = file.copies.clone().unwrap_or(Copies { per_site: vec![1], ..Copies::default() });
        let (sites, servers, enclosures) = topology(solution)?;
        let total = check_copies(solution, &copies, &sites, servers.len())?;
        let databases_per_volume = dag.databases_per_volume.unwrap_or(1);
        let inputs = Inputs {
            solution,
            profile: profile_input(solution, profile, &copies, total)?,
            dags: dag.count.unwrap_or(1),
            wished_databases: wished_databases(solution, &dag, total)?,
            symmetric: dag.symmetric.unwrap_or(false),
            databases_per_volume,
            sized_databases_per_volume: dag.sized_databases_per_volume.unwrap_or(databases_per_volume),
            max_database_gb: dag.max_database_gb,
            database_name: dag.database_name.unwrap_or_else(|| "DB{n}".into()),
            copies_per_site: copies.per_site.clone(),
            lagged: copies.lagged.unwrap_or(0),
            lagged_can_activate: copies.lagged_can_activate.unwrap_or(true),
            remote: file.layout.as_ref().and_then(|layout| layout.remote).unwrap_or(RemoteRule::Mirrored),
            sites,
            servers,
            enclosures,
        };
        Ok(inputs)
    }

    /// The same with other copies of each database. The I/O of a mailbox may depend on how many there are.
    pub fn with_copies(&self, per_site: &[u32]) -> Result<Inputs<'a>> {
        let solution = self.solution;
        let copies =
            Copies { per_site: per_site.to_vec(), ..solution.file.copies.clone().unwrap_or_default() };
        let mut inputs = self.clone();
        if let Some(profile) = &solution.file.profile {
            inputs.profile = profile_input(solution, profile, &copies, per_site.iter().sum())?;
        }
        inputs.copies_per_site = copies.per_site;
        Ok(inputs)
    }

    /// Copies of each database.
    pub fn copies(&self) -> u32 {
        self.copies_per_site.iter().sum()
    }

    /// Largest database in GB that the plan accepts.
    pub fn largest_database_gb(&self) -> f64 {
        self.max_database_gb.unwrap_or_else(|| formula::largest_database_gb(self.copies()))
    }

    /// Copies that may be activated.
    pub fn activatable(&self) -> u32 {
        if self.lagged_can_activate { self.copies() } else { self.copies() - self.lagged }
    }

    /// Sites that normally host active databases.
    pub fn active_sites(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.sites.len()).filter(|&site| self.sites[site].active)
    }

    /// Servers that normally host active databases.
    pub fn active_servers(&self) -> usize {
        self.active_sites().map(|site| self.sites[site].servers.len()).sum()
    }

    /// Mailboxes of one group.
    pub fn mailboxes_per_dag(&self) -> f64 {
        self.profile.mailboxes / f64::from(self.dags)
    }
}

fn topology(solution: &Solution) -> Result<(Vec<SiteInput>, Vec<ServerInput>, Vec<String>)> {
    let file = &solution.file;
    let hosts = solution.hosts()?;
    if hosts.is_empty() {
        return Err(solution.error("host", "no host is described", Some("add [[host]] with a name".into())));
    }
    if hosts.len() > MAX_MEMBERS {
        let path = format!("host[{}]", hosts[MAX_MEMBERS].entry);
        let path =
            if solution.span(&format!("{path}.count")).is_some() { format!("{path}.count") } else { path };
        let message = format!("a group of {} members cannot be, {MAX_MEMBERS} is the most", hosts.len());
        return Err(solution.error(&path, message, Some("use more groups: count in [dag]".into())));
    }
    let mut sites: Vec<SiteInput> = file
        .site
        .iter()
        .map(|site| SiteInput {
            name: site.name.clone(),
            active: site.active.unwrap_or(true),
            servers: Vec::new(),
        })
        .collect();
    if sites.is_empty() {
        sites.push(SiteInput { name: "site".into(), active: true, servers: Vec::new() });
    }
    let mut enclosures: Vec<String> = file.enclosure.iter().map(|enclosure| enclosure.name.clone()).collect();
    let mut servers = Vec::new();
    for (index, spec) in hosts.iter().enumerate() {
        let host = &file.host[spec.entry];
        sites[spec.site].servers.push(index);
        let enclosure = match &spec.enclosure {
            None => None,
            Some(name) => Some(match enclosures.iter().position(|known| known == name) {
                Some(known) => known,
                None if file.enclosure.is_empty() => {
                    enclosures.push(name.clone());
                    enclosures.len() - 1
                }
                None => {
                    let path = format!("host[{}].enclosure", spec.entry);
                    let known = file.enclosure.iter().map(|enclosure| enclosure.name.as_str());
                    return Err(solution.unknown_name("enclosure", name, known, &path));
                }
            }),
        };
        servers.push(ServerInput {
            name: spec.name.clone(),
            site: spec.site,
            enclosure,
            max_active: host.max_active,
            cores: host.cores,
            specint_rate: host.specint_rate,
            memory_gib: host.memory_gib,
        });
    }
    if let Some(empty) = sites.iter().position(|site| site.servers.is_empty()) {
        let message = format!("site `{}` has no host", sites[empty].name);
        return Err(solution.error(
            &format!("site[{empty}]"),
            message,
            Some("add [[host]] with this site".into()),
        ));
    }
    if sites.iter().all(|site| !site.active) {
        return Err(solution.error("site[0].active", "no site is active, so no database can be", None));
    }
    Ok((sites, servers, enclosures))
}

fn check_copies(solution: &Solution, copies: &Copies, sites: &[SiteInput], servers: usize) -> Result<u32> {
    let refuse = |path: &str, message: String, help: Option<String>| Err(solution.error(path, message, help));
    let total: u64 = copies.per_site.iter().map(|&count| u64::from(count)).sum();
    if copies.per_site.first().is_none_or(|&home| home == 0) {
        let help = Some("the first number is the home site's, at least 1".into());
        return refuse("copies.per_site", "a database needs a copy in its home site".into(), help);
    }
    if copies.per_site.len() > sites.len() {
        let message =
            format!("copies in {} sites are asked for, there are {}", copies.per_site.len(), sites.len());
        return refuse("copies.per_site", message, Some("add [[site]], or drop a number".into()));
    }
    if total > MAX_MEMBERS as u64 {
        let message = format!("{total} copies of a database cannot be, {MAX_MEMBERS} is the most");
        return refuse("copies.per_site", message, None);
    }
    if total > servers as u64 {
        let message = format!("{total} copies of a database need {total} servers, the group has {servers}");
        return refuse("copies.per_site", message, Some("add hosts, or ask for fewer copies".into()));
    }
    for home in (0..sites.len()).filter(|&site| sites[site].active) {
        for (step, &count) in copies.per_site.iter().enumerate() {
            let site = &sites[(home + step) % sites.len()];
            if count as usize > site.servers.len() {
                let there = site.servers.len();
                let message = format!(
                    "{count} copies of a database in site `{}` need {count} servers, it has {there}",
                    site.name
                );
                return refuse(&format!("copies.per_site[{step}]"), message, None);
            }
        }
    }
    let lagged = copies.lagged.unwrap_or(0);
    if u64::from(lagged) >= total {
        let message = format!("{lagged} of {total} copies cannot be lagged, one has to be current");
        return refuse("copies.lagged", message, None);
    }
    Ok(total as u32)
}

fn wished_databases(solution: &Solution, dag: &Dag, copies: u32) -> Result<Option<u32>> {
    if dag.databases.is_some() {
        return Ok(dag.databases);
    }
    if let Some(layout) = solution.file.layout.as_ref().filter(|layout| !layout.database.is_empty()) {
        return Ok(Some(layout.database.len() as u32));
    }
    // A file made only for a run names its databases one by one; with one copy each, these are all there are.
    if copies > 1 || solution.file.instance.is_empty() {
        return Ok(None);
    }
    let mut count = 0u32;
    for host in solution.hosts()? {
        for instance in &solution.file.instance {
            if instance.host.as_ref().is_none_or(|pattern| solution::name_matches(pattern, &host.name)) {
                let databases = match &instance.databases {
                    None => 1,
                    Some(Databases::Count(count)) => *count,
                    Some(Databases::List(list)) => list.len() as u32,
                };
                count = count.saturating_add(instance.count.unwrap_or(1).saturating_mul(databases));
            }
        }
    }
    if count > MAX_DATABASES {
        let message = format!("{count} databases in one group cannot be, {MAX_DATABASES} is the most");
        return Err(solution.error(
            "instance[0].count",
            message,
            Some("use more groups: count in [dag]".into()),
        ));
    }
    Ok((count > 0).then_some(count))
}

fn profile_input(
    solution: &Solution,
    profile: &Profile,
    copies: &Copies,
    total: u32,
) -> Result<ProfileInput> {
    let generation = profile.exchange;
    let modern = generation >= Generation::E2013;
    let messages = profile.messages_per_day.unwrap_or(0.0);
    let message_kb = profile.message_kb.unwrap_or(75.0);
    let derived = profile.messages_per_day.and_then(|m| formula::iops_per_mailbox(generation, m, total));
    let Some(iops) = profile.iops_per_mailbox.or(derived) else {
        let (message, help) = if generation < Generation::E2010 {
            (
                format!(
                    "Exchange {} is sized with the I/O of a mailbox, which is not given",
                    generation.year()
                ),
                "iops_per_mailbox",
            )
        } else {
            (
                "the I/O of a mailbox follows from its messages, which are not given".into(),
                "messages_per_day or iops_per_mailbox",
            )
        };
        return Err(solution.error("profile", message, Some(format!("add {help}"))));
    };
    let headroom = profile.headroom_percent.unwrap_or(20.0);
    let multiplier = profile.iops_multiplier.unwrap_or(1.0);
    let multiplied = profile.iops_multiplied_percent.unwrap_or(100.0);
    let iops_with_headroom = formula::iops_with_headroom(iops, multiplier, multiplied, headroom);
    let quota_mb = match (profile.quota_mb, profile.mailbox_mb) {
        (Some(quota), _) => quota,
        (None, Some(_)) => 0.0,
        (None, None) => {
            return Err(solution.error(
                "profile",
                "the size of a mailbox is not given",
                Some("add quota_mb".into()),
            ));
        }
    };
    let content = MailboxContent {
        quota_mb,
        messages_per_day: messages,
        message_kb,
        deleted_item_days: profile.deleted_item_days.unwrap_or(14.0),
        single_item_recovery: profile.single_item_recovery.unwrap_or(generation >= Generation::E2010),
        calendar_versions: profile.calendar_versions.unwrap_or(generation >= Generation::E2010),
    };
    let tolerance = profile.truncation_days.unwrap_or(3.0) + profile.network_days.unwrap_or(0.0);
    let lag = (copies.lagged.unwrap_or(0) > 0).then(|| copies.lag_days.unwrap_or(7.0));
    let rule = copies.lag_log_rule.unwrap_or(LagLogRule::BeyondLag);
    let multi_role = profile.multi_role.unwrap_or(modern);
    let overhead = if generation == Generation::E2010 { 20.0 } else { 0.0 };
    let index = if modern { 20.0 } else { 0.0 };
    Ok(ProfileInput {
        generation,
        mailboxes: profile.mailboxes as f64,
        messages_per_day: messages,
        message_kb,
        iops,
        iops_with_headroom,
        test_iops: profile.test_iops_per_mailbox.unwrap_or(iops_with_headroom),
        extra_iops_per_server: profile.extra_iops_per_server.unwrap_or(0.0),
        read_share: profile.read_percent.unwrap_or(60.0) / 100.0,
        logs_per_day: profile
            .logs_per_mailbox_day
            .unwrap_or(formula::user_logs_per_day(messages, message_kb)),
        moves_percent: profile.moves_percent_per_week.unwrap_or(1.0),
        mailbox_mb: profile.mailbox_mb.unwrap_or(formula::mailbox_mb(content)),
        overhead_percent: profile.data_overhead_percent.unwrap_or(overhead),
        index_percent: profile.content_index_percent.unwrap_or(index),
        merge_percent: profile.index_merge_percent.unwrap_or(index),
        free_percent: profile.free_percent.unwrap_or(5.0),
        log_days: formula::log_days(tolerance, lag, rule),
        maintenance_mb_per_s: profile.maintenance_mb_per_s.unwrap_or(1.0),
        queue_days: profile.queue_days.unwrap_or(2.0),
        safety_net_days: profile.safety_net_days.unwrap_or(2.0),
        cache_mb: profile.cache_mb_per_mailbox.unwrap_or(formula::cache_mb_per_mailbox(messages)),
        active_mcycles: profile.active_mcycles.unwrap_or(formula::active_mcycles(messages, multi_role)),
        passive_mcycles: profile.passive_mcycles.unwrap_or(formula::passive_mcycles(messages)),
        multi_role,
        peak_hour_percent: profile.peak_hour_log_percent.unwrap_or(10.0),
    })
}

/// True when the file has a volume of a role on any host.
pub(crate) fn has_role(solution: &Solution, role: Role) -> bool {
    solution.file.volume.iter().any(|volume| volume.role == role)
}
