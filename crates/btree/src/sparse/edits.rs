//! What was changed on a page of the template: the edits as they came, and what they make of each node.

use smallvec::SmallVec;

use crate::change::PageOp;

/// What was changed on a page.
#[derive(Clone, Default)]
pub(super) struct Edits {
    /// In the order in which they were made.
    pub ops: Vec<PageOp>,
    /// In the order of the nodes.
    pub nodes: SmallVec<[Edit; 4]>,
}

/// How the nodes differ from those of the template, in the order of the nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edit {
    /// The template's node that it is about; a node that was added stands in front of it.
    pub base: u16,
    pub what: What,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// A node of its own: key and data of these edits.
    Added { key: u16, data: u16, flags: u8 },
    /// The template's node with flags, and the data of this edit.
    Changed { data: Option<u16>, flags: u8 },
    /// The template's node is gone.
    Removed,
}

/// Where a node comes from.
pub(super) struct Origin {
    pub base: usize,
    /// The edit that it has, or the place for one.
    pub edit: Result<usize, usize>,
}

impl Edits {
    /// The edit of the node in `slot`, made if there is none.
    pub fn change_of(&mut self, slot: usize) -> &mut What {
        let Origin { base, edit } = Origin::among(&self.nodes, slot);
        let at = edit.unwrap_or_else(|at| {
            let what = What::Changed { data: None, flags: 0 };
            self.nodes.insert(at, Edit { base: base as u16, what });
            at
        });
        &mut self.nodes[at].what
    }

    /// Where a node added at `slot` goes among the edits, and in front of which node of the template.
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
    /// Of the node in `slot` of a page with these edits.
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
    /// By how much the nodes behind it have moved.
    fn shift(self) -> isize {
        match self {
            What::Added { .. } => 1,
            What::Changed { .. } => 0,
            What::Removed => -1,
        }
    }
}
