//! The same solution with something changed: other disks, other copies, any other value.

use solution::{Behind, Disk, Result, Role, Setting, Solution};
use toml_edit::{DocumentMut, Item, Table, Value, value};

use crate::carry::Case;

/// Key of the solution file with the values of `--vary`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    key: String,
    values: Vec<String>,
}

impl Vary {
    /// Parses `KEY=VALUE,..` of the command line. Commas inside brackets do not separate values.
    ///
    /// # Errors
    /// It has no value.
    pub fn of_argument(argument: &str) -> std::result::Result<Vary, String> {
        let (key, rest) = argument.split_once('=').unwrap_or_default();
        let mut depth = 0_i32;
        let parts = rest.split(|c: char| {
            depth += i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
            c == ',' && depth == 0
        });
        let values: Vec<String> =
            parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
        if key.trim().is_empty() || values.is_empty() {
            return Err("write KEY=VALUE,VALUE such as disk=A,B or profile.messages_per_day=100,200".into());
        }
        Ok(Vary { key: key.trim().to_owned(), values })
    }
}

/// Solution as described, then with each value of each variation. `known`: disks that the file does not have.
///
/// # Errors
/// A value that the file cannot have, or a disk that neither file nor catalogue has.
pub fn cases(solution: Solution, variations: &[Vary], known: &[Disk]) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for vary in variations {
        for wanted in &vary.values {
            let changed = Some(format!("{} = {wanted}", vary.key));
            let solution = match vary.key.as_str() {
                "disk" => with_disk(&solution, wanted, known)?,
                "copies" => with(&solution, "copies.per_site", wanted)?,
                key => with(&solution, key, wanted)?,
            };
            cases.push(Case { changed, solution: plan::to_run(solution)? });
        }
    }
    cases.insert(0, Case { changed: None, solution: plan::to_run(solution)? });
    Ok(cases)
}

fn with(solution: &Solution, key: &str, wanted: &str) -> Result<Solution> {
    let setting = Setting::of_argument(&format!("{key}={wanted}")).expect("it has a key and a value");
    Solution::parse_with(solution.text(), solution.file_name(), &[setting])
}

/// Solution with another disk: every volume and pool that names the disk of the first database volume gets it.
fn with_disk(solution: &Solution, wanted: &str, known: &[Disk]) -> Result<Solution> {
    let mut document: DocumentMut = solution.text().parse().expect("a solution that was read is TOML");
    if !solution.disks.iter().any(|disk| disk.name == wanted) {
        let Some(disk) = known.iter().find(|disk| disk.name == wanted) else {
            let message = format!("no disk is called `{wanted}`");
            let help = "name a [[disk]] of the file, or of the catalogue that --catalogue names";
            return Err(solution.error("disk", message, Some(help.into())));
        };
        if let Some(disks) = document.get_mut("disk").and_then(Item::as_array_of_tables_mut) {
            disks.push(entry(disk));
        }
    }
    let first =
        solution.volumes.iter().find(|volume| volume.role == Role::Database).map(|volume| volume.behind);
    let replaced = match first {
        Some(Behind::Disks { disk, .. }) => solution.disks[disk].name.clone(),
        Some(Behind::Pool(pool)) => solution.disks[solution.pools[pool].disk].name.clone(),
        _ => {
            let message = "the volumes for databases name no disks that could be others";
            return Err(solution.error("volume", message, Some("add disk and disks to [[volume]]".into())));
        }
    };
    for list in ["volume", "pool"] {
        let tables = document.get_mut(list).and_then(Item::as_array_of_tables_mut);
        for table in tables.into_iter().flat_map(|tables| tables.iter_mut()) {
            if table.get("disk").and_then(Item::as_str) == Some(&replaced) {
                table.insert("disk", value(wanted));
            }
        }
    }
    Solution::parse(&document.to_string(), solution.file_name())
}

/// Formats a disk as a `[[disk]]` entry.
fn entry(disk: &Disk) -> Table {
    let mut table = Table::new();
    let mut set = |key: &str, known: Option<Value>| {
        if let Some(known) = known {
            table.insert(key, value(known));
        }
    };
    set("name", Some(disk.name.as_str().into()));
    set("model", Some(disk.model.as_str().into()));
    set("capacity_gb", Some(disk.capacity_gb.into()));
    set("random_iops", disk.random_iops.map(Value::from));
    set("sequential_iops", disk.sequential_iops.map(Value::from));
    set("solid_state", Some(disk.solid_state.into()));
    set("rpm", disk.rpm.map(|rpm| i64::from(rpm).into()));
    table
}

#[cfg(test)]
mod tests {
    use testkit::claims::HONEST;

    use super::*;

    fn honest() -> Solution {
        Solution::parse(HONEST, "s.toml").expect("it is valid")
    }

    #[test]
    fn values_are_parted_by_commas_outside_brackets() {
        let vary = Vary::of_argument("copies=[2, 1],[2,2]").expect("it has values");
        assert_eq!(
            (&*vary.key, &vary.values[..]),
            ("copies", &["[2, 1]".to_owned(), "[2,2]".to_owned()][..])
        );
        assert!(Vary::of_argument("copies").is_err() && Vary::of_argument("copies=").is_err());
    }

    #[test]
    fn a_disk_of_the_catalogue_takes_the_place_of_the_disk_under_the_databases() {
        let catalogue = Disk { name: "Large".into(), capacity_gb: 8000.0, ..honest().disks[0].clone() };
        let vary = [Vary::of_argument("disk=Large").expect("it has a value")];
        let cases = cases(honest(), &vary, std::slice::from_ref(&catalogue)).expect("the disk is known");
        assert_eq!((cases[0].changed.as_deref(), cases[1].changed.as_deref()), (None, Some("disk = Large")));
        let gib = |case: &Case| case.solution.volumes[0].capacity_gib.expect("it has disks");
        assert!((gib(&cases[1]) / gib(&cases[0]) - 2.0).abs() < 0.01);
        assert!(super::cases(honest(), &vary, &[]).is_err(), "nobody knows it");
    }

    #[test]
    fn copies_and_any_other_value_are_set_by_their_path() {
        let vary = ["copies=[1]", "profile.messages_per_day=300"]
            .map(|text| Vary::of_argument(text).expect("valid"));
        let cases = cases(honest(), &vary, &[]).expect("the file can have them");
        assert_eq!(cases[1].solution.copies.per_site, [1]);
        assert_eq!(cases[2].solution.users().expect("it has users").messages_per_day, Some(300.0));
        assert!(super::cases(honest(), &[Vary::of_argument("load.sesions=1").expect("valid")], &[]).is_err());
    }
}
