//! A solution with another number of mailboxes.
//!
//! Mailboxes, the size of the test databases and the target of the tests change; hosts, disks, copies and the number of
//! databases stay. The load is paced at the target that the plan has for the failure under test, or for its worst one.
//!
//! Limits: databases that are sized by a share of their volume keep that size. Databases that are made once
//! ([`Scaling::with_fixed_databases`]) keep theirs, too.

use plan::Plan;
use solution::{Result, Solution};
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

/// Solution text from which solutions with other numbers of mailboxes are made.
pub struct Scaling<'a> {
    solution: &'a Solution,
    document: DocumentMut,
    /// Number of mailboxes in the file.
    pub mailboxes: u64,
    /// Whether the test databases keep the size that they have in the file, so that only the load changes.
    keeps_databases: bool,
}

impl<'a> Scaling<'a> {
    /// Prepares a solution for scaling.
    ///
    /// # Errors
    /// The file says too little about its users to plan it.
    pub fn of(solution: &'a Solution) -> Result<Scaling<'a>> {
        let mailboxes = solution.users()?.mailboxes;
        let planned = plan::plan(solution, &[])?;
        let mut document = parsed(solution);
        // Otherwise the plan would derive another number for other mailboxes.
        table(&mut document, "dag").insert("databases", value(planned.layout.databases.len() as i64));
        let load = table(&mut document, "load");
        for key in ["sessions", "iops", "batches_per_s", "target_iops", "hours_percent"] {
            load.remove(key);
        }
        Ok(Scaling { solution, document, mailboxes, keeps_databases: false })
    }

    /// As [`Scaling::of`], for databases that exist: they and the profile stay as in the file with any load.
    ///
    /// # Errors
    /// The file says too little about its users to plan it.
    pub fn with_fixed_databases(solution: &'a Solution) -> Result<Scaling<'a>> {
        Ok(Scaling { keeps_databases: true, ..Scaling::of(solution)? })
    }

    /// Plan of the solution with this number of mailboxes, without test databases.
    ///
    /// # Errors
    /// What the planner cannot plan.
    pub fn planned(&self, mailboxes: u64) -> Result<Plan> {
        let mut document = self.document.clone();
        table(&mut document, "profile").insert("mailboxes", value(mailboxes as i64));
        plan::plan(&self.read(&document)?, &[])
    }

    /// Whether the test databases for this number of mailboxes are valid and fit on their volumes.
    pub fn fits(&self, mailboxes: u64) -> bool {
        self.read(&self.resized(mailboxes)).is_ok()
    }

    /// Solution with this number of mailboxes and the load that its plan asks for.
    ///
    /// # Errors
    /// The test databases do not fit ([`Scaling::fits`]), or the window is too short for so small a load.
    pub fn solution(&self, mailboxes: u64) -> Result<Solution> {
        let target_iops = self.planned(mailboxes)?.targets.target_iops;
        let mut document = match self.keeps_databases {
            true => self.document.clone(),
            false => self.resized(mailboxes),
        };
        table(&mut document, "load").insert("target_iops", value(target_iops));
        self.read(&document)
    }

    fn read(&self, document: &DocumentMut) -> Result<Solution> {
        Solution::parse(&document.to_string(), self.solution.file_name())
    }

    fn resized(&self, mailboxes: u64) -> DocumentMut {
        let mut document = self.document.clone();
        let factor = mailboxes as f64 / self.mailboxes as f64;
        table(&mut document, "profile").insert("mailboxes", value(mailboxes as i64));
        for (place, key) in [("sizing", "database_mib"), ("sizing", "mailboxes")] {
            if let Some(item) = document.get_mut(place).and_then(Item::as_table_like_mut) {
                scale(item, key, factor);
            }
        }
        if let Some(instances) = document.get_mut("instance").and_then(Item::as_array_of_tables_mut) {
            for databases in instances.iter_mut().filter_map(|instance| instance.get_mut("databases")) {
                each_table(databases, |database| scale(database, "size_mib", factor));
            }
        }
        document
    }
}

/// Text of the solution with this number of mailboxes and the load that its plan asks for.
///
/// # Errors
/// The file says too little to plan it, or cannot have that many.
pub fn scaled(solution: &Solution, mailboxes: u64) -> Result<Solution> {
    Scaling::of(solution)?.solution(mailboxes)
}

/// Parses a solution text that is known to be valid.
fn parsed(solution: &Solution) -> DocumentMut {
    solution.text().parse().expect("a solution that was read is TOML")
}

/// Returns a table of the file; creates it if it is missing.
fn table<'a>(document: &'a mut DocumentMut, name: &str) -> &'a mut dyn TableLike {
    let item = document.entry(name).or_insert_with(|| Item::Table(Table::new()));
    item.as_table_like_mut().expect("a solution that was read has a table of this name")
}

/// Calls `change` for each table of a list of tables.
fn each_table(list: &mut Item, mut change: impl FnMut(&mut dyn TableLike)) {
    match list {
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| change(table)),
        Item::Value(value) => {
            let values = value.as_array_mut().into_iter().flat_map(|array| array.iter_mut());
            values.filter_map(|value| value.as_inline_table_mut()).for_each(|table| change(table));
        }
        _ => {}
    }
}

/// Multiplies a whole number of a table by a factor, if the key exists.
fn scale(table: &mut dyn TableLike, key: &str, factor: f64) {
    if let Some(old) = table.get(key).and_then(Item::as_integer) {
        table.insert(key, value((old as f64 * factor).round().max(1.0) as i64));
    }
}

#[cfg(test)]
mod tests {
    use solution::LoadMode;
    use testkit::claims::HONEST;

    use super::*;

    #[test]
    fn mailboxes_scale_the_databases_and_the_target_and_leave_hardware_copies_and_number_of_databases() {
        let text = HONEST.replace("target_iops = 48.4", "sessions = 7").replace("databases = 2\n", "");
        let solution = Solution::parse(&text, "s.toml").expect("it is valid");
        let scaling = Scaling::of(&solution).expect("it has users");
        let same = scaling.solution(400).expect("as described");
        let half = scaling.solution(200).expect("half of it");
        let bytes = |solution: &Solution| {
            solution.deployment(Some("mbx1")).expect("described").instances[0].databases[0].bytes
        };
        assert_eq!((bytes(&same), bytes(&half)), (163_840 << 20, 81_920 << 20));
        assert_eq!((same.load.target_iops, half.load.target_iops), (Some(48.4), Some(24.2)));
        assert_eq!(half.load.mode, LoadMode::PacedIops { iops: 24.2 }, "not the sessions of the file");
        assert_eq!(
            (&half.hosts.len(), &half.volumes, &half.copies),
            (&same.hosts.len(), &same.volumes, &same.copies)
        );
        let databases =
            |solution: &Solution| plan::plan(solution, &[]).expect("planned").layout.databases.len();
        assert_eq!(databases(&half), databases(&same));
    }

    #[test]
    fn a_number_of_mailboxes_whose_databases_do_not_fit_is_refused() {
        let solution = Solution::parse(HONEST, "s.toml").expect("it is valid");
        assert!(Scaling::of(&solution).expect("it has users").solution(40_000).is_err());
    }
}
