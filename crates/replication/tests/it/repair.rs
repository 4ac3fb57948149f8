//! A damaged page of the active copy, fed by hand.

use std::rc::Rc;

use replication::{
    Boot, CopyMachine, Dial, DiskOp, Effect, Epoch, Event, Found, FromArbiter, HostId, Input, Life,
    LogExtent, Meta, PageCopy, PeerMessage, Position,
};

use crate::random::single_database;

const EPOCH: Epoch = Epoch(1);
const PAGE: u32 = 3;

/// An active copy on host 0, with passive copies on hosts 1 and 2 that have replayed all of its log.
struct Active {
    copy: CopyMachine,
    effects: Vec<Effect>,
    now_ms: u64,
}

impl Active {
    fn new() -> Active {
        let spec = Rc::new(single_database(Dial::Lossless));
        let log = Some(LogExtent { start: 1, end: Position::START });
        let found = Found { meta: Meta::first(), log, checkpoint: Position::START };
        let mut active = Active {
            copy: CopyMachine::new(spec, HostId(0), Boot(1), found),
            effects: Vec::new(),
            now_ms: 0,
        };
        active.input(Input::FromArbiter(FromArbiter::Fence { epoch: EPOCH }));
        active.input(Input::FromArbiter(FromArbiter::Activate { epoch: EPOCH }));
        while let Some(ticket) = active.next_disk() {
            active.input(Input::DiskDone { ticket });
        }
        active.input(Input::FromArbiter(FromArbiter::Granted {
            epoch: EPOCH,
            sequence: 1,
            asked_at_ms: 0,
            lease_ms: 60_000,
            generation: 1,
            partner: None,
        }));
        assert_eq!(active.copy.active_epoch(0), Some(EPOCH));
        for host in [1, 2] {
            active.hear(
                host,
                PeerMessage::Progress {
                    epoch: EPOCH,
                    life: Life { boot: Boot(1), erasures: 0 },
                    end: Some(Position::START),
                    checkpoint: Position::START,
                    replayed: Position::START,
                    mountable: true,
                    resend_from: None,
                },
            );
        }
        active
    }

    fn input(&mut self, input: Input) {
        self.copy.handle(self.now_ms, input, &mut self.effects);
    }

    fn hear(&mut self, from: u16, message: PeerMessage) {
        self.input(Input::Peer { from: HostId(from), message });
    }

    fn next_disk(&mut self) -> Option<u64> {
        let at = self.effects.iter().position(|effect| matches!(effect, Effect::Disk { .. }))?;
        let Effect::Disk { ticket, .. } = self.effects.remove(at) else { unreachable!("just seen") };
        Some(ticket)
    }

    /// Lets the time for an answer pass. Returns the host that is asked next, and the nonce.
    fn asks_next(&mut self) -> (u16, u64) {
        self.now_ms += single_database(Dial::Lossless).timing.resend_ms;
        self.input(Input::Tick);
        self.asked()
    }

    fn asked(&mut self) -> (u16, u64) {
        let asked = |effect: Effect| match effect {
            Effect::ToPeer(host, PeerMessage::FetchPages { nonce, .. }) => Some((host.0, nonce)),
            _ => None,
        };
        let is_message = |effect: &mut Effect| matches!(effect, Effect::ToPeer(..));
        let mut asked = self.effects.extract_if(.., is_message).filter_map(asked);
        let first = asked.next().expect("a copy is asked");
        assert_eq!(asked.next(), None, "one copy at a time");
        first
    }

    fn answer(&mut self, from: u16, nonce: u64) {
        let pages = [PageCopy { page: PAGE, bytes: vec![0; 16].into() }].into();
        let (next, position) = (None, Position::START);
        self.hear(from, PeerMessage::Pages { epoch: EPOCH, nonce, pages, next, position });
    }

    fn events(&mut self) -> Vec<Event> {
        let event = |effect: Effect| if let Effect::Event(event) = effect { Some(event) } else { None };
        let is_event = |effect: &mut Effect| matches!(effect, Effect::Event(_));
        self.effects.extract_if(.., is_event).filter_map(event).collect()
    }
}

#[test]
fn damaged_page_of_the_active_copy_is_asked_from_each_copy_in_turn() {
    let mut active = Active::new();
    active.events();
    active.input(Input::PageDamaged { page: PAGE });
    assert_eq!(active.events(), [Event::PageDamaged { page: PAGE }]);
    let (first, nonce) = active.asked();
    let (second, again) = active.asks_next();
    assert_eq!((first, second), (1, 2), "the first one has not answered");
    assert_eq!(active.asks_next().0, 1);
    active.answer(2, again);
    let written = |effect: &Effect| matches!(effect, Effect::Disk { op: DiskOp::WritePages(_), .. });
    assert!(active.effects.iter().any(written), "an answer is good however late it comes");
    let ticket = active.next_disk().expect("it is written");
    active.input(Input::DiskDone { ticket });
    active.answer(1, nonce);
    assert_eq!(active.events(), [Event::PageRepaired { page: PAGE }], "an answer that comes late is no lie");
    active.input(Input::PageDamaged { page: PAGE });
    assert_eq!(active.events(), [Event::PageDamaged { page: PAGE }], "it may fail again");
}

#[test]
fn copy_whose_page_is_damaged_too_is_not_the_last_one_that_is_asked() {
    let mut active = Active::new();
    active.input(Input::PageDamaged { page: PAGE });
    let (first, nonce) = active.asked();
    active.answer(first, nonce);
    let ticket = active.next_disk().expect("it is written");
    active.input(Input::StoreRefused { ticket });
    assert_ne!(active.asks_next().0, first);
    assert!(!active.events().contains(&Event::PageRepaired { page: PAGE }));
}
