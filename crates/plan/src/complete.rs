//! A solution file that describes no instances, completed from its plan: the tables that a run or a simulation needs.
//!
//! Each server that survives the failure under test (the worst one, where the file names none) gets the databases that
//! are active on it during that failure, each as an instance of its own on the volume where the plan puts the copy. The
//! servers have the size of the planned databases and the planned target.
//!
//! Invariant: what the file says stays as it is; tables are only added behind it.

use std::fmt::Write;

use solution::{HostSpec, Result, Role, Solution, VolumeInfo};

use crate::failure::Scenario;
use crate::toml_text::quoted;
use crate::{Edit, Plan, named, plan, target};

const MIB_PER_GB: f64 = 1024.0;
const MIB_PER_GIB: f64 = 1024.0;

/// Solution that `run` and `simulate` use: the file's own if it has an `[[instance]]` or nothing to plan with,
/// otherwise the file with the instances of its plan.
///
/// # Errors
/// The planner cannot plan the solution.
pub fn to_run(solution: Solution) -> Result<Solution> {
    if !lacks_instances(&solution) {
        return Ok(solution);
    }
    let text = completed(&solution, &plan(&solution, &[])?)?;
    let settings: Vec<_> = solution.settings().cloned().collect();
    // Lines of messages count in the completed text.
    let name = format!("{} with the instances of its plan", solution.file_name());
    Solution::parse_with(&text, &name, &settings)
}

/// Edit that writes the planned instances into the file; without a difference if the file has its own.
///
/// # Errors
/// As of [`target::write_targets`].
pub fn write_instances(solution: &Solution, planned: &Plan) -> Result<Edit> {
    let text = match lacks_instances(solution) {
        true => completed(solution, planned)?,
        false => solution.text().to_owned(),
    };
    let diff = target::line_diff(solution.text(), &text);
    Ok(Edit { text, diff })
}

/// Whether the file has users to plan for and no instance.
fn lacks_instances(solution: &Solution) -> bool {
    solution.span("instance").is_none() && solution.users().is_ok()
}

/// Whether all servers under test have volumes for MetaCaches, and the file does not say how large these are.
fn lacks_meta_cache_size(solution: &Solution) -> bool {
    let holds_cache = |volume: &VolumeInfo| volume.role == Role::MetaCache && volume.path.is_some();
    let mut tested = solution.hosts.iter().filter(|host| host.is_under_test);
    solution.span("engine.meta_cache_mib").is_none()
        && tested.all(|host| host.volumes.iter().any(holds_cache))
}

/// Text of the file with its targets and the size of its MetaCaches, followed by the missing tables.
fn completed(solution: &Solution, planned: &Plan) -> Result<String> {
    let mut keys = target::target_keys(solution, planned)?;
    if let Some(cache) = planned.meta_cache.filter(|_| lacks_meta_cache_size(solution)) {
        let mib = (cache.gib_of_fullest_ssd() * MIB_PER_GIB).floor();
        keys.push(target::set_key(solution, "engine", "meta_cache_mib", mib.to_string())?);
    }
    let mut text = target::edited(solution, keys);
    let named_failure = planned.failures.named().next().filter(|_| !solution.failed.is_empty());
    let failure = named_failure.unwrap_or_else(|| planned.failures.worst());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text += "\n# From the plan of this file: the databases that are active while the failure lasts.\n";
    if solution.span("under_test").is_none() {
        text += &under_test(solution, planned, failure);
    }
    if solution.span("sizing").is_none() {
        let mib = (planned.sizing.database_gb * MIB_PER_GB).ceil();
        write!(text, "[sizing]\ndatabase_mib = {mib}\n\n").expect("a string takes it");
    }
    for (server, host) in solution.hosts.iter().enumerate().filter(|(_, host)| host.is_under_test) {
        text += &instances_of(planned, failure, server, host);
    }
    Ok(text)
}

/// Table `[under_test]`: the surviving servers, and the parts that the failure takes.
fn under_test(solution: &Solution, planned: &Plan, failure: &Scenario) -> String {
    let is_lost = |server: usize| failure.lost_servers >> server & 1 == 1;
    let names = |wanted: &dyn Fn(usize) -> bool| {
        let servers = planned.servers.iter().enumerate().filter(|(server, _)| wanted(*server));
        servers.map(|(_, server)| server.name.clone()).collect::<Vec<_>>()
    };
    // A site or an enclosure is named as such where the failure is one.
    let label = named(solution, std::slice::from_ref(&failure.label)).ok().and_then(|mut sets| sets.pop());
    let lost = label.unwrap_or_else(|| names(&is_lost));
    let kept = names(&|server| !is_lost(server) && failure.active[server] > 0);
    format!("[under_test]\nhosts = {}\nfailed = {}\n\n", list(&kept), list(&lost))
}

/// Instance tables, one for each database that is active on a server while the failure lasts.
fn instances_of(planned: &Plan, failure: &Scenario, server: usize, host: &HostSpec) -> String {
    let volumes: Vec<&str> = host
        .volumes
        .iter()
        .filter(|volume| volume.is_under_test && volume.role == Role::Database)
        .map(|volume| volume.name.as_str())
        .collect();
    let mut tables = String::new();
    for (database, active) in planned.layout.databases.iter().zip(&failure.active_copy) {
        let copy = active.map(|preference| database.copies[usize::from(preference)]);
        let Some(copy) = copy.filter(|copy| usize::from(copy.server) == server) else { continue };
        let volume = volumes.get(usize::from(copy.volume).saturating_sub(1));
        writeln!(tables, "[[instance]]\nhost = {}\nname = {}", quoted(&host.name), quoted(&database.name))
            .expect("a string takes it");
        if let Some(volume) = volume {
            writeln!(tables, "volume = {}", quoted(volume)).expect("a string takes it");
        }
        tables.push('\n');
    }
    tables
}

fn list(names: &[String]) -> String {
    format!("[{}]", names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "))
}
