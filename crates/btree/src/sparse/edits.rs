//! What was changed on a page of the template: the edits as they came, and what they make of each node.

use smallvec::SmallVec;

use crate::change::PageOp;

/// Edits of a sparse page.
#[derive(Clone, Default)]
pub(super) struct Edits {
    /// Edits in the order in which they were made.
    pub ops: Vec<PageOp>,
    /// Differences from the template's nodes, in the order of the nodes.
    pub nodes: SmallVec<[Edit; 4]>,
}

/// Difference of one node from the template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edit {
    /// Index of the template node; an added node comes before it.
    pub base: u16,
    pub what: What,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// Added node, with key and data of these edits.
    Added { key: u16, data: u16, flags: u8 },
    /// Template node with other flags, or with the data of this edit.
    Changed { data: Option<u16>, flags: u8 },
    /// Template node that was removed.
    Removed,
}

/// Origin of a node: the template, or an edit.
pub(super) struct Origin {
    pub base: usize,
    /// Index of its edit, or the place where one would be inserted.
    pub edit: Result<usize, usize>,
}

impl Edits {
    /// Edit of the node in `slot`; created if there is none.
    pub fn change_of(&mut self, slot: usize) -> &mut What {
        let Origin { base, edit } = Origin::among(&self.nodes, slot);
        let at = edit.unwrap_or_else(|at| {
            let what = What::Changed { data: None, flags: 0 };
            self.nodes.insert(at, Edit { base: base as u16, what });
            at
        });
        &mut self.nodes[at].what
    }

    /// Place among the edits for a node added at `slot`, and the template node before which it comes.
    pub fn room_at(&self, slot: usize) -> (usize, u16) {
        let mut shift = 0isize;
        for (i, edit) in self.nodes.iter().enumerate() {
            if edit.base as isize + shift >= slot as isize {
                return (i, (slot as isize - shift) as u16);
            }
            shift += edit.what.shift();
        }
        (self.nodes.len(), (slot as isize - shift) as u16)
    }
}

impl Origin {
    /// Origin of the node in `slot` of a page with these edits.
    pub fn among(edits: &[Edit], slot: usize) -> Origin {
        let wanted = slot as isize;
        let mut shift = 0isize;
        for (i, edit) in edits.iter().enumerate() {
            let at = edit.base as isize + shift;
            if at > wanted {
                return Origin { base: (wanted - shift) as usize, edit: Err(i) };
            }
            if at == wanted && !matches!(edit.what, What::Removed) {
                return Origin { base: edit.base.into(), edit: Ok(i) };
            }
            shift += edit.what.shift();
        }
        Origin { base: (wanted - shift) as usize, edit: Err(edits.len()) }
    }
}

impl What {
    /// Number of slots by which an edit moves the nodes behind it.
    fn shift(self) -> isize {
        match self {
            What::Added { .. } => 1,
            What::Changed { .. } => 0,
            What::Removed => -1,
        }
    }
}
