//! `report.html`: one file, no script, nothing from elsewhere.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, context};

use super::model::*;
use super::{ReportError, first_page, svg, text};
use crate::store::sha256_hex;

/// The HTML templates, compiled into the program: a page needs no file beside it.
const TEMPLATES: [(&str, &str); 3] = [
    ("report.html", include_str!("../../templates/report.html")),
    ("test.html", include_str!("../../templates/test.html")),
    ("style.css", include_str!("../../templates/style.css")),
];

pub fn page(report: &Report) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    // A figure that was not measured has no fields; the filters print a dash for it.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    environment
        .add_filter("num", |value: Value, decimals: usize| figure(&value, |v| text::number(v, decimals)));
    environment.add_filter("sig", |value: Value| figure(&value, text::significant));
    environment.add_filter("planned", |value: Value| figure(&value, text::planned));
    environment.add_filter("bytes", |value: Value| figure(&value, text::bytes));
    environment.add_filter("kib", |value: Value| figure(&value, |v| text::number(v / 1024.0, 1)));
    environment.add_filter("percent", |value: Value| figure(&value, |v| text::number(v * 100.0, 1)));
    environment.add_filter("duration", |value: Value| figure(&value, text::duration));
    environment.add_filter("measure", |name: String| text::measure(&name).to_owned());
    let figures: Vec<Value> = report.tests.iter().map(test_figures).collect();
    let page = environment.get_template("report.html")?.render(context! {
        report => Value::from(Serde(report)),
        program => Report::PROGRAM,
        report_sha256 => sha256_hex(report.json().as_bytes()),
        figures,
        first => first_page::of(report),
        campaign => Value::from_safe_string(svg::campaign(report)),
    })?;
    Ok(page)
}

fn figure(value: &Value, print: impl Fn(f64) -> String) -> String {
    f64::try_from(value.clone()).map_or("–".to_owned(), print)
}

fn test_figures(test: &TestReport) -> Value {
    let safe = Value::from_safe_string;
    let mut charts: Vec<Value> = test.charts.iter().map(|chart| safe(svg::line_chart(chart))).collect();
    if let Some(map) = &test.latency_map {
        charts.push(safe(svg::latency_map(map, "Distribution of the database read latency over time")));
    }
    if let Some(map) = &test.instance_map {
        charts.push(safe(svg::instance_map(map, "Mean database read latency of each instance")));
    }
    context! { charts }
}
