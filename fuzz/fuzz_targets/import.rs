//! Any bytes as a foreign file: facts or an error, and facts always make a run, a report and a lint.
#![no_main]

use libfuzzer_sys::fuzz_target;
use review::import::{About, Foreign, gather, parse, rows};

fuzz_target!(|bytes: &[u8]| {
    match parse(bytes) {
        Ok(Foreign::Reports(tests)) => {
            let evidence = gather("fuzz", tests);
            let about = About { id: "fuzz".into(), source: "fuzz".into(), solution_text: String::new() };
            let data = evidence::RunData::from_rows(rows(&evidence, &about)).expect("a run comes first");
            evidence::Report::new(&data).expect("no histogram to be damaged").html().expect("a page");
            review::lint::lint(&evidence);
        }
        Ok(Foreign::Solution(text)) => {
            // Whatever the configuration says, the text is TOML of ours or refused with a place.
            let _ = solution::Solution::parse(&text, "imported");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
