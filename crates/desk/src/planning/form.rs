//! The inputs of a solution as fields: made from the schema of the file and from what the file says.

use serde::Serialize;
use serde_json::Value;
use solution::{Solution, ranges};
use toml_edit::{DocumentMut, Item, TableLike};

/// Tables that the form leaves out: they do not influence a plan or a short simulation.
const LEFT_OUT: [&str; 5] = ["layout", "test", "fault", "fleet", "qualification"];
/// Tables whose fields are shown even if the file does not have them.
const ALWAYS: [&str; 3] = ["profile", "dag", "copies"];

/// Unit by the end of a key's name; the first match counts.
const UNITS: [(&str, &str); 21] = [
    ("_per_mailbox_day", "per mailbox and day"),
    ("_percent_per_week", "% per week"),
    ("_mb_per_s", "MB/s"),
    ("_mib_per_s", "MiB/s"),
    ("_per_day", "per day"),
    ("_per_s", "1/s"),
    ("_percent", "%"),
    ("_mb_per_mailbox", "MB"),
    ("iops", "1/s"),
    ("_iops_per_mailbox", "1/s"),
    ("_gib", "GiB"),
    ("_mib", "MiB"),
    ("_kib", "KiB"),
    ("_gb", "GB"),
    ("_mb", "MB"),
    ("_kb", "KB"),
    ("_tb", "TB"),
    ("_days", "days"),
    ("_min", "min"),
    ("_ms", "ms"),
    ("_s", "s"),
];

/// A table of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    /// Path of the table; a list entry is its index from 0 (`host.0`).
    pub path: String,
    /// Name of the entry, if it has one.
    pub name: Option<String>,
    /// Description of the table.
    pub title: String,
    /// Fields of the table.
    pub fields: Vec<Field>,
}

/// A value of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// Path of the value (`host.0.cores`).
    pub path: String,
    /// Key of the value.
    pub key: String,
    /// Description of the value.
    pub title: String,
    /// Kind of input that the page shows.
    pub kind: Kind,
    /// Unit of a number.
    pub unit: Option<&'static str>,
    /// Allowed range of a number or of each one of a list, as text.
    pub range: Option<String>,
    /// Values that a choice offers.
    pub choices: Vec<String>,
    /// Value in the file; null if the file does not set it.
    pub value: Value,
}

/// Kind of input for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A number.
    Number,
    /// Text.
    Text,
    /// One of several words.
    Choice,
    /// `true` or `false`.
    YesNo,
    /// A list of values.
    List,
}

/// Sections and fields for the text of a solution file; empty if the text is not TOML.
pub fn form(text: &str) -> Vec<Section> {
    let Ok(document) = text.parse::<DocumentMut>() else { return Vec::new() };
    let schema = Solution::json_schema();
    let reader = Reader { schema: &schema };
    let mut sections = Vec::new();
    for (key, property) in properties(&schema) {
        if LEFT_OUT.contains(&key.as_str()) {
            continue;
        }
        reader.table(key, property, document.get(key), &mut sections);
    }
    // What a plan begins with stands first.
    sections
        .sort_by_key(|section| ALWAYS.iter().position(|path| *path == section.path).unwrap_or(ALWAYS.len()));
    sections
}

struct Reader<'a> {
    schema: &'a Value,
}

impl<'a> Reader<'a> {
    /// Adds the sections of a table or of a list of tables, and of the tables inside that the file has.
    fn table(&self, path: &str, property: &'a Value, item: Option<&Item>, sections: &mut Vec<Section>) {
        let form = self.resolved(property);
        let title = first_sentence(description(property).or(description(form)).unwrap_or(""));
        if let Some(entries) = form.get("items").map(|items| self.resolved(items)) {
            let tables = item.and_then(Item::as_array_of_tables).into_iter().flatten();
            for (number, table) in tables.enumerate() {
                self.section(&format!("{path}.{number}"), &title, entries, Some(table), sections);
            }
            return;
        }
        let table = item.and_then(Item::as_table_like);
        if table.is_some() || ALWAYS.contains(&path) {
            self.section(path, &title, form, table, sections);
        }
    }

    fn section(
        &self,
        path: &str,
        title: &str,
        form: &'a Value,
        table: Option<&dyn TableLike>,
        sections: &mut Vec<Section>,
    ) {
        let item = |key: &str| table.and_then(|table| table.get(key));
        let name = item("name").and_then(Item::as_str).map(str::to_owned);
        let mut fields = Vec::new();
        let mut inner = Vec::new();
        for (key, property) in properties(form) {
            match self.field(path, key, property, item(key)) {
                Some(field) => fields.push(field),
                None if item(key).is_some() => {
                    self.table(&format!("{path}.{key}"), property, item(key), &mut inner)
                }
                None => {}
            }
        }
        // What the file says stands first, in its order.
        let place = |key: &str| table.and_then(|table| table.iter().position(|(known, _)| known == key));
        fields.sort_by_key(|field: &Field| place(&field.key).unwrap_or(usize::MAX));
        sections.push(Section { path: path.to_owned(), name, title: title.to_owned(), fields });
        sections.append(&mut inner);
    }

    /// Field of a value; `None` for a table.
    fn field(&self, table: &str, key: &str, property: &'a Value, item: Option<&Item>) -> Option<Field> {
        // Whether a program can read the file is nothing to change here.
        if (table, key) == ("solution", "schema") {
            return None;
        }
        let form = self.resolved(property);
        let choices = choices(form);
        let kind = if choices.is_empty() { kind(form)? } else { Kind::Choice };
        let value = match item {
            None => Value::Null,
            Some(item) => json(item.as_value()?)?,
        };
        let path = format!("{table}.{key}");
        let row = path.split('.').filter(|part| part.parse::<u32>().is_err()).collect::<Vec<_>>().join(".");
        let range = ranges::SOLUTION.iter().find(|(known, _)| *known == row);
        Some(Field {
            key: key.to_owned(),
            title: first_sentence(description(property).or(description(form)).unwrap_or("")),
            unit: UNITS
                .iter()
                .find(|(end, _)| kind == Kind::Number && key.ends_with(end))
                .map(|&(_, unit)| unit),
            range: range.map(|(_, allowed)| match kind {
                Kind::List => format!("each {}", allowed.words()),
                _ => allowed.words(),
            }),
            path,
            kind,
            choices,
            value,
        })
    }

    /// Schema of a property: follows its reference, and drops the null alternative of an optional value.
    fn resolved(&self, property: &'a Value) -> &'a Value {
        if let Some(options) = property.get("anyOf").and_then(Value::as_array)
            && let [one, nothing] = &options[..]
            && nothing["type"] == "null"
        {
            return self.resolved(one);
        }
        match property.get("$ref").and_then(Value::as_str) {
            Some(place) => self.schema.pointer(place.trim_start_matches('#')).unwrap_or(property),
            None => property,
        }
    }
}

fn properties(form: &Value) -> impl Iterator<Item = (&String, &Value)> {
    form.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn description(form: &Value) -> Option<&str> {
    form.get("description").and_then(Value::as_str)
}

/// Words that a value may take; empty if any text is allowed.
fn choices(form: &Value) -> Vec<String> {
    let words =
        |values: &[Value]| values.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    if let Some(values) = form.get("enum").and_then(Value::as_array) {
        return words(values);
    }
    let options = form.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    options
        .flat_map(|option| match (option.get("const"), option.get("enum").and_then(Value::as_array)) {
            (Some(word), _) => words(std::slice::from_ref(word)),
            (None, Some(values)) => words(values),
            (None, None) => Vec::new(),
        })
        .collect()
}

fn kind(form: &Value) -> Option<Kind> {
    let of = |name: &str| match name {
        "integer" | "number" => Some(Kind::Number),
        "string" => Some(Kind::Text),
        "boolean" => Some(Kind::YesNo),
        "array" if form.get("items").is_some_and(|items| items.get("type").is_some()) => Some(Kind::List),
        _ => None,
    };
    match form.get("type")? {
        Value::String(name) => of(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find_map(of),
        _ => None,
    }
}

/// Value of the file as JSON; `None` for a table or a date.
fn json(value: &toml_edit::Value) -> Option<Value> {
    Some(match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        toml_edit::Value::Float(number) => Value::from(*number.value()),
        toml_edit::Value::Boolean(value) => Value::from(*value.value()),
        toml_edit::Value::Array(values) => Value::from(values.iter().map(json).collect::<Option<Vec<_>>>()?),
        toml_edit::Value::Datetime(_) | toml_edit::Value::InlineTable(_) => return None,
    })
}

fn first_sentence(text: &str) -> String {
    text.split_once(". ").map_or(text, |(first, _)| first).replace('\n', " ").trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use solution::EXAMPLES;
    use testkit::claims::HONEST;

    use super::*;

    fn field(sections: &[Section], path: &str) -> Field {
        let found = sections.iter().flat_map(|section| &section.fields).find(|field| field.path == path);
        found.unwrap_or_else(|| panic!("no field {path}")).clone()
    }

    #[test]
    fn fields_have_title_unit_range_choices_and_the_value_of_the_file() {
        let sections = form(HONEST);
        let mailboxes = field(&sections, "profile.mailboxes");
        assert_eq!((mailboxes.kind, &mailboxes.value), (Kind::Number, &json!(400)));
        assert_eq!(mailboxes.range.as_deref(), Some("a whole number from 1 to 1,000,000,000"));
        assert!(!mailboxes.title.is_empty());
        let quota = field(&sections, "profile.quota_mb");
        assert_eq!(quota.unit, Some("MB"));
        let exchange = field(&sections, "profile.exchange");
        assert_eq!(exchange.kind, Kind::Choice);
        assert!(exchange.choices.contains(&"2016".to_owned()), "{exchange:?}");
        let copies = field(&sections, "copies.per_site");
        assert_eq!(
            (copies.kind, copies.range.as_deref()),
            (Kind::List, Some("each a whole number from 0 to 16"))
        );
        let headroom = field(&sections, "profile.headroom_percent");
        assert_eq!(
            (headroom.unit, &headroom.value),
            (Some("%"), &Value::Null),
            "the file says nothing of it"
        );
        assert!(sections.iter().all(|section| !section.path.starts_with("test")));
    }

    #[test]
    fn every_number_of_a_shipped_solution_has_a_range() {
        for example in EXAMPLES {
            let sections = form(example.text);
            let numbers = sections.iter().flat_map(|section| &section.fields);
            for field in numbers.filter(|field| field.kind == Kind::Number) {
                assert!(field.range.is_some(), "{}: {}", example.name, field.path);
            }
        }
    }

    #[test]
    fn a_text_that_is_no_toml_has_no_fields() {
        assert_eq!(form("[profile\n"), []);
    }
}
