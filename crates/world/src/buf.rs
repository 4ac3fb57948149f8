//! Page buffers: bytes aligned for unbuffered I/O, or a page that is still exactly its template ("pristine"),
//! or one that is kept encoded.
//!
//! A pristine page is a promise `(template, page)`; it becomes bytes at the first byte access. Code that only
//! needs to know that a page is intact (maintenance, checksum, backup) may accept the promise without touching
//! bytes, since a test over every page kind proves that every template page is valid. An encoded page becomes
//! bytes at the first access, too. Nobody may take it for valid unseen, unless its codec says that the encoding
//! is a template page and the edits made on it ([`PageCodec::edited_version`]).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use rustix::mm::{Advice, madvise};
use smallvec::SmallVec;

use crate::stock::Stock;

/// Unit of unbuffered I/O: offsets, lengths and memory addresses are multiples of it.
pub const SECTOR_BYTES: usize = 4096;

/// The buffers of one operation: consecutive on disk, in order.
pub type Bufs = SmallVec<[PageBuf; 1]>;

/// The initial contents of a database file as a pure function of the page index.
pub trait TemplatePages {
    /// Equal numbers mean equal contents.
    fn id(&self) -> u64;
    /// Bytes per page.
    fn page_bytes(&self) -> usize;
    /// Pages in the file, headers included.
    fn pages(&self) -> u64;
    /// Writes file page `index` (0 and 1 are the header and its shadow) into `page`, checksums included.
    fn fill(&self, index: u64, page: &mut [u8]);
    /// As [`Self::fill`], but what the page holds in place of its checksums does not matter.
    fn fill_unsealed(&self, index: u64, page: &mut [u8]) {
        self.fill(index, page);
    }
}

/// Keeps pages in small space: contents that are a known function of little data are stored as that data.
pub trait PageCodec {
    /// The template whose pages it knows. Codecs of one template decode alike.
    fn template_id(&self) -> Option<u64> {
        None
    }
    /// Makes the same codec on another thread; `None` for one that can be on its own thread only.
    fn elsewhere(&self) -> Option<CodecMaker> {
        None
    }
    /// Encodes file page `index`; `decode(index, encode(index, page)) == page` for every page whatsoever.
    fn encode(&self, index: u64, page: &[u8], out: &mut Vec<u8>);
    /// As [`Self::encode`] for page `index` of its template, without its bytes. `false`, and nothing is
    /// appended, if it knows no such page.
    fn encode_pristine(&self, _index: u64, _out: &mut Vec<u8>) -> bool {
        false
    }
    /// As [`Self::encode`] for a page whose checksums and whose bytes at `unused` mean nothing: `decode`
    /// restores it with the right checksums and anything in there. `false`, and nothing is appended, if it has
    /// no short encoding.
    fn encode_unsealed(&self, _index: u64, _page: &[u8], _unused: Range<usize>, _out: &mut Vec<u8>) -> bool {
        false
    }
    /// The version of the page, if `encoded` says which edits were made on a page of its template, rather than
    /// which bytes were found. Only the program that made the edits encodes a page so: it is valid without a
    /// look at its bytes.
    fn edited_version(&self, _encoded: &[u8]) -> Option<u64> {
        None
    }
    /// Restores a page. `None` if `encoded` is not an encoding.
    fn decode(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()>;
    /// As [`Self::decode`], but what the page holds in place of its checksums does not matter.
    fn decode_unsealed(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        self.decode(index, encoded, page)
    }
}

/// Makes a [`PageCodec`] on the thread that calls it.
pub type CodecMaker = Box<dyn FnOnce() -> Rc<dyn PageCodec> + Send>;

/// A page as its codec keeps it.
#[derive(Clone)]
pub struct Encoding {
    /// Whose encoding it is.
    pub codec: Rc<dyn PageCodec>,
    /// What the codec has made of the page.
    pub bytes: Rc<[u8]>,
}

/// One buffer of an I/O operation; its length is a multiple of [`SECTOR_BYTES`] and never changes.
pub struct PageBuf {
    len: usize,
    kind: Kind,
}

enum Kind {
    /// Contents not set: reads as zeros. Costs no memory until touched.
    Empty(OnceCell<Aligned>),
    Bytes(Aligned),
    /// Bytes that a copy has, too: whoever changes them first takes bytes of its own.
    Shared(Rc<Aligned>),
    /// Bytes that can be made, and made again. In a box: buffers are handed on many times in an operation.
    Made(Box<Made>),
}

struct Made {
    of: Origin,
    index: u64,
    bytes: OnceCell<Aligned>,
    /// Checksums apart: made when nobody has asked for more.
    unsealed: OnceCell<Aligned>,
}

/// What the bytes of a page are made of.
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
    /// A buffer to read into, or zeros to write.
    pub fn empty(len: usize) -> PageBuf {
        assert!(len > 0 && len.is_multiple_of(SECTOR_BYTES), "{len} is not a whole number of sectors");
        PageBuf { len, kind: Kind::Empty(OnceCell::new()) }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> PageBuf {
        let mut buf = PageBuf::empty(bytes.len());
        buf.kind = Kind::Bytes(Aligned::copy_of(bytes));
        buf
    }

    /// A buffer that `write` overwrites as a whole; `None` if it says that it could not.
    pub fn written_by(len: usize, write: impl FnOnce(&mut [u8]) -> bool) -> Option<PageBuf> {
        let mut buf = PageBuf::empty(len);
        write(buf.as_read_target()).then_some(buf)
    }

    /// The page `index` of `template`, without making its bytes.
    pub fn pristine_of(template: Rc<dyn TemplatePages>, index: u64) -> PageBuf {
        PageBuf::made(template.page_bytes(), Origin::Template(template), index)
    }

    /// The page `index` that `codec` has encoded, without making its bytes.
    pub fn encoded_by(codec: Rc<dyn PageCodec>, index: u64, encoded: Rc<[u8]>, len: usize) -> PageBuf {
        PageBuf::made(len, Origin::Encoding(Encoding { codec, bytes: encoded }), index)
    }

    fn made(len: usize, of: Origin, index: u64) -> PageBuf {
        let made = Made { of, index, bytes: OnceCell::new(), unsealed: OnceCell::new() };
        PageBuf { len, kind: Kind::Made(Box::new(made)) }
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never of length zero")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The template page that this buffer still equals, if it is known to.
    pub fn pristine(&self) -> Option<(&Rc<dyn TemplatePages>, u64)> {
        match self.made_of()? {
            Made { of: Origin::Template(template), index, .. } => Some((template, *index)),
            _ => None,
        }
    }

    /// The encoding of page `page` that this buffer still equals, if it is known to.
    pub fn encoding(&self, page: u64) -> Option<&Encoding> {
        match self.made_of()? {
            Made { of: Origin::Encoding(encoding), index, .. } if *index == page => Some(encoding),
            _ => None,
        }
    }

    fn made_of(&self) -> Option<&Made> {
        match &self.kind {
            Kind::Made(made) => Some(made),
            _ => None,
        }
    }

    /// Whether the contents are bytes and nothing else.
    pub fn is_bytes(&self) -> bool {
        matches!(self.kind, Kind::Bytes(_) | Kind::Shared(_))
    }

    /// Whether nobody has looked at the buffer since it was made empty: it is all zero.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(&self.kind, Kind::Empty(bytes) if bytes.get().is_none())
    }

    /// Gives memory back that can be made again.
    pub fn forget_bytes(&mut self) {
        if let Kind::Made(made) = &mut self.kind {
            (made.bytes, made.unsealed) = (OnceCell::new(), OnceCell::new());
        }
    }

    /// A copy to be written. `seal` completes the contents where they are bytes; what can be made is complete
    /// already. Bytes are copied when one of both is changed.
    pub fn sealed_copy(&mut self, seal: impl FnOnce(&mut [u8])) -> PageBuf {
        if !matches!(self.kind, Kind::Made(_)) {
            seal(self.as_unsealed_mut_slice());
            self.kind = match std::mem::replace(&mut self.kind, Kind::Empty(OnceCell::new())) {
                Kind::Bytes(bytes) => Kind::Shared(Rc::new(bytes)),
                other => other,
            };
        }
        self.clone()
    }

    /// The contents.
    pub fn as_slice(&self) -> &[u8] {
        match &self.kind {
            Kind::Empty(bytes) => bytes.get_or_init(|| Aligned::zeroed(self.len)).as_slice(),
            Kind::Bytes(bytes) => bytes.as_slice(),
            Kind::Shared(bytes) => bytes.as_slice(),
            Kind::Made(made) => {
                made.bytes.get_or_init(|| made.of.make(made.index, self.len, true)).as_slice()
            }
        }
    }

    /// The contents for those who look at everything but the checksums, which may be missing: computing them for a
    /// pristine page would cost as much again as its bytes.
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

    /// The contents, to change; a page that could be made again no longer can.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.as_slice();
        self.made_bytes()
    }

    /// As [`Self::as_mut_slice`] for those who compute the checksums anew after their changes.
    pub fn as_unsealed_mut_slice(&mut self) -> &mut [u8] {
        self.as_unsealed_slice();
        self.made_bytes()
    }

    /// The bytes that `as_slice` or `as_unsealed_slice` has made, as the buffer's own.
    fn made_bytes(&mut self) -> &mut [u8] {
        if !matches!(self.kind, Kind::Bytes(_)) {
            let made = match std::mem::replace(&mut self.kind, Kind::Empty(OnceCell::new())) {
                Kind::Empty(bytes) => bytes.into_inner(),
                Kind::Made(made) => made.bytes.into_inner().or(made.unsealed.into_inner()),
                Kind::Bytes(bytes) => Some(bytes),
                Kind::Shared(bytes) => {
                    Some(Rc::try_unwrap(bytes).unwrap_or_else(|shared| Aligned::copy_of(shared.as_slice())))
                }
            };
            self.kind = Kind::Bytes(made.expect("the caller has made the bytes"));
        }
        let Kind::Bytes(bytes) = &mut self.kind else { unreachable!("made bytes above") };
        bytes.as_mut_slice()
    }

    /// Memory to read into whose old contents do not matter: skips the zeroing of [`Self::as_mut_slice`].
    pub(crate) fn as_read_target(&mut self) -> &mut [u8] {
        if !matches!(self.kind, Kind::Bytes(_)) {
            self.kind = Kind::Bytes(Aligned::uncleared(self.len));
        }
        let Kind::Bytes(bytes) = &mut self.kind else { unreachable!("made bytes above") };
        bytes.as_mut_slice()
    }

    /// Address of the slab that its bytes were cut from, if they were.
    pub(crate) fn slab(&self) -> Option<usize> {
        let bytes = match &self.kind {
            Kind::Bytes(bytes) => bytes,
            Kind::Shared(bytes) => bytes,
            _ => return None,
        };
        Aligned::is_cut(bytes.len).then(|| bytes.memory.as_ptr().addr() & !(SLAB_BYTES - 1))
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
            Kind::Empty(_) => write!(f, "PageBuf({} B, empty)", self.len),
            Kind::Bytes(_) | Kind::Shared(_) => write!(f, "PageBuf({} B)", self.len),
            Kind::Made(made) => {
                let kind = if matches!(made.of, Origin::Template(_)) { "pristine" } else { "encoded" };
                write!(f, "PageBuf({} B, {kind} page {})", self.len, made.index)
            }
        }
    }
}

/// Sector-aligned memory from a per-thread pool.
struct Aligned {
    memory: NonNull<u8>,
    len: usize,
}

/// Small buffers are cut from pieces of memory of this size, which the system can back with one large page
/// each: fewer page faults, and a page of a database is one stretch of memory to the device instead of eight.
pub(crate) const SLAB_BYTES: usize = 2 << 20;
/// Larger buffers are allocated one by one.
const SLAB_BUFFER_BYTES_MAX: usize = 256 << 10;
/// Large buffers kept per thread and size when they are freed; more go back to the allocator. Small ones stay
/// for the next.
const POOL_BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
struct Pool {
    free: Vec<(usize, Vec<NonNull<u8>>)>,
    /// Bytes of large buffers among them.
    large_bytes: usize,
    slabs: Vec<NonNull<u8>>,
    /// Buffers that were cut from slabs and are in use.
    cut: usize,
    /// Where slabs come from, if not made when they are wanted.
    stock: Option<Arc<Stock>>,
}

impl Pool {
    fn of(&mut self, len: usize) -> &mut Vec<NonNull<u8>> {
        let at = self.free.iter().position(|(l, _)| *l == len).unwrap_or_else(|| {
            self.free.push((len, Vec::new()));
            self.free.len() - 1
        });
        &mut self.free[at].1
    }

    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        let is_cut = Aligned::is_cut(len);
        if is_cut && self.of(len).is_empty() {
            let slab = self.stock.as_ref().map_or_else(Aligned::slab, |stock| stock.take());
            self.slabs.push(slab);
            let list = self.of(len);
            // The first to be taken is the first in memory.
            let starts = (0..SLAB_BYTES / len).rev();
            // SAFETY: each offset lies inside the slab.
            list.extend(starts.map(|at| unsafe { slab.add(at * len) }));
        }
        let memory = self.of(len).pop();
        match memory {
            Some(_) if is_cut => self.cut += 1,
            Some(_) => self.large_bytes -= len,
            None => {}
        }
        memory
    }

    /// False if it is not kept.
    fn give(&mut self, memory: NonNull<u8>, len: usize) -> bool {
        if Aligned::is_cut(len) {
            self.cut -= 1;
        } else if self.large_bytes + len > POOL_BYTES_MAX {
            return false;
        } else {
            self.large_bytes += len;
        }
        self.of(len).push(memory);
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (len, list) in self.free.drain(..).filter(|(len, _)| !Aligned::is_cut(*len)) {
            for memory in list {
                // SAFETY: allocated by `Aligned` with the same layout, and owned by the pool since.
                unsafe { dealloc(memory.as_ptr(), Aligned::layout(len, SECTOR_BYTES)) }
            }
        }
        // A buffer that outlives the pool of its thread keeps the slabs.
        for slab in self.slabs.drain(..).filter(|_| self.cut == 0) {
            Aligned::free_slab(slab);
        }
    }
}

/// Slabs made ready by a thread of their own.
pub(crate) fn slab_stock() -> Stock {
    Stock::new(Aligned::slab, Aligned::free_slab)
}

/// The buffers of this thread come from that stock from now on.
pub(crate) fn take_slabs_from(stock: Option<Arc<Stock>>) {
    POOL.with_borrow_mut(|pool| pool.stock = stock);
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

impl Aligned {
    fn layout(len: usize, align: usize) -> Layout {
        Layout::from_size_align(len, align).expect("buffer sizes are far below the limit")
    }

    /// Whether buffers of this length are cut from slabs.
    fn is_cut(len: usize) -> bool {
        len <= SLAB_BUFFER_BYTES_MAX && SLAB_BYTES.is_multiple_of(len)
    }

    fn allocate(len: usize, align: usize) -> NonNull<u8> {
        let layout = Self::layout(len, align);
        // SAFETY: the layout has a non-zero size (PageBuf::empty asserts it). The advice concerns whole pages
        // of memory that is ours, and whether it is taken makes no difference to what the memory holds. All of
        // it is initialised.
        unsafe {
            let Some(memory) = NonNull::new(alloc(layout)) else { handle_alloc_error(layout) };
            if align == SLAB_BYTES {
                let _ = madvise(memory.as_ptr().cast(), len, Advice::LinuxHugepage);
            }
            memory.write_bytes(0, len);
            memory
        }
    }

    fn slab() -> NonNull<u8> {
        Self::allocate(SLAB_BYTES, SLAB_BYTES)
    }

    /// Gives a slab back of which no buffer is in use.
    fn free_slab(slab: NonNull<u8>) {
        // SAFETY: made by `slab`, with this layout; nobody else holds it.
        unsafe { dealloc(slab.as_ptr(), Self::layout(SLAB_BYTES, SLAB_BYTES)) }
    }

    /// Memory with arbitrary (but initialised) contents.
    fn uncleared(len: usize) -> Aligned {
        let pooled = POOL.try_with(|pool| pool.borrow_mut().take(len)).ok().flatten();
        Aligned { memory: pooled.unwrap_or_else(|| Self::allocate(len, SECTOR_BYTES)), len }
    }

    /// Every byte is overwritten, so nothing is cleared first.
    fn copy_of(bytes: &[u8]) -> Aligned {
        let mut memory = Aligned::uncleared(bytes.len());
        memory.as_mut_slice().copy_from_slice(bytes);
        memory
    }

    fn zeroed(len: usize) -> Aligned {
        let mut memory = Aligned::uncleared(len);
        memory.as_mut_slice().fill(0);
        memory
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: `memory` points to `len` initialised bytes owned by `self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        let (memory, len) = (self.memory, self.len);
        match POOL.try_with(|pool| pool.borrow_mut().give(memory, len)) {
            Ok(true) => {}
            // The thread is ending; the slab that it was cut from stays with it.
            Err(_) if Self::is_cut(len) => {}
            // SAFETY: allocated in `uncleared` with this layout; nobody else holds it.
            Ok(false) | Err(_) => unsafe { dealloc(memory.as_ptr(), Self::layout(len, SECTOR_BYTES)) },
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
    fn an_empty_buffer_reads_as_zeros_even_from_recycled_memory() {
        drop(PageBuf::copy_of(&[9; SECTOR_BYTES]));
        assert_eq!(PageBuf::empty(SECTOR_BYTES).as_slice(), [0; SECTOR_BYTES]);
    }
}
