//! A page as tree operations read it: bytes, or a page known without them.

use edb::page::{Node, PageRef, page_flags};

use crate::sparse::SparsePage;

/// View of a page: its bytes, or a sparse page.
#[derive(Clone, Copy)]
pub enum PageView<'a> {
    /// Page as bytes.
    Bytes(PageRef<'a>),
    /// Sparse page: a template page with edits.
    Sparse(&'a SparsePage),
}

/// Header fields that a descent reads on every page.
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

/// Forwards a question to whichever form the page has.
macro_rules! ask {
    ($page:expr, $bytes:ident => $of_bytes:expr, $sparse:ident => $of_sparse:expr) => {
        match $page {
            PageView::Bytes($bytes) => $of_bytes,
            PageView::Sparse($sparse) => $of_sparse,
        }
    };
}

impl<'a> PageView<'a> {
    /// View of a page as bytes.
    ///
    /// # Panics
    /// If their length is no page size.
    #[inline]
    pub fn of_bytes(bytes: &'a [u8]) -> PageView<'a> {
        PageView::Bytes(PageRef::new(bytes))
    }

    /// Page as bytes; built if it is sparse.
    pub fn to_ref(self) -> PageRef<'a> {
        ask!(self, page => page, page => page.to_ref())
    }

    /// Copy of the page's bytes.
    pub fn to_vec(self) -> Vec<u8> {
        self.to_ref().bytes().to_vec()
    }

    /// Size of the page, bytes.
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

    /// Dbtime of the page (see `PageRef`, also for the following functions).
    pub fn dbtime(self) -> u64 {
        ask!(self, page => page.dbtime(), page => page.outline().dbtime)
    }

    /// Page number of the left neighbour.
    pub fn prev(self) -> u32 {
        ask!(self, page => page.prev(), page => page.outline().prev)
    }

    /// Page number of the right neighbour.
    pub fn next(self) -> u32 {
        ask!(self, page => page.next(), page => page.outline().next)
    }

    /// Object id of the tree.
    pub fn objid(self) -> u32 {
        ask!(self, page => page.objid(), page => page.outline().objid)
    }

    /// Page flags, see `edb::page::page_flags`.
    pub fn flags(self) -> u32 {
        ask!(self, page => page.flags(), page => page.outline().flags)
    }

    /// Whether the page is the root of its tree.
    pub fn is_root(self) -> bool {
        self.flags() & page_flags::ROOT != 0
    }

    /// Whether the page is a leaf.
    pub fn is_leaf(self) -> bool {
        self.flags() & page_flags::LEAF != 0
    }

    /// Whether the page belongs to an owned- or available-extents tree.
    pub fn is_space(self) -> bool {
        self.flags() & page_flags::SPACE != 0
    }

    /// Whether keys of the tree may repeat.
    pub fn is_non_unique(self) -> bool {
        self.flags() & page_flags::NON_UNIQUE != 0
    }

    /// Number of free bytes on the page.
    pub fn free_bytes(self) -> usize {
        ask!(self, page => page.free_bytes(), page => page.free_bytes())
    }

    /// Number of bytes reserved for rollback.
    pub fn uncommitted_free_bytes(self) -> usize {
        ask!(self, page => page.uncommitted_free_bytes(), _page => 0)
    }

    /// External header of the page (tag 0).
    pub fn external_header(self) -> &'a [u8] {
        ask!(self, page => page.external_header(), _page => &[])
    }

    /// Prefix of the page's compressed keys.
    pub fn prefix(self) -> &'a [u8] {
        ask!(self, page => page.prefix(), _page => &[])
    }

    /// Number of nodes.
    pub fn node_count(self) -> usize {
        ask!(self, page => page.node_count(), page => page.node_count())
    }

    /// Returns node `slot`.
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

    /// Whether node `slot` is flagged deleted and waits for cleanup.
    pub fn is_deleted(self, slot: usize) -> bool {
        let flags = ask!(self, page => page.node(slot).flags, page => page.flags_of(slot));
        flags & edb::page::node_flags::DELETED != 0
    }

    /// Page number of the child under node `slot` of a branch page, if the node is well formed.
    pub fn child(self, slot: usize) -> Option<u32> {
        ask!(self, page => page.child(slot), page => page.child(slot))
    }

    /// Size of the data of node `slot`, bytes.
    pub fn data_bytes(self, slot: usize) -> usize {
        ask!(self, page => page.node(slot).data.len(), page => page.data_bytes(slot))
    }

    /// Size of node `slot` with its tag, bytes.
    pub fn node_bytes(self, slot: usize) -> usize {
        ask!(self, page => page.node_bytes(slot), page => page.node_bytes(slot))
    }

    /// Searches the nodes by key (bisection).
    ///
    /// # Errors
    /// The slot where the key belongs.
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        ask!(self, page => page.search(key), page => page.search(key))
    }

    /// Searches the nodes by key and data (bisection).
    ///
    /// # Errors
    /// The slot where the entry belongs.
    pub fn search_entry(self, key: &[u8], data: &[u8]) -> Result<usize, usize> {
        ask!(self, page => page.search_entry(key, data), page => page.search_entry(key, data))
    }

    /// Slot of a branch page whose child covers the entry.
    pub fn child_slot_of_entry(self, key: &[u8], data: &[u8]) -> usize {
        ask!(
            self,
            page => page.child_slot_of_entry(key, data),
            page => page.child_slot_of_entry(key, data)
        )
    }

    /// Size that a node would need on the page, bytes.
    pub fn bytes_needed(self, key: &[u8], data_bytes: usize) -> usize {
        ask!(
            self,
            page => page.bytes_needed(key, data_bytes),
            page => page.bytes_needed(key, data_bytes)
        )
    }

    /// Whether a node fits on the page.
    pub fn fits(self, key: &[u8], data_bytes: usize) -> bool {
        self.bytes_needed(key, data_bytes) + self.uncommitted_free_bytes() <= self.free_bytes()
    }
}
