//! A page as tree operations read it: bytes, or a page known without them.

use edb::page::{Node, PageRef, page_flags};

use crate::sparse::SparsePage;

/// A page to read.
#[derive(Clone, Copy)]
pub enum PageView<'a> {
    /// Its bytes.
    Bytes(PageRef<'a>),
    /// What it is known to be.
    Sparse(&'a SparsePage),
}

/// What a descent looks at on every page.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub dbtime: u64,
    pub objid: u32,
    pub flags: u32,
}

impl Head {
    pub fn is_root(self) -> bool {
        self.flags & page_flags::ROOT != 0
    }

    pub fn is_leaf(self) -> bool {
        self.flags & page_flags::LEAF != 0
    }

    /// Whether entries of the page's tree are ordered by key and data. Space trees carry their owner's flag but have
    /// unique keys themselves.
    pub fn keys_repeat(self) -> bool {
        self.flags & (page_flags::NON_UNIQUE | page_flags::SPACE) == page_flags::NON_UNIQUE
    }
}

/// Answers a question in the same words whatever the page is.
macro_rules! ask {
    ($page:expr, $bytes:ident => $of_bytes:expr, $sparse:ident => $of_sparse:expr) => {
        match $page {
            PageView::Bytes($bytes) => $of_bytes,
            PageView::Sparse($sparse) => $of_sparse,
        }
    };
}

impl<'a> PageView<'a> {
    /// A view of bytes.
    ///
    /// # Panics
    /// If their length is no page size.
    #[inline]
    pub fn of_bytes(bytes: &'a [u8]) -> PageView<'a> {
        PageView::Bytes(PageRef::new(bytes))
    }

    /// The page as bytes, made if need be.
    pub fn to_ref(self) -> PageRef<'a> {
        ask!(self, page => page, page => page.to_ref())
    }

    /// A copy of its bytes.
    pub fn to_vec(self) -> Vec<u8> {
        self.to_ref().bytes().to_vec()
    }

    /// Bytes of the page.
    pub fn page_bytes(self) -> usize {
        ask!(self, page => page.bytes().len(), page => page.outline().page_bytes as usize)
    }

    pub(crate) fn head(self) -> Head {
        ask!(
            self,
            page => Head { dbtime: page.dbtime(), objid: page.objid(), flags: page.flags() },
            page => {
                let outline = page.outline();
                Head { dbtime: outline.dbtime, objid: outline.objid, flags: outline.flags }
            }
        )
    }

    /// See `PageRef`, as all that follows.
    pub fn dbtime(self) -> u64 {
        ask!(self, page => page.dbtime(), page => page.outline().dbtime)
    }

    /// Left neighbour.
    pub fn prev(self) -> u32 {
        ask!(self, page => page.prev(), page => page.outline().prev)
    }

    /// Right neighbour.
    pub fn next(self) -> u32 {
        ask!(self, page => page.next(), page => page.outline().next)
    }

    /// Object id of the tree.
    pub fn objid(self) -> u32 {
        ask!(self, page => page.objid(), page => page.outline().objid)
    }

    /// See `edb::page::page_flags`.
    pub fn flags(self) -> u32 {
        ask!(self, page => page.flags(), page => page.outline().flags)
    }

    /// Root of its tree.
    pub fn is_root(self) -> bool {
        self.flags() & page_flags::ROOT != 0
    }

    /// Leaf level.
    pub fn is_leaf(self) -> bool {
        self.flags() & page_flags::LEAF != 0
    }

    /// Belongs to an owned- or available-extent tree.
    pub fn is_space(self) -> bool {
        self.flags() & page_flags::SPACE != 0
    }

    /// Keys may repeat.
    pub fn is_non_unique(self) -> bool {
        self.flags() & page_flags::NON_UNIQUE != 0
    }

    /// All free bytes.
    pub fn free_bytes(self) -> usize {
        ask!(self, page => page.free_bytes(), page => page.free_bytes())
    }

    /// Bytes held for rollback.
    pub fn uncommitted_free_bytes(self) -> usize {
        ask!(self, page => page.uncommitted_free_bytes(), _page => 0)
    }

    /// Tag 0.
    pub fn external_header(self) -> &'a [u8] {
        ask!(self, page => page.external_header(), _page => &[])
    }

    /// What compressed keys start with.
    pub fn prefix(self) -> &'a [u8] {
        ask!(self, page => page.prefix(), _page => &[])
    }

    /// Number of nodes.
    pub fn node_count(self) -> usize {
        ask!(self, page => page.node_count(), page => page.node_count())
    }

    /// Node `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn node(self, slot: usize) -> Node<'a> {
        ask!(self, page => page.node(slot), page => page.node(slot))
    }

    /// All nodes in key order.
    pub fn nodes(self) -> impl Iterator<Item = Node<'a>> {
        (0..self.node_count()).map(move |slot| self.node(slot))
    }

    /// Whether node `slot` waits for cleanup.
    pub fn is_deleted(self, slot: usize) -> bool {
        let flags = ask!(self, page => page.node(slot).flags, page => page.flags_of(slot));
        flags & edb::page::node_flags::DELETED != 0
    }

    /// The child that node `slot` of a branch page leads to, if it is well formed.
    pub fn child(self, slot: usize) -> Option<u32> {
        ask!(self, page => page.child(slot), page => page.child(slot))
    }

    /// Bytes of the data of node `slot`.
    pub fn data_bytes(self, slot: usize) -> usize {
        ask!(self, page => page.node(slot).data.len(), page => page.data_bytes(slot))
    }

    /// Bytes that node `slot` takes, its tag included.
    pub fn node_bytes(self, slot: usize) -> usize {
        ask!(self, page => page.node_bytes(slot), page => page.node_bytes(slot))
    }

    /// Binary search by key.
    ///
    /// # Errors
    /// The slot where the key belongs.
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        ask!(self, page => page.search(key), page => page.search(key))
    }

    /// Binary search by key and data.
    ///
    /// # Errors
    /// The slot where the entry belongs.
    pub fn search_entry(self, key: &[u8], data: &[u8]) -> Result<usize, usize> {
        ask!(self, page => page.search_entry(key, data), page => page.search_entry(key, data))
    }

    /// Branch page: the slot whose child covers the entry.
    pub fn child_slot_of_entry(self, key: &[u8], data: &[u8]) -> usize {
        ask!(
            self,
            page => page.child_slot_of_entry(key, data),
            page => page.child_slot_of_entry(key, data)
        )
    }

    /// Bytes that a node would take.
    pub fn bytes_needed(self, key: &[u8], data_bytes: usize) -> usize {
        ask!(
            self,
            page => page.bytes_needed(key, data_bytes),
            page => page.bytes_needed(key, data_bytes)
        )
    }

    /// Whether a node fits.
    pub fn fits(self, key: &[u8], data_bytes: usize) -> bool {
        self.bytes_needed(key, data_bytes) + self.uncommitted_free_bytes() <= self.free_bytes()
    }
}
