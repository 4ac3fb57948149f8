//! A page in a frame: bytes, or a page of the database's template and the edits made on it.
//!
//! Invariants
//! 1. Both forms take the same changes and are written as the same bytes; the second saves making them.
//! 2. What was handed out to be written never changes: a page that changes meanwhile is a new one.

use std::rc::Rc;

use btree::{Misfit, NodeFunction, PageChange, PageView, SparsePage};
use edb::page::{PageMut, PageRef};
use world::{PageBuf, PageCodec};

/// Largest number of freed page structures that are kept for reuse.
const SPARE_MAX: usize = 256;

/// Template of a database whose pages can be used and written without their bytes.
pub(crate) struct Template {
    pub(crate) nodes: Rc<dyn NodeFunction>,
    /// Codec of the same template.
    pub(crate) codec: Rc<dyn PageCodec>,
}

/// Freed structures of pages without bytes, for reuse: many are freed at a time, which is slow for an allocator.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is kept")]
pub(crate) struct SparePages(Vec<Box<SparsePage>>);

impl SparePages {
    /// Keeps the structure of a page that left the cache.
    pub(super) fn keep(&mut self, page: CachedPage) {
        if let CachedPage::Sparse(page) = page
            && self.0.len() < SPARE_MAX
        {
            self.0.push(page);
        }
    }

    fn boxed(&mut self, page: SparsePage) -> Box<SparsePage> {
        let Some(mut memory) = self.0.pop() else { return Box::new(page) };
        *memory = page;
        memory
    }
}

/// Page in the cache. Its contents are boxed, so that frames stay small for the search of pages to free.
pub(crate) enum CachedPage {
    Buf(Box<PageBuf>),
    Sparse(Box<SparsePage>),
}

impl CachedPage {
    /// Page `pgno` that was read and passed its check. `template`: that of the database, if there is one.
    pub(crate) fn arrived(
        page: PageBuf,
        pgno: u32,
        template: Option<&Template>,
        spare: &mut SparePages,
    ) -> CachedPage {
        let Some(template) = template else { return CachedPage::of(page) };
        let Template { nodes, codec } = template;
        let index = u64::from(pgno) + 1;
        let is_own = |id: u64| codec.template_id() == Some(id);
        let sparse = match (page.pristine(), page.encoding(index)) {
            (Some((of, at)), _) if at == index && is_own(of.id()) => {
                SparsePage::of_template(nodes.clone(), pgno)
            }
            (_, Some(encoding)) if encoding.codec.template_id().is_some_and(is_own) => {
                nodes.clone().decode(pgno, &encoding.bytes)
            }
            _ => None,
        };
        let Some(sparse) = sparse else { return CachedPage::of(page) };
        CachedPage::Sparse(spare.boxed(sparse))
    }

    /// Page as plain bytes.
    pub(crate) fn of(page: PageBuf) -> CachedPage {
        CachedPage::Buf(Box::new(page))
    }

    /// Empty page that is about to be formatted.
    pub(crate) fn empty(page_bytes: usize) -> CachedPage {
        CachedPage::of(PageBuf::empty(page_bytes))
    }

    #[inline]
    pub(crate) fn view(&self) -> PageView<'_> {
        match self {
            CachedPage::Buf(page) => PageView::of_bytes(page.as_unsealed_slice()),
            CachedPage::Sparse(page) => PageView::Sparse(page),
        }
    }

    /// Page as bytes for changes; checksums need not be right.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if let CachedPage::Sparse(page) = self {
            *self = CachedPage::of(bytes_of(page));
        }
        match self {
            CachedPage::Buf(page) => page.as_unsealed_mut_slice(),
            CachedPage::Sparse(_) => unreachable!("made bytes above"),
        }
    }

    /// Applies a change to the page.
    ///
    /// # Errors
    /// If it does not fit; the page is then undefined.
    pub(crate) fn apply(&mut self, change: &PageChange, dbtime: u64) -> Result<(), Misfit> {
        if let CachedPage::Sparse(page) = self
            && page.apply(change, dbtime)?
        {
            return Ok(());
        }
        change.apply(self.bytes_mut(), dbtime)
    }

    /// Copy of the page for a write, with checksums. `is_prepared`: its header is already that of this write.
    /// `template`: that of the database, if there is one. `scratch`: work space.
    pub(crate) fn stamped_copy(
        &mut self,
        pgno: u32,
        is_prepared: bool,
        template: Option<&Template>,
        scratch: &mut Vec<u8>,
    ) -> PageBuf {
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
            CachedPage::Sparse(page) => {
                if cfg!(debug_assertions) {
                    check(page.to_ref().bytes());
                }
                page.prepare_write();
                template.expect("a page without bytes is of a template").encoded(page, scratch)
            }
        }
    }

    /// Whether two pages hold the same contents in the same version.
    pub(crate) fn says_the_same(&self, template: PageRef) -> bool {
        self.view().to_ref().says_the_same(template)
    }
}

impl Template {
    /// Page of this template as the encoding of its edits, for a write.
    fn encoded(&self, page: &SparsePage, scratch: &mut Vec<u8>) -> PageBuf {
        let (index, len) = (u64::from(page.pgno()) + 1, page.outline().page_bytes as usize);
        scratch.clear();
        self.nodes.encode(page, scratch);
        let encoded = PageBuf::encoded_by(self.codec.clone(), index, scratch[..].into(), len);
        if cfg!(debug_assertions) {
            let mut bytes = bytes_of(page);
            edb::checksum::stamp(bytes.as_mut_slice(), page.pgno());
            let is_same = encoded.clone().as_slice() == bytes.as_slice();
            assert!(is_same, "page {} changes in its page codec", page.pgno());
        }
        encoded
    }
}

/// Bytes of a page, except its checksums.
fn bytes_of(page: &SparsePage) -> PageBuf {
    let mut bytes = PageBuf::empty(page.outline().page_bytes as usize);
    page.fill(bytes.as_mut_slice());
    bytes
}
