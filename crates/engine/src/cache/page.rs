//! A page in a frame: bytes, or a page of the database's image and what was changed on it.
//!
//! Invariants
//! 1. Both forms take the same changes and are written as the same bytes; the second saves making them.
//! 2. What was handed out to be written never changes: a page that changes meanwhile is a new one.

use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

use btree::{Misfit, NodeFunction, PageChange, PageView, SparsePage, Taken};
use edb::page::{PageMut, PageRef};
use world::{KnownPage, PageBuf};

/// A page of a database's image, and what was changed on it. Storage that keeps pages as such keeps no bytes of it.
#[derive(Clone)]
pub struct ImagePage {
    image_id: u64,
    page: SparsePage,
}

impl ImagePage {
    /// A page of the image with this id.
    pub fn new(image_id: u64, page: SparsePage) -> ImagePage {
        ImagePage { image_id, page }
    }

    /// The page.
    pub fn page(&self) -> &SparsePage {
        &self.page
    }
}

impl KnownPage for ImagePage {
    fn image_id(&self) -> u64 {
        self.image_id
    }

    fn index(&self) -> u64 {
        u64::from(self.page.pgno()) + 1
    }

    fn page_bytes(&self) -> usize {
        self.page.outline().page_bytes
    }

    fn fill(&self, page: &mut [u8]) {
        self.page.fill(page);
        edb::checksum::stamp(page, self.page.pgno());
    }
}

pub(crate) enum CachedPage {
    /// In a box, so that frames stay small: looking for pages to free goes over many of them.
    Buf(Box<PageBuf>),
    Image(Rc<ImagePage>),
}

impl CachedPage {
    /// A page that was read and found good. `image`: the database's, by id and nodes.
    pub(crate) fn arrived(page: PageBuf, image: Option<(u64, &Rc<dyn NodeFunction>)>) -> CachedPage {
        let Some((image_id, nodes)) = image else { return CachedPage::of(page) };
        if let Some(known) = page.known().filter(|known| known.image_id() == image_id) {
            let known: Rc<dyn Any> = known.clone();
            if let Ok(known) = known.downcast::<ImagePage>() {
                return CachedPage::Image(known);
            }
        }
        let pristine = page.pristine().filter(|(image, _)| image.id() == image_id);
        let pgno = pristine.and_then(|(_, index)| u32::try_from(index.checked_sub(1)?).ok());
        match pgno.and_then(|pgno| SparsePage::of_image(nodes.clone(), pgno)) {
            Some(page) => CachedPage::Image(Rc::new(ImagePage { image_id, page })),
            None => CachedPage::of(page),
        }
    }

    /// A page of bytes.
    pub(crate) fn of(page: PageBuf) -> CachedPage {
        CachedPage::Buf(Box::new(page))
    }

    /// A page about to be made anew.
    pub(crate) fn empty(page_bytes: usize) -> CachedPage {
        CachedPage::of(PageBuf::empty(page_bytes))
    }

    pub(crate) fn view(&self) -> PageView<'_> {
        match self {
            CachedPage::Buf(page) => PageView::of_bytes(page.as_unsealed_slice()),
            CachedPage::Image(image) => PageView::Sparse(&image.page),
        }
    }

    /// The page to change as bytes; its checksums need not be right.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if let CachedPage::Image(image) = self {
            *self = CachedPage::of(PageBuf::known_as(image.clone()));
        }
        match self {
            CachedPage::Buf(page) => page.as_unsealed_mut_slice(),
            CachedPage::Image(_) => unreachable!("made bytes above"),
        }
    }

    /// Makes a change.
    ///
    /// # Errors
    /// If it does not fit; the page is then undefined.
    pub(crate) fn apply(&mut self, change: &PageChange, dbtime: u64) -> Result<(), Misfit> {
        if let CachedPage::Image(image) = self
            && Rc::make_mut(image).page.apply(change, dbtime)? == Taken::Yes
        {
            return Ok(());
        }
        change.apply(self.bytes_mut(), dbtime)
    }

    /// What is written to the file: the page as it is now, stamped.
    /// `is_prepared`: its header is already that of this write.
    pub(crate) fn stamped_copy(&mut self, pgno: u32, is_prepared: bool) -> PageBuf {
        let check = |bytes: &[u8]| {
            let valid = PageRef::new(bytes).validate();
            debug_assert_eq!(valid, Ok(()), "page {pgno} must be valid to be written");
        };
        match self {
            CachedPage::Buf(page) => page.sealed_copy(|bytes| {
                // Another copy gave a page that was never used: stamped it would say that it was.
                if PageRef::new(bytes).is_blank() {
                    return;
                }
                if cfg!(debug_assertions) {
                    check(bytes);
                }
                let mut page = PageMut::new(bytes);
                if !is_prepared {
                    page.prepare(pgno);
                }
                page.seal(pgno);
            }),
            CachedPage::Image(image) => {
                if cfg!(debug_assertions) {
                    check(image.page.to_ref().bytes());
                }
                Rc::make_mut(image).page.prepare_write();
                PageBuf::known_as(image.clone())
            }
        }
    }

    /// The page with its checksums.
    pub(crate) fn sealed(&self) -> Cow<'_, PageBuf> {
        match self {
            CachedPage::Buf(page) => Cow::Borrowed(&**page),
            CachedPage::Image(image) => Cow::Owned(PageBuf::known_as(image.clone())),
        }
    }

    /// Whether both say the same in the same version.
    pub(crate) fn says_the_same(&self, image: PageRef) -> bool {
        self.view().to_ref().says_the_same(image)
    }
}
