//! The units of a file: how one is kept, and its bytes.

use std::rc::Rc;

use crate::{Encoding, PageBuf, PageCodec, TemplatePages};

/// Unit of a file. Clones share their bytes.
#[derive(Clone)]
pub(in crate::sim) enum Unit {
    Zero,
    /// Page of the template with this index.
    Template,
    /// Bytes without the zeros at their end, of which log segments have many.
    Raw(Rc<[u8]>),
    Encoded(Rc<[u8]>),
    /// Page of another index: of the template, or in its encoding. A MetaCache has pages in any order.
    Moved(u64, Option<Rc<[u8]>>),
}

/// Format of the units of a file, and the template below them.
#[derive(Clone)]
pub(in crate::sim) struct Format {
    pub(super) unit_bytes: usize,
    pub(super) template: Option<(Rc<dyn TemplatePages>, Rc<dyn PageCodec>)>,
}

impl Format {
    pub(super) fn encode(&self, index: u64, bytes: &[u8]) -> Unit {
        if let Some((_, codec)) = &self.template {
            let mut encoded = Vec::new();
            codec.encode(index, bytes, &mut encoded);
            if encoded.len() < bytes.len() {
                if cfg!(debug_assertions) {
                    let mut decoded = vec![0; bytes.len()];
                    let restored = codec.decode(index, &encoded, &mut decoded);
                    assert!(restored.is_some() && decoded == bytes, "page {index} changes in its page codec");
                }
                return Unit::Encoded(encoded.into());
            }
        }
        match without_zeros_at_end(bytes) {
            [] => Unit::Zero,
            bytes => Unit::Raw(bytes.into()),
        }
    }

    /// Unit of a buffer without computing bytes: a page of the file's template, or its encoding.
    pub(super) fn unit_without_bytes(&self, index: u64, buf: &PageBuf) -> Option<Unit> {
        let (own, codec) = self.template.as_ref()?;
        if let Some((template, page)) = buf.pristine() {
            let unit = if page == index { Unit::Template } else { Unit::Moved(page, None) };
            return (template.id() == own.id()).then_some(unit);
        }
        let page = buf.made_index()?;
        let Encoding { codec: by, bytes } = buf.encoding(page)?;
        let is_same =
            Rc::ptr_eq(by, codec) || codec.template_id().is_some_and(|id| by.template_id() == Some(id));
        is_same.then(|| match page == index {
            true => Unit::Encoded(bytes.clone()),
            false => Unit::Moved(page, Some(bytes.clone())),
        })
    }

    /// Page of a unit, if it can be returned without computing bytes.
    pub(super) fn without_bytes(&self, index: u64, unit: &Unit) -> Option<PageBuf> {
        let (template, codec) = self.template.as_ref()?;
        match unit {
            Unit::Template => Some(PageBuf::pristine_of(template.clone(), index)),
            Unit::Encoded(encoded) => {
                Some(PageBuf::encoded_by(codec.clone(), index, encoded.clone(), self.unit_bytes))
            }
            Unit::Moved(page, None) => Some(PageBuf::pristine_of(template.clone(), *page)),
            Unit::Moved(page, Some(encoded)) => {
                Some(PageBuf::encoded_by(codec.clone(), *page, encoded.clone(), self.unit_bytes))
            }
            Unit::Zero | Unit::Raw(_) => None,
        }
    }

    pub(super) fn decode(&self, index: u64, unit: &Unit, out: &mut [u8]) {
        match (unit, &self.template) {
            (Unit::Raw(bytes), _) => copy_padded(bytes, out),
            (Unit::Template, Some((template, _))) => template.fill(index, out),
            (Unit::Encoded(encoded), Some((_, codec))) => {
                let restored = codec.decode(index, encoded, out);
                assert!(restored.is_some(), "page {index} was stored encoded but does not decode");
            }
            (Unit::Moved(page, None), Some((template, _))) => template.fill(*page, out),
            (Unit::Moved(page, Some(encoded)), Some(_)) => {
                self.decode(*page, &Unit::Encoded(encoded.clone()), out);
            }
            (Unit::Zero | Unit::Template | Unit::Encoded(_) | Unit::Moved(..), _) => out.fill(0),
        }
    }

    pub(super) fn decoded(&self, index: u64, unit: &Unit) -> Vec<u8> {
        let mut bytes = vec![0; self.unit_bytes];
        self.decode(index, unit, &mut bytes);
        bytes
    }
}

/// `bytes` up to the last one that is not zero. Compares 16 at a time, because log segments have many zeros.
fn without_zeros_at_end(bytes: &[u8]) -> &[u8] {
    let (front, words) = bytes.as_rchunks::<16>();
    let used = words.iter().rposition(|word| u128::from_ne_bytes(*word) != 0).map_or(0, |last| last + 1);
    let bytes = &bytes[..front.len() + 16 * used];
    &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

/// Fills `out` with `bytes`, followed by zeros.
pub(super) fn copy_padded(bytes: &[u8], out: &mut [u8]) {
    let (taken, rest) = out.split_at_mut(bytes.len().min(out.len()));
    taken.copy_from_slice(&bytes[..taken.len()]);
    rest.fill(0);
}
