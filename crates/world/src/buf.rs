//! Page buffers: bytes aligned for unbuffered I/O, or a page that is still exactly its template ("pristine"),
//! or one that is kept encoded.
//!
//! A pristine page is a promise `(template, page)`; it becomes bytes at the first byte access. Code that only
//! needs to know that a page is intact (maintenance, checksum, backup) may accept the promise without touching
//! bytes, since a test over every page kind proves that every template page is valid. An encoded page becomes
//! bytes at the first access, too. It must not count as valid unseen, unless its codec says that the encoding
//! is a template page and the edits made on it ([`PageCodec::edited_version`]).

use std::cell::OnceCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::SECTOR_BYTES;
use crate::memory::{Aligned, CONTIGUOUS_BYTES_MAX};

/// The buffers of one operation: consecutive on disk, in order.
pub type Bufs = SmallVec<[PageBuf; 1]>;

/// Template database: initial contents of a database file as a pure function of the page index.
pub trait TemplatePages {
    /// Identity of the template; equal numbers mean equal contents.
    fn id(&self) -> u64;
    /// Bytes per page.
    fn page_bytes(&self) -> usize;
    /// Pages in the file, headers included.
    fn pages(&self) -> u64;
    /// Writes file page `index` (0 and 1 are the header and its shadow) into `page`, checksums included.
    fn fill(&self, index: u64, page: &mut [u8]);
    /// As [`Self::fill`], without checksums.
    fn fill_unsealed(&self, index: u64, page: &mut [u8]) {
        self.fill(index, page);
    }
}

/// Codec that stores pages in little memory: contents that follow from a few numbers are stored as those numbers.
pub trait PageCodec {
    /// Identity of the template whose pages the codec knows. Codecs of one template decode alike.
    fn template_id(&self) -> Option<u64> {
        None
    }
    /// Builds the same codec on another thread; `None` if the codec is bound to its thread.
    fn elsewhere(&self) -> Option<CodecMaker> {
        None
    }
    /// Encodes file page `index`; `decode(index, encode(index, page)) == page` for every page.
    fn encode(&self, index: u64, page: &[u8], out: &mut Vec<u8>);
    /// Encodes page `index` of the template without its bytes. `false`, with nothing appended, if the codec does not
    /// know the page.
    fn encode_pristine(&self, _index: u64, _out: &mut Vec<u8>) -> bool {
        false
    }
    /// Encodes a page whose checksums and bytes at `unused` have no meaning; `decode` restores it with right
    /// checksums. `false`, with nothing appended, if there is no short encoding.
    fn encode_unsealed(&self, _index: u64, _page: &[u8], _unused: Range<usize>, _out: &mut Vec<u8>) -> bool {
        false
    }
    /// Version of a page that is encoded as edits of a template page, rather than as bytes that were found. Only the
    /// program that made the edits encodes a page so; it is valid without a look at its bytes.
    fn edited_version(&self, _encoded: &[u8]) -> Option<u64> {
        None
    }
    /// Restores a page. `None` if `encoded` is not an encoding.
    fn decode(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()>;
    /// As [`Self::decode`], without checksums.
    fn decode_unsealed(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        self.decode(index, encoded, page)
    }
}

/// Function that builds a [`PageCodec`] on the calling thread.
pub type CodecMaker = Box<dyn FnOnce() -> Rc<dyn PageCodec> + Send>;

/// Page in the encoding of a codec.
#[derive(Clone)]
pub struct Encoding {
    /// Codec of the encoding.
    pub codec: Rc<dyn PageCodec>,
    /// Encoded page.
    pub bytes: Rc<[u8]>,
}

impl Kind {
    fn nothing() -> Kind {
        Kind::Empty(OnceCell::new())
    }
}

/// One buffer of an I/O operation; its length is a multiple of [`SECTOR_BYTES`] and never changes.
pub struct PageBuf {
    len: usize,
    kind: Kind,
}

enum Kind {
    /// Contents not set: reads as zeros, and takes no memory until it is used.
    Empty(OnceCell<Aligned>),
    /// Empty, with a place in a piece of memory that it shares with neighbours.
    EmptyPart(Rc<BufMemory>, usize),
    Bytes(Aligned),
    /// Bytes at a place of a piece of memory; no other buffer has this place.
    Part(Rc<Aligned>, usize),
    /// Bytes shared with a copy. The first owner that changes them gets bytes of its own.
    Shared(Rc<Aligned>),
    /// Bytes that can be computed, repeatedly. Boxed, because buffers are moved often during an operation.
    Made(Box<Made>),
}

struct Made {
    of: Origin,
    index: u64,
    bytes: OnceCell<Aligned>,
    /// Bytes without checksums; computed at the first access that does not need those.
    unsealed: OnceCell<Aligned>,
}

/// Contents of an empty buffer.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Memory of neighbouring buffers, allocated when one of them is first read into.
struct BufMemory {
    len: usize,
    memory: OnceCell<Rc<Aligned>>,
}

/// Source from which the bytes of a page can be computed.
#[derive(Clone)]
enum Origin {
    Template(Rc<dyn TemplatePages>),
    Encoding(Encoding),
}

impl Origin {
    fn make(&self, index: u64, len: usize, is_sealed: bool) -> Aligned {
        let mut page = Aligned::uncleared(len);
        let bytes = page.as_mut_slice();
        match self {
            Origin::Template(template) if is_sealed => template.fill(index, bytes),
            Origin::Template(template) => template.fill_unsealed(index, bytes),
            Origin::Encoding(Encoding { codec, bytes: encoded }) => {
                let restored = match is_sealed {
                    true => codec.decode(index, encoded, bytes),
                    false => codec.decode_unsealed(index, encoded, bytes),
                };
                assert!(restored.is_some(), "page {index} was kept encoded but does not decode");
            }
        }
        page
    }
}

impl PageBuf {
    /// Empty buffer, to read into or to write zeros.
    pub fn empty(len: usize) -> PageBuf {
        assert!(len > 0 && len.is_multiple_of(SECTOR_BYTES), "{len} is not a whole number of sectors");
        PageBuf { len, kind: Kind::nothing() }
    }

    /// Creates `count` neighbouring buffers of `len` bytes for one read. They lie in contiguous pieces of
    /// [`CONTIGUOUS_BYTES_MAX`], which a device may serve as one request each. Memory is freed when the last buffer of
    /// a piece is dropped, so they suit readers who drop all together.
    pub fn side_by_side(count: usize, len: usize) -> Bufs {
        assert!(len <= ZEROS.len(), "{len} bytes are more than a page");
        let per_piece = CONTIGUOUS_BYTES_MAX / len;
        let pieces = (0..count).step_by(per_piece).map(|first| per_piece.min(count - first));
        pieces
            .flat_map(|parts| {
                let piece = Rc::new(BufMemory { len: parts * len, memory: OnceCell::new() });
                (0..parts).map(move |n| PageBuf { len, kind: Kind::EmptyPart(piece.clone(), n * len) })
            })
            .collect()
    }

    /// Buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> PageBuf {
        let mut buf = PageBuf::empty(bytes.len());
        buf.kind = Kind::Bytes(Aligned::copy_of(bytes));
        buf
    }

    /// Buffer that `write` fills completely; `None` if it reports that it could not.
    pub fn written_by(len: usize, write: impl FnOnce(&mut [u8]) -> bool) -> Option<PageBuf> {
        let mut buf = PageBuf::empty(len);
        write(buf.as_read_target()).then_some(buf)
    }

    /// Buffer with page `index` of `template`, without computing its bytes.
    pub fn pristine_of(template: Rc<dyn TemplatePages>, index: u64) -> PageBuf {
        PageBuf::made(template.page_bytes(), Origin::Template(template), index)
    }

    /// Buffer with the page `index` that `codec` encoded, without computing its bytes.
    pub fn encoded_by(codec: Rc<dyn PageCodec>, index: u64, encoded: Rc<[u8]>, len: usize) -> PageBuf {
        PageBuf::made(len, Origin::Encoding(Encoding { codec, bytes: encoded }), index)
    }

    fn made(len: usize, of: Origin, index: u64) -> PageBuf {
        let made = Made { of, index, bytes: OnceCell::new(), unsealed: OnceCell::new() };
        PageBuf { len, kind: Kind::Made(Box::new(made)) }
    }

    /// Length of the buffer, bytes.
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never of length zero")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Template page that the buffer still equals; `None` if it was changed or is another page.
    pub fn pristine(&self) -> Option<(&Rc<dyn TemplatePages>, u64)> {
        match self.made_of()? {
            Made { of: Origin::Template(template), index, .. } => Some((template, *index)),
            _ => None,
        }
    }

    /// Encoding of page `page` that the buffer still equals, if there is one.
    pub fn encoding(&self, page: u64) -> Option<&Encoding> {
        match self.made_of()? {
            Made { of: Origin::Encoding(encoding), index, .. } if *index == page => Some(encoding),
            _ => None,
        }
    }

    /// Index of the page that the buffer still equals, if its bytes can be computed.
    pub(crate) fn made_index(&self) -> Option<u64> {
        self.made_of().map(|made| made.index)
    }

    fn made_of(&self) -> Option<&Made> {
        match &self.kind {
            Kind::Made(made) => Some(made),
            _ => None,
        }
    }

    /// Whether the buffer holds plain bytes.
    pub fn is_bytes(&self) -> bool {
        matches!(self.kind, Kind::Bytes(_) | Kind::Part(..) | Kind::Shared(_))
    }

    /// Whether the buffer is empty and was never accessed: all zero.
    pub(crate) fn is_untouched(&self) -> bool {
        match &self.kind {
            Kind::Empty(bytes) => bytes.get().is_none(),
            kind => matches!(kind, Kind::EmptyPart(..)),
        }
    }

    /// Frees bytes that can be computed again.
    pub fn forget_bytes(&mut self) {
        if let Kind::Made(made) = &mut self.kind {
            (made.bytes, made.unsealed) = (OnceCell::new(), OnceCell::new());
        }
    }

    /// Copy of the buffer for a write. `seal` completes the checksums of plain bytes; computed ones are complete. Both
    /// share bytes until one is changed.
    pub fn sealed_copy(&mut self, seal: impl FnOnce(&mut [u8])) -> PageBuf {
        if !matches!(self.kind, Kind::Made(_)) {
            seal(self.as_unsealed_mut_slice());
            self.kind = match std::mem::replace(&mut self.kind, Kind::nothing()) {
                Kind::Bytes(bytes) => Kind::Shared(Rc::new(bytes)),
                other => other,
            };
        }
        self.clone()
    }

    /// Bytes of the buffer.
    pub fn as_slice(&self) -> &[u8] {
        match &self.kind {
            Kind::Empty(bytes) => bytes.get_or_init(|| Aligned::zeroed(self.len)).as_slice(),
            Kind::EmptyPart(..) => &ZEROS[..self.len],
            Kind::Bytes(bytes) => bytes.as_slice(),
            // SAFETY: the piece is initialised, and only this buffer looks at this part of it.
            Kind::Part(piece, at) => unsafe { std::slice::from_raw_parts(piece.at(*at, self.len), self.len) },
            Kind::Shared(bytes) => bytes.as_slice(),
            Kind::Made(made) => {
                made.bytes.get_or_init(|| made.of.make(made.index, self.len, true)).as_slice()
            }
        }
    }

    /// Bytes of the buffer, perhaps without checksums, which cost as much to compute as the rest of a template page.
    #[inline]
    pub fn as_unsealed_slice(&self) -> &[u8] {
        match &self.kind {
            Kind::Bytes(bytes) => bytes.as_slice(),
            Kind::Made(made) if made.bytes.get().is_none() => {
                made.unsealed.get_or_init(|| made.of.make(made.index, self.len, false)).as_slice()
            }
            _ => self.as_slice(),
        }
    }

    /// Bytes of the buffer for changes. A page that could be computed no longer can.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.as_slice();
        self.made_bytes()
    }

    /// As [`Self::as_mut_slice`], perhaps without checksums, for callers that compute them after their changes.
    pub fn as_unsealed_mut_slice(&mut self) -> &mut [u8] {
        self.as_unsealed_slice();
        self.made_bytes()
    }

    /// Bytes that `as_slice` or `as_unsealed_slice` computed, as the buffer's own.
    fn made_bytes(&mut self) -> &mut [u8] {
        if !matches!(self.kind, Kind::Bytes(_) | Kind::Part(..)) {
            let made = match std::mem::replace(&mut self.kind, Kind::nothing()) {
                Kind::Empty(bytes) => bytes.into_inner(),
                Kind::EmptyPart(..) => Some(Aligned::zeroed(self.len)),
                Kind::Made(made) => made.bytes.into_inner().or(made.unsealed.into_inner()),
                Kind::Bytes(_) | Kind::Part(..) => unreachable!("they are its own"),
                Kind::Shared(bytes) => {
                    Some(Rc::try_unwrap(bytes).unwrap_or_else(|shared| Aligned::copy_of(shared.as_slice())))
                }
            };
            self.kind = Kind::Bytes(made.expect("the caller has made the bytes"));
        }
        self.own_bytes()
    }

    /// Memory of the buffer as a target of a read; skips the zeroing of [`Self::as_mut_slice`].
    pub(crate) fn as_read_target(&mut self) -> &mut [u8] {
        match &self.kind {
            Kind::Bytes(_) | Kind::Part(..) => {}
            Kind::EmptyPart(piece, at) => {
                let memory = piece.memory.get_or_init(|| Rc::new(Aligned::uncleared(piece.len)));
                self.kind = Kind::Part(memory.clone(), *at);
            }
            _ => self.kind = Kind::Bytes(Aligned::uncleared(self.len)),
        }
        self.own_bytes()
    }

    fn own_bytes(&mut self) -> &mut [u8] {
        match &mut self.kind {
            Kind::Bytes(bytes) => bytes.as_mut_slice(),
            // SAFETY: the piece is initialised, and only this buffer looks at this part of it.
            Kind::Part(piece, at) => unsafe {
                std::slice::from_raw_parts_mut(piece.at(*at, self.len), self.len)
            },
            _ => unreachable!("the caller has made them"),
        }
    }

    /// Memory of neighbouring buffers as one contiguous range, if they lie side by side in a piece.
    pub(crate) fn contiguous(bufs: &mut [PageBuf]) -> Option<NonNull<[u8]>> {
        if let [one] = bufs {
            return Some(NonNull::from(match one.kind {
                Kind::Bytes(_) | Kind::Part(..) => one.own_bytes(),
                // To be written: the bytes stay as they are.
                _ => return Some(NonNull::from(one.as_slice())),
            }));
        }
        let (first, rest) = bufs.split_first()?;
        let Kind::Part(piece, start) = &first.kind else { return None };
        let mut end = start + first.len;
        for buf in rest {
            match &buf.kind {
                Kind::Part(of, at) if Rc::ptr_eq(of, piece) && *at == end => end += buf.len,
                _ => return None,
            }
        }
        let memory = NonNull::new(piece.at(*start, end - start))?;
        Some(NonNull::slice_from_raw_parts(memory, end - start))
    }
}

impl Clone for PageBuf {
    fn clone(&self) -> PageBuf {
        match &self.kind {
            Kind::Made(made) => PageBuf::made(self.len, made.of.clone(), made.index),
            Kind::Shared(bytes) => PageBuf { len: self.len, kind: Kind::Shared(bytes.clone()) },
            _ => PageBuf::copy_of(self.as_slice()),
        }
    }
}

impl std::fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Kind::Empty(_) | Kind::EmptyPart(..) => write!(f, "PageBuf({} B, empty)", self.len),
            Kind::Bytes(_) | Kind::Part(..) | Kind::Shared(_) => write!(f, "PageBuf({} B)", self.len),
            Kind::Made(made) => {
                let kind = if matches!(made.of, Origin::Template(_)) { "pristine" } else { "encoded" };
                write!(f, "PageBuf({} B, {kind} page {})", self.len, made.index)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;
    impl TemplatePages for Counting {
        fn id(&self) -> u64 {
            1
        }
        fn page_bytes(&self) -> usize {
            SECTOR_BYTES
        }
        fn pages(&self) -> u64 {
            100
        }
        fn fill(&self, index: u64, page: &mut [u8]) {
            page.fill(index as u8);
        }
        fn fill_unsealed(&self, index: u64, page: &mut [u8]) {
            page.fill(index as u8);
            page[..8].fill(0);
        }
    }

    #[test]
    fn a_pristine_page_becomes_bytes_at_first_access_and_stops_being_pristine_when_changed() {
        let mut buf = PageBuf::pristine_of(Rc::new(Counting), 7);
        assert_eq!(buf.as_slice()[4095], 7);
        assert!(buf.pristine().is_some(), "reading does not change it");
        buf.as_mut_slice()[0] = 1;
        assert!(buf.pristine().is_none());
        assert_eq!(buf.as_slice()[..2], [1, 7]);
    }

    #[test]
    fn checksums_are_missing_only_where_nobody_asked_for_them() {
        let mut buf = PageBuf::pristine_of(Rc::new(Counting), 7);
        assert_eq!(buf.as_unsealed_slice()[7..9], [0, 7]);
        assert_eq!(buf.as_slice()[7..9], [7, 7]);
        assert_eq!(buf.as_unsealed_mut_slice()[7..9], [7, 7], "what is there is kept");
        let mut buf = PageBuf::pristine_of(Rc::new(Counting), 7);
        buf.as_unsealed_slice();
        assert_eq!(buf.as_mut_slice()[7..9], [7, 7]);
        let mut buf = PageBuf::pristine_of(Rc::new(Counting), 7);
        assert_eq!(buf.as_unsealed_mut_slice()[7..9], [0, 7]);
        assert!(buf.pristine().is_none());
    }

    #[test]
    fn a_copy_to_be_written_keeps_its_bytes_whichever_of_both_is_changed() {
        let mut page = PageBuf::copy_of(&[1; SECTOR_BYTES]);
        for changes_original in [true, false] {
            let mut copy = page.sealed_copy(|bytes| bytes[0] = 2);
            let (changed, kept) = if changes_original { (&mut page, &copy) } else { (&mut copy, &page) };
            changed.as_mut_slice()[1] = 3;
            assert_eq!(
                (kept.as_slice()[..2].to_vec(), changed.as_slice()[..2].to_vec()),
                (vec![2, 1], vec![2, 3])
            );
            page.as_mut_slice()[1] = 1;
        }
    }

    #[test]
    fn buffers_side_by_side_are_one_stretch_of_memory_once_they_are_read_into() {
        let mut bufs = PageBuf::side_by_side(3, SECTOR_BYTES);
        assert_eq!(bufs[1].as_slice(), [0; SECTOR_BYTES], "nothing was read into it yet");
        for (n, buf) in (1..).zip(&mut bufs) {
            buf.as_read_target().fill(n);
        }
        let memory = PageBuf::contiguous(&mut bufs).expect("they are neighbours");
        let starts =
            [0, 1, 2].map(|n| bufs[n].as_slice().as_ptr().addr() - memory.as_ptr().cast::<u8>().addr());
        assert_eq!((starts, memory.len()), ([0, SECTOR_BYTES, 2 * SECTOR_BYTES], 3 * SECTOR_BYTES));
        bufs[1].as_mut_slice()[0] = 9;
        let first_bytes = [0, 1, 2].map(|n| bufs[n].as_slice()[0]);
        assert_eq!(first_bytes, [1, 9, 3], "each has bytes of its own");

        let mut last: Vec<PageBuf> = bufs.drain(1..).collect();
        assert_eq!(
            PageBuf::contiguous(&mut last[..1]).expect("one buffer is contiguous").len(),
            SECTOR_BYTES
        );
        last.swap(0, 1);
        assert!(PageBuf::contiguous(&mut last).is_none(), "the second does not follow the third");
    }

    #[test]
    fn an_empty_buffer_reads_as_zeros_even_from_recycled_memory() {
        drop(PageBuf::copy_of(&[9; SECTOR_BYTES]));
        assert_eq!(PageBuf::empty(SECTOR_BYTES).as_slice(), [0; SECTOR_BYTES]);
    }
}
