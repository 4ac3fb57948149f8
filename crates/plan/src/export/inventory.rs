//! The hosts as an inventory of Ansible, in JSON: one group for each site.
//!
//! Invariant: Ansible evaluates no text of the solution file. Values are marked as unsafe, keys are plain names.

use serde_json::{Map, Value, json};

use crate::Plan;

/// `inventory.json`, for `deploy/ansible`.
pub fn inventory(plan: &Plan) -> String {
    let mut sites: Vec<&str> = plan.servers.iter().map(|server| server.site.as_str()).collect();
    sites.dedup();
    let mut groups = Map::new();
    for (site, n) in sites.iter().zip(1..) {
        let here = plan.servers.iter().zip(1..).filter(|(server, _)| server.site == *site);
        let hosts: Map<String, Value> = here
            .map(|(server, number)| {
                let mut vars = json!({ "proofload_host": unsafe_text(&server.name) });
                if let Some(enclosure) = &server.enclosure {
                    vars["proofload_enclosure"] = unsafe_text(enclosure);
                }
                (alias(&server.name, number), vars)
            })
            .collect();
        let vars = json!({ "proofload_site": unsafe_text(site) });
        groups.insert(format!("site_{n}"), json!({ "hosts": hosts, "vars": vars }));
    }
    let inventory = json!({ "all": { "children": groups } });
    serde_json::to_string_pretty(&inventory).unwrap_or_default() + "\n"
}

/// Text that Ansible takes literally, braces included.
fn unsafe_text(text: &str) -> Value {
    json!({ "__ansible_unsafe": text })
}

/// Name of a host in Ansible: its own if that is a plain name.
fn alias(name: &str, number: u32) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain);
    if is_plain { name.to_owned() } else { format!("host-{number}") }
}
