//! The promises of the real world, on a temporary directory of a real file system.

mod cores;
mod modes;

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::future::join;
use smallvec::smallvec;

use super::{Driver, RealConfig, run};
use crate::channel::{oneshot, unbounded};
use crate::{Bufs, Duration, ErrorKind, OpenMode, PageBuf, SECTOR_BYTES, World};

const DRIVERS: [Driver; 2] = [Driver::IoUring, Driver::Polling];

fn config(driver: Driver) -> RealConfig {
    RealConfig { driver, ..RealConfig::new("test") }
}

/// Empty directory beside the test program. Build directories are on real file systems, `/tmp` often is not.
fn scratch_dir() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

/// Runs a test in an empty directory with each driver, and on files in memory.
fn with_each_driver<F: Future<Output = ()>>(test: impl Fn(World, String) -> F) {
    let on_disk = DRIVERS.map(|driver| (config(driver), scratch_dir()));
    let in_memory = tempfile::tempdir_in("/dev/shm");
    let in_memory = in_memory.map(|dir| (RealConfig { direct: false, ..config(Driver::Auto) }, dir));
    for (config, dir) in on_disk.into_iter().chain(in_memory) {
        let path = dir.path().to_str().unwrap().to_owned();
        run(config, |world| test(world, path)).unwrap();
    }
}

fn page(fill: u8) -> PageBuf {
    PageBuf::copy_of(&[fill; 4096])
}

fn room(pages: usize) -> Bufs {
    (0..pages).map(|_| PageBuf::empty(4096)).collect()
}

#[test]
fn what_is_written_is_read_back_by_single_vectored_and_adjacent_buffers() {
    with_each_driver(async |world, dir| {
        let file = world.open(&format!("{dir}/f"), OpenMode::CreateNew).await.unwrap();
        let (result, bufs) = file.write_at(4096, smallvec![page(1), page(2), page(3)]).await;
        result.unwrap();
        assert_eq!(bufs.len(), 3, "the buffers come back");
        file.write_at(0, smallvec![page(9)]).await.0.unwrap();
        file.sync().await.unwrap();
        assert_eq!(file.size().await.unwrap(), 4 * 4096);

        let (result, bufs) = file.read_at(0, room(4)).await;
        result.unwrap();
        for (buf, fill) in bufs.iter().zip([9, 1, 2, 3]) {
            assert_eq!(buf.as_slice(), [fill; 4096]);
        }
        let (result, bufs) = file.read_at(8192, smallvec![PageBuf::empty(8192)]).await;
        result.unwrap();
        assert_eq!(bufs[0].as_slice()[4095..4097], [2, 3]);
        // Neighbours in memory, of which some are written elsewhere.
        let (result, mut bufs) = file.read_at(0, PageBuf::side_by_side(4, 4096)).await;
        result.unwrap();
        bufs.remove(0);
        file.write_at(4 * 4096, bufs).await.0.unwrap();
        let (result, bufs) = file.read_at(3 * 4096, room(4)).await;
        result.unwrap();
        for (buf, fill) in bufs.iter().zip([3, 1, 2, 3]) {
            assert_eq!(buf.as_slice(), [fill; 4096]);
        }
        let totals = world.io_totals();
        assert_eq!((totals.reads, totals.read_bytes), (4, 14 * 4096));
        assert_eq!((totals.writes, totals.write_bytes, totals.syncs), (3, 7 * 4096, 1));
    });
}

#[test]
fn a_transfer_of_more_buffers_than_the_kernel_takes_at_once_is_continued() {
    with_each_driver(async |world, dir| {
        let file = world.open(&format!("{dir}/f"), OpenMode::CreateNew).await.unwrap();
        let pages = (0..2500).map(|index| page(index as u8)).collect::<Bufs>();
        file.write_at(0, pages).await.0.unwrap();
        assert_eq!(file.size().await.unwrap(), 2500 * 4096);
        let (result, bufs) = file.read_at(0, room(2500)).await;
        result.unwrap();
        for (index, buf) in bufs.iter().enumerate() {
            assert_eq!(buf.as_slice(), [index as u8; 4096], "page {index}");
        }
    });
}

#[test]
fn buffers_of_many_slabs_and_larger_ones_carry_their_own_bytes() {
    with_each_driver(async |world, dir| {
        let file = world.open(&format!("{dir}/f"), OpenMode::CreateNew).await.unwrap();
        // More than one slab, and a buffer that is cut from none.
        let (pages, bytes) = (80, 64 << 10);
        let offset = |number: usize| (number * bytes) as u64;
        let lengths = std::iter::repeat_n(bytes, pages).chain([1 << 20]);
        for (number, length) in lengths.clone().enumerate() {
            let buf = PageBuf::copy_of(&vec![number as u8; length]);
            file.write_at(offset(number), smallvec![buf]).await.0.unwrap();
        }
        let mut kept = Vec::new();
        for (number, length) in lengths.enumerate() {
            let (result, bufs) = file.read_at(offset(number), smallvec![PageBuf::empty(length)]).await;
            result.unwrap();
            kept.push((number as u8, bufs));
        }
        for (number, bufs) in kept {
            assert!(bufs[0].as_slice().iter().all(|byte| *byte == number), "buffer {number}");
        }
    });
}

#[test]
fn reading_past_the_end_is_a_short_read_and_gives_the_buffers_back() {
    with_each_driver(async |world, dir| {
        let path = format!("{dir}/f");
        // Neither a whole number of pages nor of sectors.
        std::fs::write(&path, [7; 4096 + 1000]).unwrap();
        let file = world.open(&path, OpenMode::Read).await.unwrap();
        for bufs in [room(2), smallvec![PageBuf::empty(8192)]] {
            let given = bufs.len();
            let (result, bufs) = file.read_at(0, bufs).await;
            assert_eq!(result.unwrap_err().kind, ErrorKind::ShortRead);
            assert_eq!(bufs.len(), given);
            assert_eq!(bufs[0].as_slice()[..4096], [7; 4096]);
        }
        let (result, _) = file.read_at(1 << 20, room(1)).await;
        assert_eq!(result.unwrap_err().kind, ErrorKind::ShortRead);
        assert_eq!(world.io_totals().reads, 0, "a failed read is not counted");
    });
}

#[test]
fn creating_refuses_an_existing_name_and_leaves_its_file_alone() {
    with_each_driver(async |world, dir| {
        let path = format!("{dir}/f");
        let missing = world.open(&path, OpenMode::ReadWrite).await.err().unwrap();
        assert_eq!(missing.kind, ErrorKind::NotFound);
        std::fs::write(&path, "precious").unwrap();
        let refused = world.open(&path, OpenMode::CreateNew).await.err().unwrap();
        assert_eq!(refused.kind, ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    });
}

#[test]
fn the_systems_reasons_are_told_apart() {
    let kind = |errno| super::failure::failed("write", "f", &std::io::Error::from_raw_os_error(errno)).kind;
    let kinds = [libc::ENOSPC, libc::EDQUOT, libc::EACCES, libc::EROFS, libc::EIO, libc::ETIMEDOUT].map(kind);
    assert_eq!(kinds[..2], [ErrorKind::NoSpace; 2]);
    assert_eq!(kinds[2..4], [ErrorKind::PermissionDenied; 2]);
    assert_eq!(kinds[4..], [ErrorKind::Io; 2], "a disk that times out is not a cut connection");
    let damaged = [libc::EUCLEAN, libc::EBADMSG, libc::ENODATA, libc::EILSEQ].map(kind);
    assert_eq!(damaged, [ErrorKind::Damaged; 4]);
}

#[test]
fn a_file_system_without_unbuffered_io_is_an_error_that_tells_the_remedy() {
    // Files of /proc refuse O_DIRECT on every kernel.
    let open = async |world: World| world.open("/proc/self/status", OpenMode::Read).await.map(drop);
    let error = run(config(Driver::Auto), open).unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.reason.contains("buffered"), "{error}");
    let buffered = RealConfig { direct: false, ..config(Driver::Auto) };
    run(buffered, open).unwrap().unwrap();
}

#[test]
fn space_gained_reads_as_zeros_and_is_allocated_and_space_cut_is_gone() {
    use std::os::unix::fs::MetadataExt;
    with_each_driver(async |world, dir| {
        let path = format!("{dir}/f");
        let file = world.open(&path, OpenMode::CreateNew).await.unwrap();
        file.write_at(0, smallvec![page(1), page(2)]).await.0.unwrap();
        file.set_size(4096).await.unwrap();
        file.set_size(1 << 20).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 1 << 20);
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20, "not only a hole");
        let (result, bufs) = file.read_at(0, room(2)).await;
        result.unwrap();
        assert_eq!((bufs[0].as_slice()[0], bufs[1].as_slice()), (1, &[0; 4096][..]));
    });
}

#[test]
fn names_can_be_listed_in_order_renamed_over_each_other_and_removed() {
    with_each_driver(async |world, dir| {
        for name in ["b", "a"] {
            let file = world.open(&format!("{dir}/{name}"), OpenMode::CreateNew).await.unwrap();
            file.write_at(0, smallvec![page(name.as_bytes()[0])]).await.0.unwrap();
        }
        world.create_dir(&format!("{dir}/c")).await.unwrap();
        let listed = world.list(&dir).await.unwrap();
        let listed = listed.iter().map(|entry| (&*entry.name, entry.bytes, entry.is_dir)).collect::<Vec<_>>();
        assert_eq!(listed, [("a", 4096, false), ("b", 4096, false), ("c", 0, true)]);

        world.rename(&format!("{dir}/a"), &format!("{dir}/b")).await.unwrap();
        world.sync_dir(&dir).await.unwrap();
        assert_eq!(world.entry(&format!("{dir}/a")).await.unwrap(), None);
        assert_eq!(world.entry(&format!("{dir}/b")).await.unwrap().unwrap().bytes, 4096);
        assert_eq!(std::fs::read(format!("{dir}/b")).unwrap()[0], b'a', "the file that moved won");
        for name in ["b", "c"] {
            world.remove(&format!("{dir}/{name}")).await.unwrap();
        }
        assert_eq!(world.list(&dir).await.unwrap(), []);
        assert_eq!(world.remove(&format!("{dir}/b")).await.unwrap_err().kind, ErrorKind::NotFound);
        assert!(world.free_bytes(&dir).await.unwrap() > 0);
    });
}

#[test]
fn a_sleeper_never_wakes_before_its_time() {
    with_each_driver(async |world, _| {
        let mut at = world.now();
        for _ in 0..5 {
            at = at + Duration::from_micros(1_700);
            world.sleep_until(at).await;
            assert!(world.now() >= at);
        }
    });
}

#[test]
fn who_sleeps_until_now_lets_the_others_go_first() {
    with_each_driver(async |world, _| {
        let turns = Rc::new(Cell::new(0));
        let counted = turns.clone();
        let other = world.spawn(poll_fn(move |cx| {
            counted.set(counted.get() + 1);
            cx.waker().wake_by_ref();
            if counted.get() == 3 { Poll::Ready(()) } else { Poll::Pending }
        }));
        for _ in 0..100 {
            world.sleep(Duration::ZERO).await;
        }
        assert_eq!(turns.get(), 3);
        other.await;
    });
}

#[test]
fn a_task_that_never_rests_does_not_starve_io() {
    with_each_driver(async |world, dir| {
        let done = Rc::new(Cell::new(false));
        let stop = done.clone();
        let busy = world.spawn(poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if stop.get() { Poll::Ready(()) } else { Poll::Pending }
        }));
        let file = world.open(&format!("{dir}/f"), OpenMode::CreateNew).await.unwrap();
        file.write_at(0, smallvec![page(1)]).await.0.unwrap();
        file.sync().await.unwrap();
        done.set(true);
        busy.await;
    });
}

#[test]
fn messages_wake_tasks_on_other_threads() {
    with_each_driver(async |world, _| {
        let (ask, mut asked) = unbounded::<(u64, oneshot::Sender<u64>)>();
        world.spawn_shard(0, move |_| {
            Box::pin(async move {
                while let Some((number, answer)) = asked.next().await {
                    answer.send(number + 1).unwrap();
                }
            })
        });
        let (finish, finished) = oneshot::channel();
        world.spawn_shard(1, move |_| {
            Box::pin(async move {
                let mut number = 0;
                while number < 1000 {
                    let (answer, answered) = oneshot::channel();
                    ask.unbounded_send((number, answer)).unwrap();
                    number = answered.await.unwrap();
                }
                finish.send(number).unwrap();
            })
        });
        assert_eq!(finished.await, Ok(1000));
    });
}

#[test]
fn a_shard_does_io_of_its_own_and_the_totals_cover_all_shards() {
    with_each_driver(async |world, dir| {
        let (finish, mut finished) = unbounded();
        for shard in 0..2 {
            let (finish, path) = (finish.clone(), format!("{dir}/{shard}"));
            world.spawn_shard(shard, move |world| {
                Box::pin(async move {
                    let file = world.open(&path, OpenMode::CreateNew).await.unwrap();
                    file.write_at(0, smallvec![page(1)]).await.0.unwrap();
                    finish.unbounded_send(()).unwrap();
                })
            });
        }
        finished.next().await.unwrap();
        finished.next().await.unwrap();
        assert_eq!(world.io_totals().writes, 2);
    });
}

/// Value that sends a message when it is dropped.
struct Bell(Arc<AtomicBool>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_panic_in_a_shard_or_a_task_becomes_a_panic_of_the_run() {
    for driver in DRIVERS {
        let in_shard = async |world: World| {
            world.spawn_shard(0, |_| Box::pin(async { panic!("the shard's own words") }));
            pending::<()>().await
        };
        let in_task = async |world: World| {
            drop(world.spawn(async { panic!("the task's own words") }));
            pending::<()>().await
        };
        let in_start = async |world: World| {
            world.spawn_shard(0, |_| panic!("the start's own words"));
            pending::<()>().await
        };
        let words = |panicked: std::thread::Result<_>| *panicked.unwrap_err().downcast::<&str>().unwrap();
        let attempt = catch_unwind(AssertUnwindSafe(|| run(config(driver), in_shard)));
        assert_eq!(words(attempt), "the shard's own words");
        let attempt = catch_unwind(AssertUnwindSafe(|| run(config(driver), in_task)));
        assert_eq!(words(attempt), "the task's own words");
        let attempt = catch_unwind(AssertUnwindSafe(|| run(config(driver), in_start)));
        assert_eq!(words(attempt), "the start's own words");
    }
}

/// The thread goes on meanwhile, because it takes part in the work.
#[test]
fn work_is_done_beside_the_thread_and_its_panic_is_that_of_who_wants_it() {
    for driver in DRIVERS {
        let sum = run(config(driver), async |world| {
            let (number, numbers) = std::sync::mpsc::channel();
            let sent = async {
                for n in 1..=3 {
                    world.sleep(Duration::from_millis(1)).await;
                    number.send(n).unwrap();
                }
                drop(number);
            };
            join(world.compute(move || numbers.iter().sum::<u64>()), sent).await.0
        });
        assert_eq!(sum.unwrap(), 6);
        let attempt = catch_unwind(|| {
            run(config(driver), async |world| world.compute(|| panic!("the work's own words")).await)
        });
        assert_eq!(*attempt.unwrap_err().downcast::<&str>().unwrap(), "the work's own words");
    }
}

#[test]
fn the_end_of_the_main_future_ends_tasks_and_shards_that_wait_forever() {
    for driver in DRIVERS {
        let rung = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let [in_shard, in_task] = rung.clone().map(Bell);
        run(config(driver), async |world| {
            let (started, start) = oneshot::channel();
            world.spawn_shard(0, move |_| {
                Box::pin(async move {
                    let _bell = in_shard;
                    started.send(()).unwrap();
                    pending().await
                })
            });
            drop(world.spawn(async move {
                let _bell = in_task;
                pending::<()>().await
            }));
            start.await.unwrap();
        })
        .unwrap();
        assert!(rung.iter().all(|rung| rung.load(Ordering::SeqCst)));
    }
}

#[test]
fn an_operation_whose_future_is_dropped_still_happens_before_the_run_ends() {
    for driver in DRIVERS {
        let dir = scratch_dir();
        let path = dir.path().join("f");
        run(config(driver), async |world| {
            let file = world.open(path.to_str().unwrap(), OpenMode::CreateNew).await.unwrap();
            let mut write = pin!(file.write_at(0, smallvec![page(5)]));
            assert!(futures_util::poll!(write.as_mut()).is_pending());
        })
        .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [5; 4096]);
    }
}

/// A task whose last operation never ends would wait for ever; a failure hangs here.
#[test]
fn a_run_ends_when_the_operation_of_a_task_that_outlives_it_has() {
    for driver in DRIVERS {
        let dir = scratch_dir();
        let path = dir.path().join("f");
        let (ended, end) = std::sync::mpsc::channel();
        let of_run = path.clone();
        let thread = std::thread::spawn(move || {
            run(config(driver), async |world| {
                let file = world.open(of_run.to_str().unwrap(), OpenMode::CreateNew).await.unwrap();
                let (started, start) = oneshot::channel();
                world.spawn_detached(async move {
                    started.send(()).unwrap();
                    // Long enough to be under way when the main future ends.
                    file.write_at(0, smallvec![PageBuf::copy_of(&vec![6; 16 << 20])]).await.0.unwrap();
                });
                start.await.unwrap();
            })
            .unwrap();
            ended.send(()).unwrap();
        });
        let answer = end.recv_timeout(std::time::Duration::from_secs(60));
        assert!(answer.is_ok(), "{driver:?}: the run does not end");
        thread.join().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [6; 16 << 20]);
    }
}

/// As above: the operation never completes by itself, so nothing else wakes the executor.
#[test]
fn a_wake_up_survives_an_operation_that_goes_out_in_the_middle_of_a_turn() {
    for driver in DRIVERS {
        let dir = scratch_dir();
        let path = dir.path().join("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string that lives until the call has returned.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        // Open both ways: opening one end alone waits for the other.
        let mut other_end = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let (woken, awake) = std::sync::mpsc::channel();
        let of_run = path.clone();
        let thread = std::thread::spawn(move || {
            run(RealConfig { direct: false, ..config(driver) }, async |world| {
                let pipe = world.open(of_run.to_str().unwrap(), OpenMode::ReadWrite).await.unwrap();
                let (done, wait) = oneshot::channel();
                world.spawn_detached(async move {
                    done.send(()).unwrap();
                    let began = std::time::Instant::now();
                    while began.elapsed() < std::time::Duration::from_millis(5) {}
                    let _ = pipe.read_at(0, smallvec![PageBuf::empty(SECTOR_BYTES)]).await;
                });
                wait.await.unwrap();
                woken.send(()).unwrap();
            })
            .unwrap();
        });
        let answer = awake.recv_timeout(std::time::Duration::from_secs(60));
        assert!(answer.is_ok(), "{driver:?}: the main future is not polled again");
        // What was read ends the operation, and so the run.
        other_end.write_all(&[1; SECTOR_BYTES]).unwrap();
        thread.join().unwrap();
    }
}

/// Files in this folder that were removed while this process holds them open.
fn removed_but_open(dir: &str) -> usize {
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    let in_dir =
        |link: &std::path::PathBuf| link.starts_with(dir) && link.to_string_lossy().ends_with("(deleted)");
    links.filter(in_dir).count()
}

/// The space of a file is freed when its last operation has completed, not when another is dropped.
#[test]
fn operation_whose_future_is_dropped_lets_its_file_go_when_it_completes() {
    with_each_driver(async |world, dir| {
        let path = format!("{dir}/f");
        let file = world.open(&path, OpenMode::CreateNew).await.unwrap();
        let mut write = Box::pin(file.write_at(0, room(16)));
        poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx).is_ready())).await;
        drop(write);
        drop(file);
        world.remove(&path).await.unwrap();
        let mut waits = 0;
        while removed_but_open(&dir) > 0 {
            waits += 1;
            assert!(waits < 6_000, "nothing holds the file, and it is still open");
            world.sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn connections_carry_bytes_both_ways_and_tell_the_end() {
    with_each_driver(async |world, _| {
        // The system picks a free port; it is free again when the probe is dropped.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let refused = world.connect(&address).await.err().unwrap();
        assert_eq!(refused.kind, ErrorKind::Disconnected);

        let listener = world.listen(&address).await.unwrap();
        let taken = world.listen(&address).await.err().unwrap();
        assert_eq!(taken.kind, ErrorKind::AlreadyExists);
        let echo = world.spawn(async move {
            let connection = listener.accept().await.unwrap();
            loop {
                match connection.receive(64 << 10).await.unwrap() {
                    bytes if bytes.is_empty() => break,
                    bytes => connection.send(bytes).await.unwrap(),
                }
            }
        });
        let connection = world.connect(&address).await.unwrap();
        let sent = (0..1 << 20).map(|index: u32| (index / 251) as u8).collect::<Vec<_>>();
        let sender = world.spawn({
            let (connection, sent) = (connection.clone(), sent.clone());
            async move { connection.send(sent).await.unwrap() }
        });
        let mut received = Vec::new();
        while received.len() < sent.len() {
            received.extend(connection.receive(1 << 20).await.unwrap());
        }
        assert!(received == sent, "what comes back is what was sent");
        sender.await;
        drop(connection);
        echo.await;
    });
}
