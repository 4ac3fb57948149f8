//! Any bytes as a page: readers never panic, and what `validate` accepts survives edits.
#![no_main]

use edb::page::{PageMut, PageRef, best_prefix};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let size = [4096, 8192, 16384, 32768][usize::from(choice % 4)];
    let mut bytes = vec![0; size];
    // Header from the front of the input, tags from its end, so that short inputs reach both.
    let (front, back) = rest.split_at(rest.len() / 2);
    let front = &front[..front.len().min(size)];
    let back = &back[..back.len().min(size - front.len())];
    bytes[..front.len()].copy_from_slice(front);
    bytes[size - back.len()..].copy_from_slice(back);

    let page = PageRef::new(&bytes);
    let key = &rest[..rest.len().min(20)];
    let valid = page.validate().is_ok();
    let _ = (page.check_order(), page.search(key), page.search_entry(key, key), page.child_slot(key));
    for slot in 0..page.node_count() {
        let _ = (page.node(slot).key(), page.node_bytes(slot));
    }
    let _ = edb::checksum::correct(&mut bytes.clone(), 7);
    if !valid || PageRef::new(&bytes).node_count() == 0 || !PageRef::new(&bytes).is_leaf() {
        return;
    }
    let count = PageRef::new(&bytes).node_count();
    let prefix = best_prefix(PageRef::new(&bytes), 0..count);
    let mut page = PageMut::new(&mut bytes);
    let _ = page.insert(count / 2, key, b"data", 0);
    let _ = page.replace_data(0, &rest[..rest.len().clamp(1, 600)]);
    let _ = page.recompress(&prefix);
    page.remove(0);
    page.finish(7);
    assert_eq!(page.view().validate(), Ok(()));
});
