//! What the seals of a `run.db` and the page made from it say of changes after the run.

use evidence::{BrokenKind, Chain, Report, sha256_hex};

use super::{Finding, Findings, brief};

/// Rows and seals that do not fit.
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

/// Whether every seal is signed by `key`, 64 hexadecimal digits. Evidence without seals is not.
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

/// `report.html` against the page that this program makes. A page of another version is compared by the digest
/// that it carries.
pub(super) fn page(recomputed: &Report, json: Option<&str>, html: &str, findings: &mut Findings) {
    let Ok(page) = recomputed.html() else { return };
    if page == html {
        return;
    }
    if meta(html, "generator") == meta(&page, "generator") {
        let lines = html.lines().zip(page.lines()).enumerate();
        let differing = lines.into_iter().find(|(_, (one, other))| one != other);
        let (number, (one, other)) = differing.unwrap_or((page.lines().count(), ("", "another length")));
        let text =
            "report.html is not what this program makes of run.db: `proofload report RUN` makes it again";
        let place = |file: &str| format!("{file}: line {}", number + 1);
        findings.add(
            "page_differs",
            text,
            (brief(one), place("report.html")),
            (brief(other), place("run.db")),
        );
    } else if let (Some(carried), Some(json)) = (meta(html, "proofload-report"), json)
        && carried != sha256_hex(json.as_bytes())
    {
        let text = "report.html was made from another report.json than the one beside it";
        let file = (sha256_hex(json.as_bytes()), "report.json: SHA-256");
        findings.add("page_differs", text, (carried, "report.html: proofload-report"), file);
    }
}

fn meta<'a>(html: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = html.split_once(&format!("<meta name=\"{name}\" content=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}
