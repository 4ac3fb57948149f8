//! What the seals of a `run.db` and the page made from it say of changes after the run.

use evidence::{BrokenKind, Chain, Report, RunData, sha256_hex};

use super::{Finding, Findings, brief};

/// The files of a run folder beside its `run.db`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// The text of `report.json`.
    pub json: Option<String>,
    /// The text of `report.html`.
    pub html: Option<String>,
    /// The text of `junit.xml`.
    pub junit: Option<String>,
    /// Contradiction between `attestation.json` and the run, if there is one.
    pub attestation: Option<String>,
    /// Other files of the folder, which no seal covers.
    pub unsealed: Vec<String>,
}

/// Rule: rows fit their seals.
pub(super) fn chain(chain: &Chain, findings: &mut Findings) {
    for broken in &chain.broken {
        let (rule, text) = match broken.kind {
            BrokenKind::Rows => ("rows_changed", "rows were changed after they were sealed"),
            BrokenKind::World => ("world_mixed", "rows are of another world than their run"),
            BrokenKind::Seal => ("seal_broken", "the seals are not those that the recorder wrote"),
        };
        let seal = (broken.sealed.as_str(), format!("seal: {}", broken.place));
        findings.add(rule, text, seal, (broken.found.as_str(), format!("run.db: {}", broken.place)));
    }
}

/// Rule: a run whose file was closed in order says how it ended. A killed run leaves its file open.
pub(super) fn ending(data: &RunData, findings: &mut Findings) {
    if data.run.ending.is_none() && (data.seals.closed || data.seals.ended) {
        let text = "the recorder closed the file, so the run has an ending";
        let closed = if data.seals.ended { "sealed to the end" } else { "closed in order" };
        findings.add("ending_missing", text, ("none", "run.ending"), (closed, "run.db"));
    }
}

/// Rule: every seal is signed by `key`, 64 hexadecimal digits. Evidence without seals breaks it.
pub fn signed_by(chain: Option<&Chain>, key: &str) -> Option<Finding> {
    let signer = chain.and_then(|chain| chain.signer.as_deref());
    if signer == Some(key) && chain.is_some_and(|chain| chain.ended) {
        return None;
    }
    let mut findings = Findings::default();
    let found = match (signer, chain) {
        (Some(signer), _) if signer == key => "signed, but not to the end of the run",
        (Some(signer), _) => signer,
        (None, Some(_)) => "no valid signature",
        (None, None) => "no seals",
    };
    let text = "the run is not signed by the key that was asked for";
    findings.add("signature", text, (found, "run.db: seal"), (key, "--verify"));
    findings.into_vec().pop()
}

/// Rule: `report.html` and `junit.xml` are what this program makes of the report. Pages of another version cannot be
/// made again; they must carry the digest of `report.json`.
pub(super) fn pages(recomputed: &Report, beside: &Beside, findings: &mut Findings) {
    let ours = beside.html.as_ref().filter(|html| is_ours(html));
    if let (Some(junit), Ok(again)) = (&beside.junit, recomputed.junit())
        && (beside.html.is_none() || ours.is_some())
    {
        same_lines("junit.xml", junit, &again, findings);
    }
    let (Some(html), Ok(page)) = (&beside.html, recomputed.html()) else { return };
    if ours.is_some() {
        same_lines("report.html", html, &page, findings);
    } else if let (Some(carried), Some(json)) = (meta(html, "proofload-report"), &beside.json)
        && carried != sha256_hex(json.as_bytes())
    {
        let text = "report.html was made from another report.json than the one beside it";
        let file = (sha256_hex(json.as_bytes()), "report.json: SHA-256");
        findings.add("page_differs", text, (carried, "report.html: proofload-report"), file);
    }
}

/// The first line in which a file differs from what this program writes.
fn same_lines(name: &str, written: &str, made: &str, findings: &mut Findings) {
    if written == made {
        return;
    }
    let lines = written.lines().zip(made.lines()).enumerate();
    let differing = lines.into_iter().find(|(_, (one, other))| one != other);
    let (number, (one, other)) = differing.unwrap_or((made.lines().count(), ("", "another length")));
    let place = |file: &str| format!("{file}: line {}", number + 1);
    findings.add(
        "page_differs",
        format!("{name} is not what this program makes of run.db: `proofload report RUN` makes it again"),
        (brief(one), place(name)),
        (brief(other), place("run.db")),
    );
}

/// Whether this version of the program wrote a page.
pub(super) fn is_ours(html: &str) -> bool {
    meta(html, "generator").and_then(|name| name.strip_prefix("Proofload ")) == Some(Report::PROGRAM)
}

fn meta<'a>(html: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = html.split_once(&format!("<meta name=\"{name}\" content=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}
