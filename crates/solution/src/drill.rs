//! `[test.drill]`: failures that a test of kind `drill` performs while users work, each at its time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::template::Names;
use crate::{HostSpec, Result, Role, Solution, Test, TestKind};

/// How many log generations an activation may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MountDial {
    /// None: a durable commit is acknowledged only once a passive copy holds it.
    #[default]
    Lossless,
    /// At most 6.
    GoodAvailability,
    /// At most 12.
    BestAvailability,
}

/// Where the copy is that holds every commit before it is acknowledged (lossless only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partner {
    /// In the site of the active copy where there is one: commits do not wait for the link between sites.
    #[default]
    SameSite,
    /// In another site where there is one: commits survive the loss of a site.
    OtherSite,
}

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DrillEventKind {
    /// A host loses its power.
    HostKilled,
    /// A host loses its network, to the other hosts and to the arbiter.
    HostCutOff,
    /// A volume of a host loses its contents; an empty one takes its place.
    VolumeFailed,
    /// All hosts of a site lose their power.
    SiteLost,
}

impl DrillEventKind {
    /// The name in the solution file.
    pub fn name(self) -> &'static str {
        match self {
            DrillEventKind::HostKilled => "host_killed",
            DrillEventKind::HostCutOff => "host_cut_off",
            DrillEventKind::VolumeFailed => "volume_failed",
            DrillEventKind::SiteLost => "site_lost",
        }
    }
}

/// `[test.drill]`: the failures of a drill, and what copies may lose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drill {
    /// How many log generations an activation may lose; none when not given.
    #[serde(default)]
    pub mount_dial: MountDial,
    /// Which copy acknowledges commits with the active one; one of the same site when not given.
    #[serde(default)]
    pub partner: Partner,
    /// What fails, and when.
    #[serde(default)]
    pub event: Vec<DrillEvent>,
}

/// `[[test.drill.event]]`: one failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillEvent {
    /// What fails.
    pub kind: DrillEventKind,
    /// The host; not for a site.
    pub host: Option<String>,
    /// The volume that fails, one with databases.
    pub volume: Option<String>,
    /// The site that is lost.
    pub site: Option<String>,
    /// Seconds after the begin of the drill's window.
    pub at_s: f64,
    /// Seconds after which it is back; not before the end of the drill when not given.
    pub back_after_s: Option<f64>,
}

/// A drill with nothing left to default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrillSpec {
    /// How many log generations an activation may lose.
    pub mount_dial: MountDial,
    /// Which copy acknowledges commits with the active one.
    pub partner: Partner,
    /// What fails, in the order of time.
    pub failures: Vec<Failure>,
}

/// A failure of a drill, by the hosts that it hits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What fails.
    pub kind: DrillEventKind,
    /// Hosts that it hits.
    pub hosts: Vec<String>,
    /// The volume that fails.
    pub volume: Option<String>,
    /// In words: `host MBX1 is killed`.
    pub what: String,
    /// Seconds after the begin of the drill's window.
    pub at_s: f64,
    /// When it is back, seconds after the begin of the window.
    pub back_at_s: Option<f64>,
}

impl Solution {
    /// Resolves the drill of a test of kind `drill`; refuses one anywhere else.
    pub(crate) fn drill(&self, test: &Test, path: &str, duration_s: f64) -> Result<Option<DrillSpec>> {
        let Some(drill) = &test.drill else {
            if test.kind == TestKind::Drill {
                let help = Some("add [test.drill] with [[test.drill.event]]".into());
                return Err(self.error(&format!("{path}.kind"), "the drill does not say what fails", help));
            }
            return Ok(None);
        };
        let at = format!("{path}.drill");
        if test.kind != TestKind::Drill {
            let message = format!("a test of kind {} has no drill", test.kind.name());
            return Err(self.error(&at, message, Some("kind = \"drill\"".into())));
        }
        if drill.event.is_empty() {
            let help = Some("add [[test.drill.event]]".into());
            return Err(self.error(&at, "the drill does not say what fails", help));
        }
        self.refuse_foreign_copies()?;
        let hosts = self.hosts()?;
        let mut failures: Vec<(Failure, usize)> = Vec::new();
        for (index, event) in drill.event.iter().enumerate() {
            let at = format!("{at}.event[{index}]");
            let failure = self.failure(event, &at, duration_s, &hosts)?;
            self.refuse_overlap(&failure, failures.iter().map(|(other, _)| other), &at)?;
            failures.push((failure, index));
        }
        failures.sort_by(|(a, first), (b, second)| a.at_s.total_cmp(&b.at_s).then(first.cmp(second)));
        Ok(Some(DrillSpec {
            mount_dial: drill.mount_dial,
            partner: drill.partner,
            failures: failures.into_iter().map(|(failure, _)| failure).collect(),
        }))
    }

    /// The copies of a drill lie in folders that are called as the layout calls its databases.
    fn refuse_foreign_copies(&self) -> Result<()> {
        let rows = self.file.layout.iter().flat_map(|layout| &layout.database);
        for (index, row) in rows.enumerate() {
            self.refuse_foreign_name(&row.name, &format!("layout.database[{index}].name"))?;
        }
        if let Some(template) = self.file.dag.as_ref().and_then(|dag| dag.database_name.as_ref()) {
            // Its names differ in digits only.
            self.name_on_disk(template, Names { n: 1, host: None }, "dag.database_name")?;
        }
        Ok(())
    }

    fn failure(&self, event: &DrillEvent, at: &str, duration_s: f64, hosts: &[HostSpec]) -> Result<Failure> {
        self.refuse_misplaced(event, at)?;
        let site_lost = event.kind == DrillEventKind::SiteLost;
        let hit = match (&event.host, &event.site) {
            (Some(name), _) => {
                if !hosts.iter().any(|host| host.name == *name) {
                    let known = hosts.iter().map(|host| host.name.as_str());
                    return Err(self.unknown_name("host", name, known, &format!("{at}.host")));
                }
                vec![name.clone()]
            }
            (None, Some(site)) => {
                let site_at = format!("{at}.site");
                let index = self.site_index(site, &site_at)?;
                let in_it = hosts.iter().filter(|host| host.site == index);
                let names: Vec<String> = in_it.map(|host| host.name.clone()).collect();
                if names.is_empty() {
                    return Err(self.error(&site_at, format!("site {site} has no hosts to lose"), None));
                }
                names
            }
            (None, None) => {
                let missing = if site_lost { "site" } else { "host" };
                let message = format!("{} does not say which {missing}", event.kind.name());
                return Err(self.error(at, message, Some(format!("add {missing} = \"...\""))));
            }
        };
        if let Some(volume) = &event.volume {
            let volumes = self.volumes(&hit[0])?;
            let with_databases = volumes.iter().filter(|known| known.role == Role::Database);
            if !with_databases.clone().any(|known| known.name == *volume) {
                let known = with_databases.map(|known| known.name.as_str());
                let path = format!("{at}.volume");
                return Err(self.unknown_name("volume with databases", volume, known, &path));
            }
        }
        self.in_range(&format!("{at}.at_s"), event.at_s, 0.0, duration_s)?;
        if let Some(after) = event.back_after_s {
            self.in_range(&format!("{at}.back_after_s"), after, 1.0, duration_s - event.at_s)?;
        }
        let name = event.site.as_ref().unwrap_or_else(|| &hit[0]);
        let what = match event.kind {
            DrillEventKind::HostKilled => format!("host {name} is killed"),
            DrillEventKind::HostCutOff => format!("host {name} is cut off"),
            DrillEventKind::VolumeFailed => {
                format!("volume {} of host {name} fails", event.volume.as_deref().unwrap_or_default())
            }
            DrillEventKind::SiteLost => format!("site {name} is lost"),
        };
        Ok(Failure {
            kind: event.kind,
            hosts: hit,
            volume: event.volume.clone(),
            what,
            at_s: event.at_s,
            back_at_s: event.back_after_s.map(|after| event.at_s + after),
        })
    }

    /// Names that the kind of failure does not have, or lacks.
    fn refuse_misplaced(&self, event: &DrillEvent, at: &str) -> Result<()> {
        let (site_lost, volume_failed) =
            (event.kind == DrillEventKind::SiteLost, event.kind == DrillEventKind::VolumeFailed);
        let misplaced = [
            ("host", event.host.is_some() && site_lost),
            ("site", event.site.is_some() && !site_lost),
            ("volume", event.volume.is_some() && !volume_failed),
        ];
        if let Some((key, _)) = misplaced.iter().find(|(_, wrong)| *wrong) {
            let message = format!("{} takes no {key}", event.kind.name());
            return Err(self.error(&format!("{at}.{key}"), message, None));
        }
        if volume_failed && event.volume.is_none() {
            let help = Some("add volume = \"...\"".into());
            return Err(self.error(at, "volume_failed does not say which volume", help));
        }
        Ok(())
    }

    /// A host fails again only when it is back.
    fn refuse_overlap<'a>(
        &self,
        failure: &Failure,
        others: impl Iterator<Item = &'a Failure>,
        at: &str,
    ) -> Result<()> {
        let end = |failure: &Failure| failure.back_at_s.unwrap_or(f64::INFINITY);
        for other in others {
            let shared = failure.hosts.iter().find(|host| other.hosts.contains(host));
            let overlap = failure.at_s <= end(other) && other.at_s <= end(failure);
            if let Some(host) = shared.filter(|_| overlap) {
                let message = format!("host `{host}` fails while it has failed already: {}", other.what);
                let help = Some("later, or let the earlier failure end before (back_after_s)".into());
                return Err(self.error(&format!("{at}.at_s"), message, help));
            }
        }
        Ok(())
    }
}
