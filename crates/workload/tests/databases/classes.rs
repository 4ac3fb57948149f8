//! Load by classes: what each reads and writes, and that the database stays whole.

use std::rc::Rc;

use engine::Instance;
use futures_util::future::join_all;
use workload::mix::{CLASSES, Mix};
use workload::session::Mailboxes;

use crate::common::{Databases, real, scratch_dir};

const FILE_BYTES: u64 = 8 << 20;
const SESSIONS: u32 = 4;
const BATCHES: u64 = 60;

#[test]
fn each_class_does_its_share_and_the_index_keeps_every_entry() {
    let directory = scratch_dir();
    let databases = Databases::new(directory.path(), 4096, FILE_BYTES);
    let mix = Mix { classes: Some([30.0, 20.0, 20.0, 10.0, 20.0]), ..Mix::EXCHANGE_2010 };
    let counted = real(async |world| {
        databases.create(&world).await;
        let instance = Rc::new(Instance::open(&world, &databases.config()).await.unwrap().0);
        let mailboxes = Mailboxes::open(instance.clone(), 1, databases.template(1).clone()).await.unwrap();
        let session = async |seat: u32| {
            for number in 0..BATCHES {
                mailboxes
                    .batch(&mix, 1, 0, number * u64::from(SESSIONS) + u64::from(seat), seat)
                    .await
                    .unwrap();
            }
        };
        join_all((0..SESSIONS).map(session)).await;
        let counted = mailboxes.take_class_reads();
        drop(mailboxes);
        Rc::into_inner(instance).expect("all sessions have ended").close().await.unwrap();
        counted
    });
    let all: u64 = counted.iter().map(|class| class.operations).sum();
    assert_eq!(all, BATCHES * u64::from(SESSIONS) * 16);
    for ((_, name), class) in CLASSES.into_iter().zip(counted) {
        assert!(class.operations > 0 && class.pages.from_file > 0, "{name}: {class:?}");
        assert_eq!(class.pages.from_meta_cache, 0, "{name}");
    }
    let deliveries = counted[2].operations;
    let rows = databases.check_files().unwrap();
    assert_eq!(rows.len() as u64, databases.initial_rows().len() as u64 + deliveries);
}
