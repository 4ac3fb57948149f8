//! What the hosts of a run share, held against what their solution file says that they share.

use evidence::environment::sharing::Shared;
use solution::{Behind, HostSpec, Scope, Solution, VolumeInfo};

/// Whether a solution file declares that hosts share this part. A shared machine cannot be declared.
pub fn is_declared(solution: &Solution, shared: &Shared) -> bool {
    let host = |name: &String| solution.hosts.iter().find(|host| host.name == *name);
    let hosts: Option<Vec<&HostSpec>> = shared.hosts.iter().map(host).collect();
    let volume = |(host_name, name): &(String, String)| -> Option<&VolumeInfo> {
        host(host_name)?.volumes.iter().find(|volume| volume.name == *name)
    };
    let volumes: Option<Vec<&VolumeInfo>> = shared.volumes.iter().map(volume).collect();
    let (Some(hosts), Some(volumes)) = (hosts, volumes.filter(|volumes| !volumes.is_empty())) else {
        return false;
    };
    let scope = solution.array.as_ref().map(|array| array.scope);
    let is_one_array = scope == Some(Scope::Shared)
        && hosts.iter().all(|host| solution.place_of(host) == solution.place_of(hosts[0]));
    let pool = |volume: &VolumeInfo| match solution.volumes[volume.kind].behind {
        Behind::Pool(pool) => Some(pool),
        Behind::Disks { .. } | Behind::Unknown => None,
    };
    let is_one_pool = scope != Some(Scope::Host)
        && volumes.iter().all(|volume| pool(volume).is_some() && pool(volume) == pool(volumes[0]));
    is_one_array || is_one_pool
}

#[cfg(test)]
mod tests {
    use evidence::environment::sharing::shared;
    use results::{Environment, Severity};

    use super::*;

    const TWO: &str = r#"
[solution]
name = "Two"
schema = 1

[[host]]
name = "h{n}"
count = 2

[[disk]]
name = "D"
capacity_gb = 1000
rpm = 7200

[[volume]]
name = "V"
path = "/v"
disk = "D"
disks = 2
raid = "raid1"

[[instance]]
name = "DB"

[sizing]
database_mib = 64
"#;
    const DISKS: &str = "disk = \"D\"\ndisks = 2\nraid = \"raid1\"\n";
    const POOL: &str = "[[pool]]\nname = \"P\"\ndisk = \"D\"\ndisks = 4\nraid = \"raid10\"\n";

    /// Whether the solution declares the machine, and the file system, that its two hosts share.
    fn declared(change: impl Fn(&str) -> String) -> [bool; 2] {
        let solution = Solution::parse(&change(TWO), "two.toml").expect("it is valid");
        let row = |host: &str, area: &str, name: &str, value: &str| {
            let [host, area, name, value] = [host, area, name, value].map(str::to_owned);
            Environment { host, area, name, value, severity: Severity::Info, note: String::new() }
        };
        let of = |host| {
            [
                row(host, "System", "Boot id", "1"),
                row(host, "Volume V", "Identity", "file system on device 8:1"),
            ]
        };
        let rows: Vec<Environment> = ["h1", "h2"].into_iter().flat_map(of).collect();
        let [machine, file_system] = &shared(&rows)[..] else { panic!("they share two parts") };
        [machine, file_system].map(|part| is_declared(&solution, part))
    }

    #[test]
    fn shared_storage_is_declared_by_a_shared_array_or_by_one_pool_and_a_machine_never_is() {
        assert_eq!(declared(str::to_owned), [false, false]);
        let array = "[array]\nscope = \"shared\"\ncontroller = \"sas-array-2013\"\nlink = \"sas-6g-x4\"\n";
        assert_eq!(declared(|text| format!("{text}{array}")), [false, true]);
        let own = array.replace("shared", "host");
        assert_eq!(declared(|text| format!("{text}{own}")), [false, false]);
        let pool =
            |text: &str| format!("{}{POOL}", text.replace(DISKS, "pool = \"P\"\ncapacity_gib = 100\n"));
        assert_eq!(declared(pool), [false, true]);
        let sites = "[[site]]\nname = \"A\"\n[[site]]\nname = \"B\"\n";
        let apart = |text: &str| {
            let hosts = "name = \"h1\"\nsite = \"A\"\n[[host]]\nname = \"h2\"\nsite = \"B\"";
            format!("{}{sites}{array}", text.replace("name = \"h{n}\"\ncount = 2", hosts))
        };
        assert_eq!(declared(apart), [false, false], "an array of each site");
    }
}
