//! The units of a file: how one is kept, and its bytes.

use std::rc::Rc;

use crate::{Encoding, PageBuf, PageCodec, PageImage};

/// One unit of a file. Clones share their bytes.
#[derive(Clone)]
pub(in crate::sim) enum Unit {
    Zero,
    /// The image's page of this index.
    Image,
    /// Bytes; zeros at the end are left out, which log segments have many of.
    Raw(Rc<[u8]>),
    Encoded(Rc<[u8]>),
}

/// How units are kept, and what lies under them.
#[derive(Clone)]
pub(in crate::sim) struct Format {
    pub(super) unit_bytes: usize,
    pub(super) image: Option<(Rc<dyn PageImage>, Rc<dyn PageCodec>)>,
}

impl Format {
    pub(super) fn encode(&self, index: u64, bytes: &[u8]) -> Unit {
        if let Some((_, codec)) = &self.image {
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
        match bytes.iter().rposition(|byte| *byte != 0) {
            Some(last) => Unit::Raw(bytes[..=last].into()),
            None => Unit::Zero,
        }
    }

    /// The unit that a buffer becomes whose bytes nobody has to make: this page of this file's image, or its encoding.
    pub(super) fn unit_without_bytes(&self, index: u64, buf: &PageBuf) -> Option<Unit> {
        let (own, codec) = self.image.as_ref()?;
        if let Some((image, page)) = buf.pristine() {
            return (page == index && image.id() == own.id()).then_some(Unit::Image);
        }
        let Encoding { codec: by, bytes } = buf.encoding(index)?;
        let is_same = Rc::ptr_eq(by, codec) || codec.image_id().is_some_and(|id| by.image_id() == Some(id));
        is_same.then(|| Unit::Encoded(bytes.clone()))
    }

    /// The page of a unit, if it can be had without making its bytes.
    pub(super) fn without_bytes(&self, index: u64, unit: &Unit) -> Option<PageBuf> {
        let (image, codec) = self.image.as_ref()?;
        match unit {
            Unit::Image => Some(PageBuf::pristine_of(image.clone(), index)),
            Unit::Encoded(encoded) => {
                Some(PageBuf::encoded_by(codec.clone(), index, encoded.clone(), self.unit_bytes))
            }
            Unit::Zero | Unit::Raw(_) => None,
        }
    }

    pub(super) fn decode(&self, index: u64, unit: &Unit, out: &mut [u8]) {
        match (unit, &self.image) {
            (Unit::Raw(bytes), _) => copy_padded(bytes, out),
            (Unit::Image, Some((image, _))) => image.fill(index, out),
            (Unit::Encoded(encoded), Some((_, codec))) => {
                let restored = codec.decode(index, encoded, out);
                assert!(restored.is_some(), "page {index} was stored encoded but does not decode");
            }
            (Unit::Zero | Unit::Image | Unit::Encoded(_), _) => out.fill(0),
        }
    }

    pub(super) fn decoded(&self, index: u64, unit: &Unit) -> Vec<u8> {
        let mut bytes = vec![0; self.unit_bytes];
        self.decode(index, unit, &mut bytes);
        bytes
    }
}

/// Fills `out` with the front of `bytes`, and with zeros behind their end.
pub(super) fn copy_padded(bytes: &[u8], out: &mut [u8]) {
    let (taken, rest) = out.split_at_mut(bytes.len().min(out.len()));
    taken.copy_from_slice(&bytes[..taken.len()]);
    rest.fill(0);
}
