//! `attestation.json`: the result of a run for tools of others. An in-toto Statement v1 with the predicate
//! `test-result/v0.1`, in a DSSE envelope that the key of the seals signs.
//!
//! Sources: <https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md>,
//! <https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md>,
//! <https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>.
//!
//! Limits: it says whose key signed which files. It does not say that the tests took place.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use results::{Grade, Outcome};
use serde_json::{Value, json};

use crate::report::{Report, TestReport};
use crate::store::{SigningKey, sha256_hex};

/// Name of the attestation file in a run folder.
pub const ATTESTATION: &str = "attestation.json";
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// Files of the run folder that the attestation names with their digests.
const SUBJECTS: [&str; 3] = ["run.db", "report.json", "report.html"];

/// The in-toto statement about the run in `folder`; `run.db` and the reports must be there already, because it names
/// their digests.
///
/// # Errors
/// A file of the run cannot be read.
pub fn statement(report: &Report, folder: &Path) -> std::io::Result<Value> {
    let subjects = SUBJECTS.iter().map(|name| {
        let digest = sha256_hex(&std::fs::read(folder.join(name))?);
        Ok(json!({ "name": name, "digest": { "sha256": digest } }))
    });
    let subjects = subjects.collect::<std::io::Result<Vec<Value>>>()?;
    let judged = &report.verdict;
    let missing = judged.conditions.iter().filter(|row| !row.met).map(|row| row.note.as_str());
    let named = |wanted: fn(&TestReport) -> bool| -> Vec<&str> {
        report.tests.iter().filter(|test| wanted(test)).map(|test| test.name.as_str()).collect()
    };
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": result(judged.grade),
            "configuration": [{
                "name": "solution.toml",
                "digest": { "sha256": sha256_hex(report.run.solution_text.as_bytes()) },
            }],
            "passedTests": named(|test| test.ended && test.outcome == Some(Outcome::Pass)),
            "warnedTests": named(|test| !test.ended || is_open(test.outcome)),
            "failedTests": named(|test| test.ended && test.outcome == Some(Outcome::Fail)),
            "claim": judged.headline,
            "grade": judged.grade.name(),
            "run": report.run.id,
            "world": report.run.world,
            "missing": missing.collect::<Vec<_>>(),
        },
    }))
}

/// Whether a test has no verdict, or a verdict that could not be reached.
fn is_open(outcome: Option<Outcome>) -> bool {
    !matches!(outcome, Some(Outcome::Pass | Outcome::Fail))
}

/// The result in the words of the in-toto predicate: PASSED for `qualified`, WARNED for `held`, which is no
/// qualification, else FAILED.
fn result(grade: Grade) -> &'static str {
    match grade {
        Grade::Qualified => "PASSED",
        Grade::Held => "WARNED",
        Grade::Failed | Grade::Incomplete => "FAILED",
    }
}

/// The bytes that are signed: the pre-authentication encoding of DSSE (payload type and payload with their lengths).
fn encoded(payload: &str) -> String {
    format!("DSSEv1 {} {PAYLOAD_TYPE} {} {payload}", PAYLOAD_TYPE.len(), payload.len())
}

/// The DSSE envelope of a statement: payload, signature, and the public key as its key id, in the form that `lint
/// --verify` takes.
pub fn envelope(statement: &Value, key: &SigningKey) -> String {
    let payload = statement.to_string();
    let signature = STANDARD.encode(key.sign_bytes(encoded(&payload).as_bytes()));
    let envelope = json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": STANDARD.encode(&payload),
        "signatures": [{ "keyid": key.public(), "sig": signature }],
    });
    format!("{envelope:#}\n")
}

/// Writes `attestation.json` of the run in `folder` beside its reports.
///
/// # Errors
/// A file cannot be read or written.
pub fn write(report: &Report, folder: &Path, key: &SigningKey) -> std::io::Result<()> {
    std::fs::write(folder.join(ATTESTATION), envelope(&statement(report, folder)?, key))
}

/// What of an attestation contradicts the run in `folder`: a digest, the signature or the result; `None` if all fits.
pub fn misfit(report: &Report, folder: &Path, text: &str) -> Option<String> {
    let no_envelope = || "it is no DSSE envelope of an in-toto statement".to_owned();
    let Ok(envelope) = serde_json::from_str::<Value>(text) else { return Some(no_envelope()) };
    let decoded = |value: &Value| STANDARD.decode(value.as_str()?).ok();
    let signature = &envelope["signatures"][0];
    let (Some(payload), Some(signed), Some(key)) =
        (decoded(&envelope["payload"]), decoded(&signature["sig"]), signature["keyid"].as_str())
    else {
        return Some(no_envelope());
    };
    let Ok(payload) = String::from_utf8(payload) else { return Some(no_envelope()) };
    if envelope["payloadType"] != PAYLOAD_TYPE
        || !crate::store::is_signed_bytes(encoded(&payload).as_bytes(), key, &signed)
    {
        return Some("its signature does not fit".to_owned());
    }
    let (Ok(stated), Ok(made)) = (serde_json::from_str::<Value>(&payload), statement(report, folder)) else {
        return Some(no_envelope());
    };
    let differing = ["_type", "predicateType", "subject", "predicate"];
    let part = differing.into_iter().find(|part| stated[*part] != made[*part])?;
    Some(format!("its {part} is not that of the run"))
}
