//! `assumptions.toml`: every number of a model, with its source.
//!
//! A value stands as `{ value = .., source = ".." }`. Sources begin with `data sheet:`, `paper:`, `published:` (one of
//! the five papers in `published/`), `measured:` or `assumption:` and say which, or why. A table names a part; its
//! values without their sources become the type of that part.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::ArrayError;
use crate::hardware::{
    CloneReads, Controller, DriveModel, DynamicPool, HostCosts, Link, LogStore, ReadCache, Rebuild,
    RemoteCopyCosts, ReplicatedStore, TieredPool, WriteCache,
};
use crate::measured::{Form, MeasuredStorage};

/// Value of the assumptions with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Table, name and key of the value, joined by dots.
    pub key: String,
    /// Value as in the file.
    pub value: String,
    /// Source of the value: data sheet, paper, published solution, or assumption.
    pub source: String,
}

/// The assumptions of all models.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumptions {
    tables: BTreeMap<String, BTreeMap<String, Table>>,
    sources: Vec<Source>,
}

const KINDS: [&str; 5] = ["data sheet: ", "paper: ", "published: ", "measured: ", "assumption: "];

/// The table of a storage that was measured; none is shipped.
const MEASURED: &str = "measured";

/// Name of the measured storage of all volumes that have none of their own.
pub const EVERY_OTHER: &str = "storage";

impl Assumptions {
    /// Assumptions that ship with Proofload.
    pub fn shipped() -> Assumptions {
        match Assumptions::parse(include_str!("../../../assumptions.toml")) {
            Ok(assumptions) => assumptions,
            Err(error) => panic!("the shipped assumptions.toml is broken: {error}"),
        }
    }

    /// Reads assumptions; every value must have a source.
    pub fn parse(text: &str) -> Result<Assumptions, ArrayError> {
        let file: Table = text.parse().map_err(|error| ArrayError::BadAssumptions(format!("{error}")))?;
        let mut tables: BTreeMap<String, BTreeMap<String, Table>> = BTreeMap::new();
        let mut sources = Vec::new();
        for (kind, entries) in file {
            let Value::Table(entries) = entries else {
                return Err(ArrayError::BadAssumptions(format!("{kind} is not a table of parts")));
            };
            for (name, values) in entries {
                let Value::Table(values) = values else {
                    return Err(ArrayError::BadAssumptions(format!(
                        "{kind}.{name} is not a table of values"
                    )));
                };
                let mut plain = Table::new();
                for (key, value) in values {
                    let full = format!("{kind}.{name}.{key}");
                    let (value, source) = with_source(&full, value)?;
                    let shown = value.to_string();
                    sources.push(Source { key: full, value: shown, source });
                    plain.insert(key, value);
                }
                tables.entry(kind.clone()).or_default().insert(name, plain);
            }
        }
        Ok(Assumptions { tables, sources })
    }

    /// These assumptions, with values of another file in place of their own. New parts must be complete.
    ///
    /// # Errors
    /// If the file is none of assumptions, or has a table that no model reads.
    pub fn with(mut self, text: &str) -> Result<Assumptions, ArrayError> {
        let other = Assumptions::parse(text)?;
        for (kind, parts) in other.tables {
            let known = self.tables.keys().cloned().collect::<Vec<_>>().join(", ");
            let is_read = kind == MEASURED || self.tables.contains_key(&kind);
            let mine = is_read.then(|| self.tables.entry(kind.clone()).or_default()).ok_or_else(|| {
                ArrayError::BadAssumptions(format!("nothing reads the table {kind}; there are: {known}"))
            })?;
            for (name, values) in parts {
                mine.entry(name).or_default().extend(values);
            }
        }
        let replaced = |source: &Source| other.sources.iter().any(|new| new.key == source.key);
        self.sources.retain(|source| !replaced(source));
        self.sources.extend(other.sources);
        self.measured()?;
        Ok(self)
    }

    /// Part by table and name.
    pub fn get<T: DeserializeOwned>(&self, kind: &'static str, name: &str) -> Result<T, ArrayError> {
        let table = self.tables.get(kind);
        let Some(values) = table.and_then(|table| table.get(name)) else {
            let known = table.map(|table| table.keys().cloned().collect::<Vec<_>>().join(", "));
            let known = known.unwrap_or_else(|| "no such table".into());
            return Err(ArrayError::UnknownName { kind, name: name.into(), known });
        };
        let bad = |error: toml::de::Error| ArrayError::BadAssumptions(format!("{kind}.{name}: {error}"));
        Value::Table(values.clone()).try_into().map_err(bad)
    }

    /// A drive by model name.
    pub fn drive(&self, name: &str) -> Result<DriveModel, ArrayError> {
        self.get("drive", name)
    }

    /// Controller by kind, without cache and partner.
    pub fn controller(&self, name: &str) -> Result<Controller, ArrayError> {
        let controller: Controller = self.get("controller", name)?;
        Ok(Controller { name: name.into(), ..controller })
    }

    /// The write cache of a kind of controller.
    pub fn write_cache(&self, name: &str) -> Result<WriteCache, ArrayError> {
        self.get("write_cache", name)
    }

    /// A link by kind.
    pub fn link(&self, name: &str) -> Result<Link, ArrayError> {
        let link: Link = self.get("link", name)?;
        Ok(Link { name: name.into(), ..link })
    }

    /// Times of a host for its I/O.
    pub fn host(&self, name: &str) -> Result<HostCosts, ArrayError> {
        self.get("host", name)
    }

    /// Settings of rebuilds.
    pub fn rebuild(&self, name: &str) -> Result<Rebuild, ArrayError> {
        self.get("rebuild", name)
    }

    /// Settings for the reading of clones.
    pub fn clone_reads(&self, name: &str) -> Result<CloneReads, ArrayError> {
        self.get("clone_reads", name)
    }

    /// Settings of copies at other sites.
    pub fn remote_copy(&self, name: &str) -> Result<RemoteCopyCosts, ArrayError> {
        self.get("remote_copy", name)
    }

    /// A dynamic pool by kind.
    pub fn dynamic_pool(&self, name: &str) -> Result<DynamicPool, ArrayError> {
        self.get("dynamic_pool", name)
    }

    /// Pool with tiers by kind; the caller sets its groups, its schedule and whether it is settled.
    pub fn tiering(&self, name: &str) -> Result<TieredPool, ArrayError> {
        self.get("tiering", name)
    }

    /// Read cache by kind; the caller sets its name, groups, drives and resident bytes.
    pub fn read_cache(&self, name: &str) -> Result<ReadCache, ArrayError> {
        self.get("read_cache", name)
    }

    /// Log-structured store by kind; the caller sets its group, flash drives and resident bytes.
    pub fn log_store(&self, name: &str) -> Result<LogStore, ArrayError> {
        let store: LogStore = self.get("log_store", name)?;
        Ok(LogStore { name: name.into(), ..store })
    }

    /// Replicated store by kind; the caller sets its nodes and resident bytes.
    pub fn replicated_store(&self, name: &str) -> Result<ReplicatedStore, ArrayError> {
        let store: ReplicatedStore = self.get("replicated_store", name)?;
        Ok(ReplicatedStore { name: name.into(), ..store })
    }

    /// The storages that were measured, each by its name: that of a volume, or [`EVERY_OTHER`].
    pub fn measured(&self) -> Result<Vec<(String, MeasuredStorage)>, ArrayError> {
        let of = |name: String| {
            self.get::<Form>(MEASURED, &name)?.check(&name)?;
            let storage = self.get::<MeasuredStorage>(MEASURED, &name)?.check(&name)?;
            Ok((name, storage))
        };
        self.names(MEASURED).into_iter().map(of).collect()
    }

    /// Names in a table of the assumptions.
    pub fn names(&self, kind: &str) -> Vec<String> {
        self.tables.get(kind).map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }

    /// All values with their sources.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}

fn with_source(key: &str, value: Value) -> Result<(Value, String), ArrayError> {
    let missing =
        || ArrayError::BadAssumptions(format!("{key} must be {{ value = .., source = \"{}..\" }}", KINDS[0]));
    let Value::Table(mut entry) = value else { return Err(missing()) };
    let value = entry.remove("value").ok_or_else(missing)?;
    let Some(Value::String(source)) = entry.remove("source") else { return Err(missing()) };
    let says_something = KINDS.iter().any(|kind| source.len() > kind.len() + 3 && source.starts_with(kind));
    if !says_something || !entry.is_empty() {
        return Err(ArrayError::BadAssumptions(format!(
            "{key}: the source must begin with one of {KINDS:?} and say which or why; nothing else may stand there"
        )));
    }
    Ok((value, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_value_has_a_source_and_every_part_its_type() {
        let assumptions = Assumptions::shipped();
        assert!(assumptions.sources().len() > 100);
        for table in assumptions.tables.keys() {
            for name in assumptions.names(table) {
                let read = match table.as_str() {
                    "drive" => {
                        let model = assumptions.drive(&name);
                        model
                            .and_then(|model| crate::drive::check(&model).map_err(ArrayError::BadAssumptions))
                    }
                    "controller" => assumptions.controller(&name).map(|_| ()),
                    "write_cache" => assumptions.write_cache(&name).map(|_| ()),
                    "link" => assumptions.link(&name).map(|_| ()),
                    "host" => assumptions.host(&name).map(|_| ()),
                    "dynamic_pool" => assumptions.dynamic_pool(&name).map(|_| ()),
                    "clone_reads" => assumptions.clone_reads(&name).map(|_| ()),
                    "tiering" => assumptions.tiering(&name).map(|_| ()),
                    "remote_copy" => assumptions.remote_copy(&name).map(|_| ()),
                    "read_cache" => assumptions.read_cache(&name).map(|_| ()),
                    "rebuild" => assumptions.rebuild(&name).map(|_| ()),
                    "log_store" => assumptions.log_store(&name).map(|_| ()),
                    "replicated_store" => assumptions.replicated_store(&name).map(|_| ()),
                    other => panic!("nothing reads the table {other}"),
                };
                assert_eq!(read, Ok(()), "{table}.{name}");
            }
        }
    }

    #[test]
    fn values_of_another_file_stand_in_place_of_the_shipped_ones() {
        let text = "[drive.ST4000NM0023]\nrpm = { value = 5400, source = \"data sheet: of another disk\" }\n";
        let (shipped, mine) = (Assumptions::shipped(), Assumptions::shipped().with(text).expect("sound"));
        assert_eq!(mine.sources().len(), shipped.sources().len());
        assert!(mine.sources().iter().any(|source| source.source == "data sheet: of another disk"));
        assert_ne!(mine.drive("ST4000NM0023"), shipped.drive("ST4000NM0023"));
        assert_eq!(mine.drive("ST3000NM0023"), shipped.drive("ST3000NM0023"));
        let wrong = text.replace("drive", "drvie");
        let error = Assumptions::shipped().with(&wrong).expect_err("no such table").to_string();
        assert!(error.contains("drvie; there are: clone_reads, controller, drive"), "{error}");
        let part = "[drive.new]\nrpm = { value = 5400, source = \"data sheet: of another disk\" }\n";
        let error = Assumptions::shipped().with(part).expect("sound").drive("new").expect_err("not whole");
        assert!(error.to_string().contains("drive.new: missing field"), "{error}");
    }

    #[test]
    fn a_value_without_a_source_is_refused() {
        for (text, complaint) in [
            ("[link.a]\nmb_per_s = 3.0", "must be"),
            ("[link.a]\nmb_per_s = { value = 3.0 }", "must be"),
            ("[link.a]\nmb_per_s = { value = 3.0, source = \"somewhere\" }", "must begin with"),
            ("[link.a]\nmb_per_s = { value = 3.0, source = \"paper: \" }", "must begin with"),
        ] {
            let error = Assumptions::parse(text).expect_err(text).to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
        let error = Assumptions::shipped().drive("ST1").expect_err("unknown").to_string();
        assert!(error.contains("ST4000NM0023"), "{error}");
    }
}
