//! Prints what tree operations cost in nanoseconds when every page is in memory: plan, encode the log record, apply.
//!
//!     cargo run --release -p btree --example tree_speed

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "measures and prints")]

use std::time::Instant;

use btree::log_record::encode_changes;
use btree::{
    MiniTransaction, PageView, Pager, PlainCoding, Result, Seek, Stop, Tree, database, space, tree, update,
};
use edb::page::page_flags;

const PAGE_BYTES: usize = 32768;

struct Memory {
    pages: Vec<Box<[u8]>>,
    dbtime: u64,
    record: Vec<u8>,
}

impl Pager for Memory {
    fn page(&self, pgno: u32) -> Result<PageView<'_>> {
        self.pages.get(pgno as usize).map(|page| PageView::of_bytes(page)).ok_or(Stop::Missing(pgno))
    }

    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
}

impl Memory {
    fn apply(&mut self, mini: &MiniTransaction) {
        self.dbtime += 1;
        self.record.clear();
        encode_changes(1, self.dbtime, mini, &PlainCoding { page_bytes: PAGE_BYTES }, &mut self.record);
        for change in &mini.changes {
            change
                .apply(&mut self.pages[change.pgno as usize], self.dbtime)
                .expect("planned for these pages");
        }
    }

    fn run(&mut self, step: impl Fn(&dyn Pager) -> Result<MiniTransaction>) {
        loop {
            match step(self) {
                Ok(mini) => return self.apply(&mini),
                Err(Stop::NoSpace { .. }) => {
                    let before = self.pages.len() as u32 - 1;
                    self.pages.resize(self.pages.len() + 256, vec![0; PAGE_BYTES].into());
                    let mini = space::extend_database(self, before, before + 256).expect("the root is sound");
                    self.apply(&mini);
                }
                Err(stop) => panic!("{stop}"),
            }
        }
    }
}

fn measure(name: &str, count: u32, mut one: impl FnMut(u32)) {
    let start = Instant::now();
    (0..count).for_each(&mut one);
    println!("{name:<34} {:>8.0} ns", start.elapsed().as_nanos() as f64 / f64::from(count));
}

fn main() {
    let mut memory = Memory { pages: vec![vec![0; PAGE_BYTES].into(); 255], dbtime: 64, record: Vec::new() };
    let mini = database::create(PAGE_BYTES, 254).expect("enough pages");
    memory.apply(&mini);
    let definition = database::TableDefinition {
        name: "Rows".to_owned(),
        columns: vec![database::ColumnDefinition {
            name: "Id".to_owned(),
            kind: edb::column::ColumnType::U32,
            not_null: true,
        }],
        primary: database::IndexDefinition {
            name: "Id".to_owned(),
            flags: 0,
            columns: vec!["Id".to_owned()],
        },
        indexes: vec![database::IndexDefinition {
            name: "By".to_owned(),
            flags: 0,
            columns: vec!["Id".to_owned()],
        }],
        has_long_values: false,
        pages: 20,
        density_pct: 100,
    };
    memory.run(|pager| database::create_table(pager, &definition));
    let schema = database::schema(&memory).expect("a sound catalog");
    let table = schema.table("Rows").expect("just created");
    let (rows, index): (Tree, Tree) = (table.tree, table.indexes[0].tree);
    assert!(tree_flags(&memory, index) & page_flags::NON_UNIQUE != 0);

    const COUNT: u32 = 200_000;
    let key = |n: u32| [&[0x7F][..], &n.to_be_bytes()].concat();
    let random = |n: u32| n.wrapping_mul(2_654_435_761) % COUNT;
    measure("append a row of 140 B", COUNT, |n| {
        memory.run(|pager| update::insert(pager, rows, &key(n), &[1; 140]))
    });
    measure("insert at random, 5 B, keys repeat", COUNT, |n| {
        let place = u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        memory.run(|pager| update::insert(pager, index, &place, &key(n)));
    });
    measure("seek", COUNT, |n| {
        let found = tree::seek(&memory, rows, &key(random(n)), Seek::AtLeast).expect("in memory");
        assert!(found.is_some());
    });
    measure("replace a row of 140 B in place", COUNT, |n| {
        memory.run(|pager| update::replace(pager, rows, &key(random(n)), &[n as u8; 140]));
    });
    measure("flag a row deleted", COUNT, |n| memory.run(|pager| update::delete(pager, rows, &key(n), &[])));
    measure("purge a row, merges included", COUNT, |n| {
        let purged = update::purge(&memory, rows, &key(n), &[]).expect("in memory").expect("flagged");
        memory.apply(&purged);
    });
}

fn tree_flags(memory: &Memory, tree: Tree) -> u32 {
    edb::page::PageRef::new(&memory.pages[tree.fdp as usize]).flags()
}
