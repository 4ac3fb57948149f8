//! What a world says of how it works.

use smallvec::smallvec;

use super::super::{Driver, RealConfig, run};
use super::{config, page, scratch_dir};
use crate::channel::oneshot;
use crate::{OpenMode, World};

#[test]
fn a_world_says_how_it_does_io() {
    let describe = async |world: World| world.describe();
    let of_ring = run(config(Driver::IoUring), describe).unwrap();
    assert_eq!(of_ring, "io_uring, direct (O_DIRECT)");
    let buffered = RealConfig { direct: false, ..config(Driver::Polling) };
    assert_eq!(run(buffered, describe).unwrap(), "polling, buffered (through the page cache)");
}

#[test]
fn shards_and_large_pages_are_told_as_they_were_used() {
    let dir = scratch_dir();
    let path = dir.path().join("f").to_str().unwrap().to_owned();
    let told = run(config(Driver::IoUring), async |world| {
        let (tell, told) = oneshot::channel();
        world.spawn_shard(0, move |world| {
            Box::pin(async move {
                let file = world.open(&path, OpenMode::CreateNew).await.unwrap();
                file.write_at(0, smallvec![page(1)]).await.0.unwrap();
                tell.send(()).unwrap();
            })
        });
        told.await.unwrap();
        world.describe()
    });
    let told = told.unwrap();
    assert!(told.contains(" of 1 shards bound to a core") && told.contains(" MiB in large pages"), "{told}");
}

/// Makes the kernel refuse io_uring to the current thread and its children, as container runtimes do.
fn refuse_io_uring() {
    let instruction = |code: u32, k: u32, skip_if_false: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: skip_if_false,
        k,
    };
    let filter = [
        // The system call number is the first word of what the filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32, 1),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is well formed, and the kernel copies it before the call returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[test]
#[ignore = "the body of the process that the next test starts: what a process may do is probed once"]
fn without_io_uring() {
    refuse_io_uring();
    let describe = async |world: World| world.describe();
    assert_eq!(run(config(Driver::Auto), describe).unwrap(), "polling, direct (O_DIRECT)");
    let demanded = run(config(Driver::IoUring), describe).unwrap_err();
    assert!(demanded.to_string().starts_with("cannot start the I/O driver"), "{demanded}");
}

#[test]
fn where_io_uring_is_refused_the_world_polls_and_says_so() {
    is_passed_by_a_child("real::tests::modes::without_io_uring");
}

/// Runs an ignored test in a process of its own.
fn is_passed_by_a_child(test: &str) {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}
