//! Whether a page is what was written in its place.

use edb::checksum::{Verdict, header_is_intact, verify};
use edb::page::PageRef;
use world::{Encoding, PageBuf};

/// Result of the check of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    Good,
    Uninitialised,
    Correctable,
    WrongNumber(u32),
    Bad(String),
}

impl Finding {
    /// Description of the finding.
    pub(crate) fn reason(&self) -> String {
        match self {
            Finding::Good => "nothing is wrong".to_owned(),
            Finding::Uninitialised => "it was never written".to_owned(),
            Finding::Correctable => "a bit is wrong".to_owned(),
            Finding::WrongNumber(claimed) => format!("it is page {claimed}"),
            Finding::Bad(what) => what.clone(),
        }
    }
}

/// Text about a page of another version than the flush map names.
pub(crate) const STALE: &str =
    "it is not the version that the flush map names: a write of the page was lost, or one of the map";

/// Dbtime of page `pgno`, which passed its check.
pub(crate) fn dbtime(page: &PageBuf, pgno: u32, template_id: Option<u64>) -> u64 {
    let without_bytes = dbtime_without_bytes(page, u64::from(pgno) + 1, template_id);
    without_bytes.unwrap_or_else(|| PageRef::new(page.as_slice()).dbtime())
}

/// Dbtime of the page at place `index` if its bytes need no check: a template page, or one with known edits. An
/// unchanged one has 0.
pub(crate) fn dbtime_without_bytes(page: &PageBuf, index: u64, template_id: Option<u64>) -> Option<u64> {
    if let Some((template, at)) = page.pristine() {
        return (at == index && Some(template.id()) == template_id).then_some(0);
    }
    let Encoding { codec, bytes } = page.encoding(index)?;
    template_id.filter(|id| codec.template_id() == Some(*id)).and_then(|_| codec.edited_version(bytes))
}

/// Judges the page at place `index` of a file (0 and 1 are headers). A page known as a template page, with or without
/// edits, is not checked by its bytes: template pages are valid, and edits keep them valid.
pub(crate) fn judge(page: &PageBuf, index: u64, template_id: Option<u64>) -> Finding {
    if dbtime_without_bytes(page, index, template_id).is_some() {
        return Finding::Good;
    }
    let bytes = page.as_slice();
    if index < 2 {
        let intact = header_is_intact(bytes);
        return if intact { Finding::Good } else { Finding::Bad("the header is not intact".to_owned()) };
    }
    match verify(bytes, (index - 1) as u32) {
        Verdict::Ok => match PageRef::new(bytes).validate() {
            Ok(()) => Finding::Good,
            Err(damage) => Finding::Bad(damage.to_string()),
        },
        Verdict::Uninitialised => Finding::Uninitialised,
        Verdict::Correctable { .. } => Finding::Correctable,
        Verdict::WrongNumber { claimed } => Finding::WrongNumber(claimed),
        Verdict::Bad => Finding::Bad("its checksum is wrong".to_owned()),
    }
}
