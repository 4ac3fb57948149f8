//! Whether a page is what was written in its place.

use std::any::Any;

use edb::checksum::{Verdict, header_is_intact, verify};
use edb::page::PageRef;
use world::PageBuf;

use crate::cache::ImagePage;

/// What a look at a page found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    Good,
    Uninitialised,
    Correctable,
    WrongNumber(u32),
    Bad(String),
}

impl Finding {
    /// What is wrong, in words.
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

/// The modification count of a good page. A page of the image that was never changed has none.
pub(crate) fn dbtime(page: &PageBuf) -> u64 {
    if page.pristine().is_some() {
        return 0;
    }
    let known = page.known().map(|known| -> &dyn Any { &**known });
    match known.and_then(|known| known.downcast_ref::<ImagePage>()) {
        Some(known) => known.page().outline().dbtime,
        None => PageRef::new(page.as_slice()).dbtime(),
    }
}

/// Judges the page at place `index` of a file (0 and 1 are its headers). A page known to be one of the database's image, as
/// it was or with the changes made on it, needs no look at its bytes: every page of an image is valid, and so is what a
/// change makes of a valid page.
pub(crate) fn judge(page: &PageBuf, index: u64, image_id: Option<u64>) -> Finding {
    if let Some((image, pristine_index)) = page.pristine()
        && pristine_index == index
        && Some(image.id()) == image_id
    {
        return Finding::Good;
    }
    if let Some(known) = page.known()
        && known.index() == index
        && Some(known.image_id()) == image_id
    {
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
