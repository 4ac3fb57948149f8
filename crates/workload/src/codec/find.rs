//! Finds what a page is made of: nodes of its template page, entries that the schema can make, and the rest.

use std::ops::Range;

use edb::page::{PageRef, node_flags};

use super::patch::equal_bytes;
use super::tags::{TAG_BYTES, Tag, Tags};
use super::{CodedPiece, DatabaseCodec};
use crate::schema::{Entry, Tree};
use crate::template::layout::PageRole;

pub(super) struct Finder<'a> {
    codec: &'a DatabaseCodec,
    pgno: u32,
    template: &'a [u8],
    template_tags: Tags<'a>,
    page: &'a [u8],
    tags: Tags<'a>,
    /// Tree to which the leaf belongs, by the page's own header.
    tree: Option<Tree>,
}

impl<'a> Finder<'a> {
    pub fn new(codec: &'a DatabaseCodec, pgno: u32, template: &'a [u8], page: &'a [u8]) -> Finder<'a> {
        let view = PageRef::new(page);
        let is_ours = view.is_leaf() && !view.is_space() && reserved_tags(page) <= 1;
        let tree = if is_ours { codec.template.tree_of(view.objid()) } else { None };
        Finder { codec, pgno, template, template_tags: Tags::of(template), page, tags: Tags::of(page), tree }
    }

    /// Pieces that describe this page, in tag order, and the byte ranges in which it equals the template, ascending,
    /// between header and tags.
    pub fn pieces(&self) -> (Vec<CodedPiece>, Vec<Range<usize>>) {
        let (mut pieces, mut settled): (Vec<CodedPiece>, Vec<Range<usize>>) = Default::default();
        let settled_max = self.page.len() - TAG_BYTES * self.tags.len();
        let mut expected = None;
        let mut index = 0;
        let mut in_place = 0;
        while let Some(tag) = self.tags.get(index) {
            let entry = self.recognise(index);
            let from_template = self.template_run(index, tag, entry, &mut in_place);
            let piece = match (from_template, entry) {
                (Some((run, equal)), _) => {
                    let is_behind = settled.last().is_none_or(|last| last.end <= equal.start);
                    if is_behind && equal.end <= settled_max {
                        settled.push(equal);
                    }
                    run
                }
                (None, Some((entry, flags))) => {
                    if self.extend(pieces.last_mut(), index, entry, flags, &mut expected) {
                        index += 1;
                        continue;
                    }
                    let version = entry.version().unwrap_or(0);
                    expected = self.codec.successor(entry, version);
                    CodedPiece::Entries { first: entry, version, count: 1, flags, at: tag.start }
                }
                (None, None) => CodedPiece::Raw { tag },
            };
            index += piece.count();
            pieces.push(piece);
        }
        (pieces, settled)
    }

    /// Extends a run of entries by one if this entry is the expected next one.
    fn extend(
        &self,
        last: Option<&mut CodedPiece>,
        index: usize,
        entry: Entry,
        flags: u8,
        expected: &mut Option<Entry>,
    ) -> bool {
        let Some(CodedPiece::Entries { first, version, count, flags: run_flags, .. }) = last else {
            return false;
        };
        let Some((before, tag)) = self.tags.get(index - 1).zip(self.tags.get(index)) else { return false };
        if *run_flags != flags || before.start + before.len != tag.start {
            return false;
        }
        match (*first, *count, entry) {
            // A run that starts with the root node of a long value gets its version from the chunk.
            (Entry::BodyRoot { id }, 1, Entry::Body { id: its, version: found }) if id == its => {
                *version = found
            }
            _ if *expected == Some(entry) => {}
            _ => return false,
        }
        *count += 1;
        *expected = self.codec.successor(entry, *version);
        true
    }

    fn recognise(&self, index: usize) -> Option<(Entry, u8)> {
        let tree = self.tree?;
        let node = PageRef::new(self.page).node(index.checked_sub(1)?);
        let mut key = [0; 16];
        let key = key.get_mut(..node.key_len())?;
        key[..node.prefix.len()].copy_from_slice(node.prefix);
        key[node.prefix.len()..].copy_from_slice(node.suffix);
        let entry = self.codec.template.schema().recognise(tree, key, node.data)?;
        Some((entry, node.flags & !node_flags::COMPRESSED))
    }

    /// Longest run of nodes from `index` on that are template nodes, and the range in which the page then equals the
    /// template's bytes (empty if the run was moved). `tag` is the first node's; `in_place`: template index of the
    /// last run.
    fn template_run(
        &self,
        index: usize,
        tag: Tag,
        entry: Option<(Entry, u8)>,
        in_place: &mut usize,
    ) -> Option<(CodedPiece, Range<usize>)> {
        let run = |from: usize| {
            let (count, bytes) = self.equal_nodes(index, from);
            let is_moved =
                self.template_tags.get(from).is_none_or(|template_tag| template_tag.start != tag.start);
            let equal = tag.start..tag.start + if is_moved { 0 } else { bytes };
            (count > 0).then_some((CodedPiece::Template { from, count, at: tag.start }, equal))
        };
        // Where an entry is on the template page is known; other nodes are looked for at their place.
        if let Some(from) = entry.and_then(|(entry, _)| self.template_index(entry)) {
            return run(from);
        }
        let is_before = |template_tag: Tag| template_tag.start < tag.start;
        let is_here = |at: usize| {
            self.template_tags.get(at).is_none_or(|template_tag| !is_before(template_tag))
                && at.checked_sub(1).is_none_or(|last| self.template_tags.get(last).is_some_and(is_before))
        };
        if !is_here(*in_place) {
            *in_place = match is_here(*in_place + 1) {
                true => *in_place + 1,
                false => self.template_tags.partition_point(0, self.template_tags.len(), is_before),
            };
        }
        let found = run(*in_place).or_else(|| run(*in_place + 1));
        if let Some((CodedPiece::Template { from, count, .. }, _)) = found {
            *in_place = from + count;
        }
        found
    }

    /// Index of an entry's tag on the template page; `None` if the entry is not on it.
    fn template_index(&self, entry: Entry) -> Option<usize> {
        let PageRole::Tree { run, level: 0, ordinal } = self.codec.template.layout().place(self.pgno) else {
            return None;
        };
        if run.tree != entry.tree() {
            return None;
        }
        let entries = run.levels[0].entries_of(ordinal);
        let places = self.codec.template.schema().places();
        let number = match entry {
            Entry::Conversation { id } => places.initial_rank(id)?,
            _ => u64::from(entry.id() - 1),
        };
        let offset = entries.contains(&number).then(|| (number - entries.start) as usize)?;
        Some(match entry {
            Entry::BodyRoot { .. } => 1 + 2 * offset,
            Entry::Body { .. } => 2 + 2 * offset,
            _ => 1 + offset,
        })
    }

    /// Number of nodes from `index` on that equal the template's from `from` on at equal distances, and the number of
    /// equal bytes from the first to the end of the last.
    fn equal_nodes(&self, index: usize, from: usize) -> (usize, usize) {
        let count = self.tags.alike(index, self.template_tags, from);
        let last = index + count.saturating_sub(1);
        let (Some(first), Some(last), Some(template_first)) =
            (self.tags.get(index), self.tags.get(last), self.template_tags.get(from))
        else {
            return (0, 0);
        };
        // Bodies stand in the order of their tags on nearly every page of a template; where they do not the run
        // is guessed wrong.
        let here = self.page.get(first.start..last.start + last.len).unwrap_or(&[]);
        let there = self.template.get(template_first.start..template_first.start + here.len()).unwrap_or(&[]);
        let same = equal_bytes(&here[..there.len()], there);
        if same == here.len() {
            return (count, same);
        }
        let count = self.tags.partition_point(index, count, |tag| tag.start + tag.len <= first.start + same);
        let end = self.tags.get(index + count.saturating_sub(1)).map_or(0, |last| last.start + last.len);
        (count, end.saturating_sub(first.start).min(same))
    }
}

fn reserved_tags(page: &[u8]) -> u8 {
    page[super::TAG_COUNT + 1] >> 4 & 7
}
