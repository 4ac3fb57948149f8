//! `assumptions.toml`: every number of a model, with its source.
//!
//! A value stands as `{ value = .., source = ".." }`. Sources begin with `data sheet:`, `paper:`, `published:` (one of
//! the five papers in `published/`) or `assumption:` and say which, or why. A table names a part; its values without
//! their sources become the type of that part.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::ArrayError;
use crate::hardware::DriveModel;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Table, name and key, joined by dots.
    pub key: String,
    /// The value as it stands in the file.
    pub value: String,
    /// Where it comes from.
    pub source: String,
}

/// The assumptions of all models.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumptions {
    tables: BTreeMap<String, BTreeMap<String, Table>>,
    sources: Vec<Source>,
}

const KINDS: [&str; 4] = ["data sheet: ", "paper: ", "published: ", "assumption: "];

impl Assumptions {
    /// The ones that Proofload ships.
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

    /// A part by table and name.
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

    /// Names in a table.
    pub fn names(&self, kind: &str) -> Vec<String> {
        self.tables.get(kind).map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }

    /// Every value with its source.
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
