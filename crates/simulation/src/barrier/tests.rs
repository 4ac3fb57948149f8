use campaign::barrier::Barrier as _;
use futures_util::FutureExt;

use super::{HostBarrier, SharedBarrier};

#[test]
fn a_host_that_goes_while_it_waits_was_not_there() {
    let barrier = SharedBarrier::of(3, None);
    let [first, second, third] = [(); 3].map(|()| HostBarrier::of(&barrier));
    let mut waiting = first.arrive();
    assert!((&mut waiting).now_or_never().is_none());
    drop(waiting);
    let mut waiting = second.arrive();
    drop(first);
    assert!((&mut waiting).now_or_never().is_none(), "the third is not there");
    assert!(third.arrive().now_or_never().is_some());
    assert!(waiting.now_or_never().is_some());
}
