//! `[test.drill]` with nothing left to default: what fails when, and which hosts it hits.

use serde::{Deserialize, Serialize};

use crate::error::{Checked, Wrong};
use crate::file::{
    Copies, Drill, DrillEvent, DrillEventKind, MountDial, Partner, Role, SolutionFile, Test, TestKind,
};
use crate::hosts::{HostSpec, site_index};
use crate::names::DefinedNames;
use crate::source::Mistakes;
use crate::template::{Names, name_on_disk, refuse_foreign_name};

/// Drill with all defaults resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrillSpec {
    /// Mount dial: number of log generations that an activation may lose.
    pub mount_dial: MountDial,
    /// Partner: whether the copy that acknowledges commits is in the same or another site.
    pub partner: Partner,
    /// Failures in the order of time.
    pub failures: Vec<Failure>,
}

/// Failure of a drill with the hosts that it hits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: DrillEventKind,
    /// Hosts that the failure hits.
    pub hosts: Vec<String>,
    /// Volume that fails, for the failure of a volume.
    pub volume: Option<String>,
    /// Description, such as `host MBX1 is killed`.
    pub what: String,
    /// Time of the failure, s after the window opens.
    pub at_s: f64,
    /// Time when the part is back, s after the window opens; `None`: not in this drill.
    pub back_at_s: Option<f64>,
}

/// Resolves the drill of a test of kind `drill`; refuses a drill in other tests.
pub(crate) fn drill(
    file: &SolutionFile,
    test: &Test,
    path: &str,
    duration_s: f64,
    named: &DefinedNames,
    copies: &Copies,
    mistakes: &mut Mistakes<'_>,
) -> Option<DrillSpec> {
    let drill = mistakes.keep(described(test, path)).flatten()?;
    let at = format!("{path}.drill");
    if copies.total() < 2 && !mistakes.is_misread("copies") {
        let message = "a drill needs further copies, and the solution has one copy of each database";
        let place = if file.copies.is_some() { "copies.per_site" } else { at.as_str() };
        mistakes.add(Wrong::new(place, message).help("per_site = [2] or more in [copies]"));
    }
    refuse_foreign_copies(file, mistakes);
    let in_file = InFile { file, named, duration_s };
    let mut failures: Vec<(Failure, usize)> = Vec::new();
    for (index, event) in drill.event.iter().enumerate() {
        let at = format!("{at}.event[{index}]");
        let Some(failure) = mistakes.keep(in_file.failure(event, &at)) else { continue };
        mistakes.keep(refuse_overlap(&failure, failures.iter().map(|(other, _)| other), &at));
        failures.push((failure, index));
    }
    failures.sort_by(|(a, first), (b, second)| a.at_s.total_cmp(&b.at_s).then(first.cmp(second)));
    Some(DrillSpec {
        mount_dial: drill.mount_dial,
        partner: drill.partner,
        failures: failures.into_iter().map(|(failure, _)| failure).collect(),
    })
}

/// Drill table of a test of kind `drill`, which must have one.
fn described<'a>(test: &'a Test, path: &str) -> Checked<Option<&'a Drill>> {
    let is_drill = test.kind == TestKind::Drill;
    let silent = "the drill does not say what fails";
    match &test.drill {
        None if is_drill => {
            let wrong = Wrong::new(format!("{path}.kind"), silent);
            Err(wrong.help("add [test.drill] with [[test.drill.event]]"))
        }
        None => Ok(None),
        Some(_) if !is_drill => {
            let message = format!("a test of kind {} has no drill", test.kind.name());
            Err(Wrong::new(format!("{path}.drill"), message).help("kind = \"drill\""))
        }
        Some(drill) if drill.event.is_empty() => {
            Err(Wrong::new(format!("{path}.drill"), silent).help("add [[test.drill.event]]"))
        }
        Some(drill) => Ok(Some(drill)),
    }
}

/// Refuses database names that differ from the layout's, since folders of a drill's copies are named after the layout.
fn refuse_foreign_copies(file: &SolutionFile, mistakes: &mut Mistakes<'_>) {
    let rows = file.layout.iter().flat_map(|layout| &layout.database);
    for (index, row) in rows.enumerate() {
        mistakes.keep(refuse_foreign_name(&row.name, &format!("layout.database[{index}].name")));
    }
    if let Some(dag) = &file.dag {
        // Its names differ in digits only.
        mistakes.keep(name_on_disk(&dag.database_name, Names { n: 1, host: None }, "dag.database_name"));
    }
}

/// Names that events of a drill may refer to, and the length of its window.
struct InFile<'a> {
    file: &'a SolutionFile,
    named: &'a DefinedNames,
    duration_s: f64,
}

impl InFile<'_> {
    fn failure(&self, event: &DrillEvent, at: &str) -> Checked<Failure> {
        refuse_misplaced(event, at)?;
        let hit = self.hit(event, at)?;
        if let Some(volume) = &event.volume {
            let databases = hit[0].volumes.iter().filter(|known| known.role == Role::Database);
            let known = || databases.clone().map(|known| known.name.as_str());
            if !known().any(|known| known == volume) {
                let path = format!("{at}.volume");
                return Err(Wrong::unknown_name("volume with databases", volume, known(), path));
            }
        }
        in_range(&format!("{at}.at_s"), event.at_s, 0.0, self.duration_s)?;
        if let Some(after) = event.back_after_s {
            in_range(&format!("{at}.back_after_s"), after, 1.0, self.duration_s - event.at_s)?;
        }
        let name = event.site.as_ref().unwrap_or_else(|| &hit[0].name);
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
            hosts: hit.iter().map(|host| host.name.clone()).collect(),
            volume: event.volume.clone(),
            what,
            at_s: event.at_s,
            back_at_s: event.back_after_s.map(|after| event.at_s + after),
        })
    }

    /// Hosts that an event hits, at least one.
    fn hit(&self, event: &DrillEvent, at: &str) -> Checked<Vec<&HostSpec>> {
        match (&event.host, &event.site) {
            (Some(name), _) => {
                let known = || self.named.hosts.iter().map(|host| host.name.as_str());
                let unknown = || Wrong::unknown_name("host", name, known(), format!("{at}.host"));
                let found = self.named.hosts.iter().find(|host| host.name == *name);
                found.map(|host| vec![host]).ok_or_else(unknown)
            }
            (None, Some(site)) => {
                let index =
                    site_index(site, &format!("{at}.site"), self.file.site.is_empty(), &self.named.sites)?;
                // Every site has a host.
                Ok(self.named.hosts.iter().filter(|host| host.site == index).collect())
            }
            (None, None) => {
                let missing = if event.kind == DrillEventKind::SiteLost { "site" } else { "host" };
                let message = format!("{} does not say which {missing}", event.kind.name());
                Err(Wrong::new(at, message).help(format!("add {missing} = \"...\"")))
            }
        }
    }
}

/// Refuses host, site or volume names that the kind of failure does not take, or whose absence makes it incomplete.
fn refuse_misplaced(event: &DrillEvent, at: &str) -> Checked<()> {
    let (site_lost, volume_failed) =
        (event.kind == DrillEventKind::SiteLost, event.kind == DrillEventKind::VolumeFailed);
    let misplaced = [
        ("host", event.host.is_some() && site_lost),
        ("site", event.site.is_some() && !site_lost),
        ("volume", event.volume.is_some() && !volume_failed),
    ];
    if let Some((key, _)) = misplaced.iter().find(|(_, wrong)| *wrong) {
        let message = format!("{} takes no {key}", event.kind.name());
        return Err(Wrong::new(format!("{at}.{key}"), message));
    }
    if volume_failed && event.volume.is_none() {
        let wrong = Wrong::new(at, "volume_failed does not say which volume");
        return Err(wrong.help("add volume = \"...\""));
    }
    Ok(())
}

/// Refuses failures of a host that overlap: it may fail again only when it is back.
fn refuse_overlap<'a>(failure: &Failure, others: impl Iterator<Item = &'a Failure>, at: &str) -> Checked<()> {
    let end = |failure: &Failure| failure.back_at_s.unwrap_or(f64::INFINITY);
    for other in others {
        let shared = failure.hosts.iter().find(|host| other.hosts.contains(host));
        let overlap = failure.at_s <= end(other) && other.at_s <= end(failure);
        if let Some(host) = shared.filter(|_| overlap) {
            let message = format!("host `{host}` fails while it has failed already: {}", other.what);
            let wrong = Wrong::new(format!("{at}.at_s"), message);
            return Err(wrong.help("later, or let the earlier failure end before (back_after_s)"));
        }
    }
    Ok(())
}

/// Refuses a time that lies outside of this drill.
fn in_range(path: &str, value: f64, least: f64, most: f64) -> Checked<()> {
    if value.is_finite() && (least..=most).contains(&value) {
        return Ok(());
    }
    let key = path.rsplit('.').next().unwrap_or(path);
    Err(Wrong::new(path, format!("{key} = {value} cannot be")).help(format!("from {least} to {most}")))
}
