//! The desk in a real browser, used as a person would.

use serde_json::{Value, json};
use testkit::browser::{Visit, has_axe, has_browser, shows};

use crate::{SHORT, Served, entries};

/// Script that replaces the text of a field.
fn types(field: &str, text: &str) -> String {
    format!(
        "(() => {{ const field = document.getElementById({field:?}); field.closest('details')?.setAttribute('open', '');
            field.focus(); field.select(); document.execCommand('insertText', false, {text:?}); }})()"
    )
}

fn clicks(selector: &str) -> String {
    format!("document.querySelector({selector:?}).click()")
}

/// Checks the page with axe at both widths and in both colour schemes, and saves a picture if one is requested.
fn assert_usable(served: &Served, name: &str, steps: &[(&str, &str)]) -> Value {
    let url = format!("http://{}/", served.address);
    let pictures = std::env::var_os("PROOFLOAD_PICTURES").map(std::path::PathBuf::from);
    let mut last = Value::Null;
    for (width, dark) in [(390, false), (1400, false), (390, true), (1400, true)] {
        let picture = pictures.as_ref().map(|folder| folder.join(format!("{name}-{width}-{dark}.png")));
        let condition = shows("As in the file.");
        let visit = Visit { url: &url, width, dark, condition: &condition, steps, axe: true, picture };
        last = visit.see();
        assert_eq!(last["complaints"], json!([]), "{name} {width} {dark}");
        assert_eq!(last["wider_px"], 0, "{name} {width} {dark}: nothing hangs over the edge");
        assert_eq!(last["axe"], json!([]), "{name} {width} {dark}");
    }
    last
}

#[test]
fn a_person_plans_fails_compares_simulates_saves_and_exports() {
    if !has_browser() || !has_axe() {
        return;
    }
    let served = Served::new(SHORT);
    let (keep, larger, fail) =
        (clicks("#keep"), types("field-profile-mailboxes", "500"), clicks("#failures button[value=mbx1]"));
    let (simulate, named, save) =
        (clicks("#simulate"), types("save-name", "larger.toml"), clicks("#save button"));
    let (folder, export) = (types("export-name", "build"), clicks("#export button"));
    let undo = clicks("#undo");
    let simulated = shows("Simulated Two servers, 400 mailboxes on mbx1: 5 of 5 loads");
    let url = format!("http://{}/", served.address);
    let condition = shows("As in the file.");
    let is_lost =
        "document.querySelector('#failure').innerText.includes('mbx1 fails. Every database stays active')";
    let steps = [
        (&*keep, "document.querySelector('#rows').innerText.includes('Kept design')"),
        (
            &*larger,
            "document.querySelector('#rows').innerText.includes('500') && document.querySelector('#limits table')",
        ),
        (&*fail, is_lost),
        (&*simulate, &*simulated),
        (&*named, "true"),
        (&*save, "document.querySelector('#written').innerText.includes('larger.toml')"),
        (&*folder, "true"),
        (&*export, "document.querySelector('#written').innerText.includes('build')"),
    ];
    let visit = Visit { url: &url, width: 1400, condition: &condition, steps: &steps, ..Visit::default() };
    let page = visit.see();
    let text = page["text"].as_str().unwrap_or_default();
    assert_eq!(page["complaints"], json!([]), "{text}");
    for shown in [
        "Changed: profile.mailboxes.",
        "Mailboxes\t\t500\t400",
        "mbx1 fails. Every database stays active.",
        "Read latency, ms, over mailboxes",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert_eq!(entries(served.folder.path()), ["build", "larger.toml", "small.toml"]);
    let saved = std::fs::read_to_string(served.path("larger.toml")).expect("it was saved");
    assert!(saved.starts_with("# Ours.\n") && saved.contains("mailboxes = 500"), "{saved}");
    assert!(entries(&served.path("build")).contains(&"Servers.csv".to_owned()));
    // The simulation is still shown to the next visitor.
    let before = [(&*larger, "document.querySelector('#rows').innerText.includes('500')"), (&*fail, is_lost)];
    assert_usable(&served, "desk", &before);
    let back =
        [(&*larger, "document.querySelector('#rows').innerText.includes('500')"), (&*undo, &*condition)];
    let visit = Visit { url: &url, width: 390, condition: &condition, steps: &back, ..Visit::default() };
    let text = visit.see()["text"].to_string();
    assert!(text.contains("As in the file."), "{text}");
}

#[test]
fn a_bad_value_is_named_at_its_field_and_the_page_stays_usable() {
    if !has_browser() || !has_axe() {
        return;
    }
    let served = Served::new(SHORT);
    let bad = types("field-profile-mailboxes", "many <b>");
    let marked = "document.querySelector('#errors').innerText.includes('must be a whole number')
        && document.getElementById('field-profile-mailboxes').getAttribute('aria-invalid') === 'true'
        && document.getElementById('simulate').disabled";
    let page = assert_usable(&served, "wrong", &[(&*bad, marked)]);
    let text = page["text"].as_str().unwrap_or_default();
    assert!(text.contains("profile.mailboxes: `mailboxes` must be a whole number from 1 to"), "{text}");
    let (good, held) =
        (types("field-profile-mailboxes", "300"), "document.querySelector('#errors').innerText === ''");
    let (named, save) = (types("save-name", "../up.toml"), clicks("#save button"));
    let steps = [
        (&*bad, marked),
        (&*good, held),
        (&*named, "true"),
        (&*save, "document.querySelector('#written').innerText.includes('is no name for this')"),
    ];
    let url = format!("http://{}/", served.address);
    let condition = shows("As in the file.");
    let page =
        Visit { url: &url, width: 1400, condition: &condition, steps: &steps, ..Visit::default() }.see();
    let text = page["text"].as_str().unwrap_or_default();
    assert!(text.contains("Changed: profile.mailboxes.") && text.contains("is no name for this"), "{text}");
    assert_eq!(entries(served.folder.path()), ["small.toml"]);
}
