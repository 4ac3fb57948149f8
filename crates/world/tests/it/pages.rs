//! Files that start as a template: pristine pages, pages kept through the codec, and no memory for the rest.

use std::cell::Cell;

use super::*;

#[test]
fn untouched_pages_are_read_as_pristine_and_written_ones_as_bytes() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 100).await;
        assert_eq!(file.size().await.expect("size"), 100 * PAGE as u64);
        write(&file, 5 * PAGE as u64, buf(PAGE, 200)).await;
        let bufs = (4..8).map(|_| PageBuf::empty(PAGE)).collect();
        let (result, bufs) = file.read_at(4 * PAGE as u64, bufs).await;
        result.expect("reads");
        let pristine: Vec<_> = bufs.iter().map(|buf| buf.pristine().map(|(_, index)| index)).collect();
        assert_eq!(pristine, [Some(4), None, Some(6), Some(7)]);
        assert_eq!(bufs[1].as_slice(), [200; PAGE]);
        assert_eq!(bufs[3].as_slice(), [template_byte(7); PAGE]);
    });
}

#[test]
fn reads_and_writes_that_are_no_whole_pages_see_and_change_the_same_bytes() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 10).await;
        assert_eq!(read(&file, 4096, 4096).await, [template_byte(0); 4096]);
        write(&file, PAGE as u64 - 4096, buf(8192, 200)).await;
        let bytes = read(&file, 0, 3 * PAGE).await;
        assert_eq!(bytes[..PAGE - 4096], [template_byte(0); PAGE - 4096]);
        assert_eq!(bytes[PAGE - 4096..PAGE + 4096], [200; 8192]);
        assert_eq!(bytes[PAGE + 4096..2 * PAGE], [template_byte(1); PAGE - 4096]);
        assert_eq!(bytes[2 * PAGE..], [template_byte(2); PAGE]);
    });
}

#[test]
fn a_pristine_page_written_back_to_its_place_stays_pristine() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 10).await;
        let template = Rc::new(Numbered { pages: 10 });
        write(&file, 3 * PAGE as u64, buf(PAGE, 200)).await;
        write(&file, 3 * PAGE as u64, smallvec![PageBuf::pristine_of(template.clone(), 3)]).await;
        write(&file, 4 * PAGE as u64, smallvec![PageBuf::pristine_of(template, 3)]).await;
        let (_, bufs) = file.read_at(3 * PAGE as u64, smallvec![PageBuf::empty(PAGE)]).await;
        assert!(bufs[0].pristine().is_some());
        assert_eq!(
            read(&file, 4 * PAGE as u64, PAGE).await,
            [template_byte(3); PAGE],
            "bytes of another place"
        );
    });
}

#[test]
fn a_packed_page_is_the_same_page_and_is_written_as_it_was_packed() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 10).await;
        assert!(file.packs_pages(), "a simulated file does");
        let mut page = PageBuf::copy_of(&[200; PAGE]);
        file.pack(3, &mut page);
        assert!(!page.is_bytes(), "it is kept small");
        assert_eq!(page.as_slice(), [200; PAGE]);
        let copy = page.sealed_copy(|_| panic!("what was packed needs no seal"));
        assert!(!copy.is_bytes());
        write(&file, 3 * PAGE as u64, smallvec![copy]).await;
        page.as_mut_slice()[7] = 1;
        assert_eq!(
            read(&file, 3 * PAGE as u64, PAGE).await,
            [200; PAGE],
            "a later change is none of the file's"
        );
        file.pack(3, &mut page);
        assert_eq!(page.as_slice()[6..9], [200, 1, 200]);
        // At another place of the file it is just bytes.
        write(&file, 5 * PAGE as u64, smallvec![page.clone()]).await;
        assert_eq!(read(&file, 5 * PAGE as u64, 4096).await[6..9], [200, 1, 200]);
    });
}

#[test]
fn zeros_at_the_end_of_a_block_come_back_whatever_was_read_before_into_the_same_buffer() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        let mut bytes = vec![9; 3 * 4096];
        bytes[4096 + 10..2 * 4096].fill(0);
        bytes[2 * 4096 + 4095] = 0;
        write(&file, 0, smallvec![PageBuf::copy_of(&bytes)]).await;
        for (offset, len) in [(0, 3 * 4096), (4096, 4096), (4096, 2 * 4096)] {
            let (result, bufs) = file.read_at(offset as u64, buf(len, 0x55)).await;
            result.expect("reads");
            assert_eq!(bufs[0].as_slice(), &bytes[offset..offset + len]);
        }
    });
}

#[test]
fn the_template_counts_as_durable_and_unsynced_page_writes_do_not() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 10).await;
        write(&file, 0, buf(PAGE, 200)).await;
        file.sync().await.expect("syncs");
        write(&file, PAGE as u64, buf(PAGE, 201)).await;
    });
    let world = sim.restart("a");
    sim.run_until(async {
        let file = reopen(&world, "/d/x").await;
        assert_eq!(read(&file, 0, PAGE).await, [200; PAGE]);
        let (_, bufs) = file.read_at(PAGE as u64, smallvec![PageBuf::empty(PAGE)]).await;
        assert_eq!(bufs[0].pristine().map(|(_, index)| index), Some(1), "pristine again");
    });
}

#[test]
fn a_torn_page_write_mixes_template_and_new_bytes_by_sector() {
    let torn = PowerCut { torn_write: 1.0, ..PowerCut::keep_all() };
    for (first, len) in [(2 * PAGE, PAGE), (2 * PAGE - 4096, 16384)] {
        let (sim, world) = with_power_cut(7, torn.clone());
        sim.run_until(async {
            let file = adopted_file(&world, "/d/x", 10).await;
            // Two buffers, so that one write has two parts in one page.
            let half = PageBuf::copy_of(&vec![200; len / 2]);
            write(&file, first as u64, smallvec![half.clone(), half]).await;
        });
        let world = sim.restart("a");
        let bytes = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 4 * PAGE).await });
        for (sector, bytes) in bytes.chunks(512).enumerate() {
            let old = template_byte((sector * 512 / PAGE) as u64);
            let inside = (first..first + len).contains(&(sector * 512));
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            assert!(bytes[0] == old || inside && bytes[0] == 200, "sector {sector}: {}", bytes[0]);
        }
        let written = &bytes[first..first + len];
        assert!(written.contains(&200), "some sectors are new");
        assert!(written.iter().any(|byte| *byte != 200), "some sectors are old");
    }
}

#[test]
fn a_file_cut_below_its_template_and_grown_again_reads_as_zeros_there() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    let check = |file: File| async move {
        let bytes = read(&file, 2 * PAGE as u64, 3 * PAGE).await;
        assert_eq!(bytes[..4096], [template_byte(2); 4096]);
        assert_eq!(bytes[4096..], vec![0; 3 * PAGE - 4096]);
    };
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 10).await;
        write(&file, 4 * PAGE as u64, buf(PAGE, 200)).await;
        file.set_size(2 * PAGE as u64 + 4096).await.expect("cuts");
        file.set_size(5 * PAGE as u64).await.expect("grows");
        check(file.clone()).await;
        file.sync().await.expect("syncs");
        check(file).await;
    });
    let world = sim.restart("a");
    sim.run_until(async { check(reopen(&world, "/d/x").await).await });
}

#[test]
fn terabytes_cost_nothing_until_written() {
    let (sim, world) = with_config(1, SimConfig::default());
    sim.volume("a", "/d", 1 << 50);
    sim.run_until(async {
        let pages = (2 << 40) / PAGE as u64;
        let template = adopted_file(&world, "/d/x", pages).await;
        assert_eq!(read(&template, (pages - 1) * PAGE as u64, PAGE).await, [template_byte(pages - 1); PAGE]);
        let plain = create(&world, "/d/y").await;
        plain.set_size(2 << 40).await.expect("grows");
        write(&plain, 1 << 40, buf(1 << 20, 0)).await;
        assert_eq!(read(&plain, (2 << 40) - 4096, 4096).await, [0; 4096]);
    });
    sim.restart("a");
}

/// Forgets the last byte.
struct Forgetful;

impl PageCodec for Forgetful {
    fn encode(&self, index: u64, page: &[u8], out: &mut Vec<u8>) {
        let mut page = page.to_vec();
        page[PAGE - 1] = 0;
        RunLength.encode(index, &page, out);
    }
    fn decode(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        RunLength.decode(index, encoded, page)
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "page 3 changes in its page codec")]
fn a_codec_that_loses_a_byte_is_caught_at_the_write() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        file.adopt_template(Rc::new(Numbered { pages: 10 }), Rc::new(Forgetful)).await.expect("adopts");
        write(&file, 3 * PAGE as u64, buf(PAGE, 200)).await;
    });
}

#[test]
fn a_copy_of_an_template_is_kept_as_an_template_and_a_power_cut_treats_it_as_bytes() {
    let mut torn = 0;
    for seed in 0..40 {
        let is_synced = seed % 2 == 0;
        let (sim, world) = with_power_cut(seed, PowerCut::default());
        sim.run_until(async {
            let file = adopted_file(&world, "/d/x", 10).await;
            write(&file, 5 * PAGE as u64, buf(PAGE, 200)).await;
            file.sync().await.expect("syncs");
            let copy = create(&world, "/d/copy").await;
            copy.keep_like("/d/x");
            world.sync_dir("/d").await.expect("syncs");
            for first in [6, 0, 3] {
                let pages = (0..3).map(|_| PageBuf::empty(PAGE)).collect();
                let (result, pages) = file.read_at(first * PAGE as u64, pages).await;
                result.expect("reads");
                write(&copy, first * PAGE as u64, pages).await;
            }
            for index in 0..9 {
                let page = read_page(&copy, index).await;
                assert_eq!(page.pristine().is_some(), index != 5, "page {index}");
                assert_eq!(page.as_slice(), read_page(&file, index).await.as_slice());
            }
            if is_synced {
                copy.sync().await.expect("syncs");
            }
        });
        let world = sim.restart("a");
        sim.run_until(async {
            let (file, copy) = (reopen(&world, "/d/x").await, reopen(&world, "/d/copy").await);
            let pages = copy.size().await.expect("size") / PAGE as u64;
            assert!(!is_synced || pages == 9, "seed {seed}");
            for index in 0..pages {
                let (page, new) =
                    (read(&copy, index * PAGE as u64, PAGE).await, read_page(&file, index).await);
                assert!(!is_synced || page == new.as_slice(), "seed {seed}, page {index}");
                torn += u32::from(page != new.as_slice() && page[..4096] != page[PAGE - 4096..]);
            }
        });
    }
    assert!(torn > 0, "template pages are torn like others");
}

#[test]
fn pages_at_other_places_of_a_file_are_kept_without_their_bytes() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 10).await;
        write(&file, 5 * PAGE as u64, buf(PAGE, 200)).await;
        let cache = create(&world, "/d/cache").await;
        cache.keep_like("/d/x");
        for (slot, index) in [(0, 6), (1, 5), (2, 6)] {
            write(&cache, slot * PAGE as u64, smallvec![read_page(&file, index).await]).await;
        }
        for (slot, index) in [(0, 6), (1, 5), (2, 6)] {
            let page = read_page(&cache, slot).await;
            assert!(!page.is_bytes(), "slot {slot}");
            assert_eq!(page.pristine().map(|(_, at)| at), (index == 6).then_some(6));
            assert_eq!(page.encoding(index).is_some(), index == 5);
            assert_eq!(page.as_slice(), read_page(&file, index).await.as_slice());
        }
    });
}

/// Codec that counts the bytes of its encodings.
struct Weighing(Rc<Cell<usize>>);

impl PageCodec for Weighing {
    fn encode(&self, index: u64, page: &[u8], out: &mut Vec<u8>) {
        RunLength.encode(index, page, out);
        self.0.set(self.0.get() + out.len());
    }
    fn decode(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        RunLength.decode(index, encoded, page)
    }
}

#[test]
fn whole_pages_written_are_kept_encoded() {
    let kept_bytes = Rc::new(Cell::new(0));
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        let codec = Rc::new(Weighing(kept_bytes.clone()));
        file.adopt_template(Rc::new(Numbered { pages: 10 }), codec).await.expect("adopts");
        write(&file, 0, smallvec![PageBuf::copy_of(&[9; PAGE]), PageBuf::copy_of(&[8; PAGE])]).await;
        assert_eq!(read(&file, 0, 2 * PAGE).await[PAGE - 1..=PAGE], [9, 8]);
    });
    assert_eq!(kept_bytes.get(), 10);
}

/// Codec that stores a template page with a changed first byte as that byte.
struct FirstBytes {
    template_id: u64,
}

const EDITED: u8 = 0xFB;

impl PageCodec for FirstBytes {
    fn template_id(&self) -> Option<u64> {
        Some(self.template_id)
    }
    fn encode(&self, _index: u64, page: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(page);
    }
    fn decode(&self, index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        let [EDITED, byte] = encoded else { return None };
        page.fill(template_byte(index));
        page[0] = *byte;
        Some(())
    }
}

/// Template page with 250 as its first byte, encoded by a codec that the file does not have.
fn edited(index: u64, template_id: u64) -> PageBuf {
    PageBuf::encoded_by(Rc::new(FirstBytes { template_id }), index, Rc::new([EDITED, 250]), PAGE)
}

async fn file_of_edited_pages(world: &World) -> File {
    let file = create(world, "/d/x").await;
    let template = Rc::new(Numbered { pages: 10 });
    let codec = Rc::new(FirstBytes { template_id: template.id() });
    file.adopt_template(template, codec).await.expect("adopts");
    file.sync().await.expect("syncs");
    world.sync_dir("/d").await.expect("syncs");
    file
}

async fn read_page(file: &File, index: u64) -> PageBuf {
    let (result, mut bufs) = file.read_at(index * PAGE as u64, smallvec![PageBuf::empty(PAGE)]).await;
    result.expect("reads");
    bufs.pop().expect("one buffer")
}

#[test]
fn an_encoded_page_stays_encoded_in_its_place_and_is_bytes_in_any_other() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = file_of_edited_pages(&world).await;
        let own = Numbered { pages: 10 }.id();
        let mut expected = [template_byte(3); PAGE];
        expected[0] = 250;
        for (at, page, stays) in
            [(3, edited(3, own), true), (4, edited(3, own), false), (3, edited(3, own + 1), false)]
        {
            write(&file, at * PAGE as u64, smallvec![page]).await;
            let back = read_page(&file, at).await;
            assert_eq!(back.encoding(at).is_some(), stays);
            assert_eq!(back.as_slice(), expected);
            assert_eq!(read(&file, at * PAGE as u64, 4096).await, expected[..4096], "a piece of it");
        }
    });
}

#[test]
fn faults_make_bytes_of_encoded_pages() {
    let torn = PowerCut { torn_write: 1.0, ..PowerCut::keep_all() };
    let own = Numbered { pages: 10 }.id();
    let (sim, world) = with_power_cut(3, torn);
    sim.run_until(async {
        let file = file_of_edited_pages(&world).await;
        for index in 0..10 {
            write(&file, index * PAGE as u64, smallvec![edited(index, own)]).await;
        }
    });
    let world = sim.restart("a");
    let firsts = sim.run_until(async {
        let file = reopen(&world, "/d/x").await;
        let mut firsts = Vec::new();
        for index in 0..10 {
            let page = read_page(&file, index).await;
            assert_eq!(page.as_slice()[1..], [template_byte(index); PAGE][1..]);
            firsts.push(page.as_slice()[0] == 250);
        }
        firsts
    });
    assert!(firsts.contains(&true) && firsts.contains(&false), "new and old first sectors: {firsts:?}");
    let (sim, world) = with_faults(3, Faults { bit_rot: 1.0, ..Faults::default() });
    sim.run_until(async {
        let file = file_of_edited_pages(&world).await;
        write(&file, 0, smallvec![edited(0, own)]).await;
        let page = read_page(&file, 0).await;
        assert!(page.encoding(0).is_none(), "a page with a flipped bit is what its bytes are");
        let intact = edited(0, own).as_slice().to_vec();
        let flipped = page.as_slice().iter().zip(&intact).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        assert_eq!(flipped, 1);
    });
}
