//! Which hosts share hardware, and that the storage of all domains is that of all hosts.

use std::collections::BTreeSet;

use super::*;

/// Solution text with four hosts, two in each of two enclosures with spares.
const SOLUTION: &str = r#"
[solution]
name = "Domains"
schema = 1

[[enclosure]]
name = "E1"
bays = 60
hot_spares = 2

[[enclosure]]
name = "E2"
bays = 60
hot_spares = 2

[[host]]
name = "a{n}"
count = 2
enclosure = "E1"

[[host]]
name = "b{n}"
count = 2
enclosure = "E2"

[[disk]]
name = "ST4000NM0023"
capacity_gb = 4000

[[pool]]
name = "Pool"
disk = "ST4000NM0023"
disks = 4
raid = "raid10"

[[volume]]
name = "Own"
disk = "ST4000NM0023"
disks = 2
raid = "raid1"
path = "/own"

[[volume]]
name = "Part"
pool = "Pool"
capacity_gib = 256
path = "/part"

[[instance]]
name = "DB1"
volume = "Own"

[[instance]]
name = "DB2"
volume = "Part"

[sizing]
database_mib = 1000

[array]
scope = "SCOPE"
controller = "sas-array-2013"
controllers = 2
link = "sas-6g-x4"
links_per_host = 2
ARRAY

[[test]]
kind = "performance"
"#;

fn solution(scope: &str, array: &str) -> Solution {
    let text = SOLUTION.replace("SCOPE", scope).replace("ARRAY", array);
    Solution::parse(&text, "domains.toml").unwrap_or_else(|error| panic!("{error}"))
}

const REMOTE_COPY: &str = r#"
[array.remote_copy]
distance_km = 100
link = "fc-8g"
when_link_lost = "suspend"
"#;

const READ_CACHE: &str = r#"
[array.read_cache]
disk = "SSDSC2BX800G4"
disks = 2

[[disk]]
name = "SSDSC2BX800G4"
capacity_gb = 800
"#;

fn deployments(solution: &Solution, hosts: &[&str]) -> Vec<Deployment> {
    let of = |host: &&str| solution.deployment(Some(host)).unwrap_or_else(|error| panic!("{error}"));
    hosts.iter().map(of).collect()
}

fn divided(solution: &Solution, hosts: &[&str]) -> Vec<Vec<usize>> {
    domains(solution, &deployments(solution, hosts))
}

/// Names of all hardware of these hosts, and of their volumes.
fn names(solution: &Solution, deployments: &[Deployment], hosts: &[usize]) -> Vec<String> {
    let spec = solution.array.as_ref().expect("it has an array");
    let (hardware, _) = hardware(solution, spec, deployments, hosts, &Assumptions::shipped())
        .unwrap_or_else(|error| panic!("{error}"));
    let mut names: Vec<String> = Vec::new();
    names.extend(hardware.drives.iter().map(|drive| drive.name.clone()));
    names.extend(hardware.groups.iter().map(|group| group.name.clone()));
    names.extend(hardware.controllers.iter().map(|controller| controller.name.clone()));
    names.extend(hardware.links.iter().map(|link| link.name.clone()));
    names.extend(hardware.read_caches.iter().map(|cache| cache.name.clone()));
    names.extend(hardware.volumes.iter().map(|volume| format!("{} {}", volume.host, volume.path)));
    names.sort();
    names
}

#[test]
fn hosts_of_an_enclosure_share_storage_unless_each_has_its_own() {
    let hosts = ["a1", "b1", "a2", "b2"];
    assert_eq!(divided(&solution("shared", ""), &hosts), [vec![0, 2], vec![1, 3]]);
    assert_eq!(divided(&solution("shared", ""), &["a2", "a1"]), [vec![0, 1]]);
    assert_eq!(divided(&solution("host", ""), &hosts), [vec![0], vec![1], vec![2], vec![3]]);
}

#[test]
fn hosts_are_together_if_the_solution_does_not_say_what_they_share() {
    let text = "[solution]\nname = \"S\"\nschema = 1\n[[host]]\nname = \"h{n}\"\ncount = 2\n[[volume]]\n\
                name = \"V\"\npath = \"/v\"\n[[instance]]\nname = \"D\"\nvolume = \"V\"\n[sizing]\n\
                database_mib = 64\n[[test]]\nkind = \"performance\"\n";
    let solution = Solution::parse(text, "no_array.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(divided(&solution, &["h1", "h2"]), [vec![0, 1]]);
}

#[test]
fn domains_share_no_hardware_and_are_together_the_storage_of_all_hosts() {
    for (scope, remote_copy, count) in [("shared", REMOTE_COPY, 2), ("host", "", 4)] {
        let solution = solution(scope, &format!("{remote_copy}{READ_CACHE}"));
        let deployments = deployments(&solution, &["a1", "b1", "a2", "b2"]);
        let whole = names(&solution, &deployments, &[0, 1, 2, 3]);
        let domains = domains(&solution, &deployments);
        let divided: Vec<_> = domains.iter().map(|hosts| names(&solution, &deployments, hosts)).collect();
        assert_eq!(divided.len(), count);
        let mut together = divided.concat();
        together.sort();
        assert_eq!(together, whole, "{scope}");
        assert_eq!(together.iter().collect::<BTreeSet<_>>().len(), whole.len(), "no part is in two domains");
    }
}
