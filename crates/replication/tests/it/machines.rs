//! One machine at a time, fed by hand: what only an exact order of inputs shows.

use std::rc::Rc;

use replication::{
    Arbiter, ArbiterEffect, ArbiterEvent, ArbiterInput, Boot, CopyMachine, DatabaseSpec, Dial, DiskOp,
    Effect, Epoch, Event, Found, FromArbiter, Health, HostId, Input, Lineage, LogExtent, Meta, PageCopy,
    PageRequest, PeerMessage, Position, Record, Report, ToArbiter,
};

use crate::random::single_database;

/// Host of the active copy; the tests look at a passive copy.
const ACTIVE: HostId = HostId(0);
const EPOCH: Epoch = Epoch(1);

fn report(spec: &DatabaseSpec, host: u16, promised: Epoch, end: Position) -> ArbiterInput {
    ArbiterInput::Message(ToArbiter::Report(Report {
        database: spec.id,
        host: HostId(host),
        boot: Boot(1),
        promised,
        lineage: Lineage::first(),
        end,
        log_start: 1,
        replayed: end,
        health: Health::Healthy,
        mountable: true,
        copy_queue: 0,
        host_tier: 0,
    }))
}

#[test]
fn an_election_comes_to_the_third_candidate_when_two_cannot_fetch_what_it_holds() {
    let spec = Rc::new(single_database(Dial::Lossless));
    let mut arbiter = Arbiter::new([(spec.clone(), Record::first(&spec))], None, 0);
    let (mut ordered, mut chosen) = (Vec::new(), Vec::new());
    for now_ms in (1_000..1_000 + 3 * spec.timing.catch_up_ms).step_by(20) {
        let mut effects = Vec::new();
        arbiter.handle(now_ms, ArbiterInput::Tick, &mut effects);
        while let Some(effect) = effects.pop() {
            match effect {
                ArbiterEffect::Persist { ticket, .. } => {
                    arbiter.handle(now_ms, ArbiterInput::Persisted { ticket }, &mut effects);
                }
                ArbiterEffect::ToCopy { host, message: FromArbiter::Fence { epoch }, .. } => {
                    let end = Position { generation: 3, offset: if host.0 == 2 { 24 } else { 8 } };
                    arbiter.handle(now_ms, report(&spec, host.0, epoch, end), &mut effects);
                }
                ArbiterEffect::Event(_, ArbiterEvent::CatchUpOrdered { candidate, .. }) => {
                    ordered.push(candidate.0)
                }
                ArbiterEffect::Event(_, ArbiterEvent::CandidateChosen { candidate }) => {
                    chosen.push(candidate.0)
                }
                _ => {}
            }
        }
        if !chosen.is_empty() {
            break;
        }
    }
    assert_eq!((ordered, chosen), (vec![0, 1], vec![2]));
}

/// Passive copy that follows [`ACTIVE`]. Its disk operations complete only in [`Passive::finish_disk`].
struct Passive {
    copy: CopyMachine,
    effects: Vec<Effect>,
    now_ms: u64,
}

impl Passive {
    fn new() -> Passive {
        let spec = Rc::new(single_database(Dial::Lossless));
        let log = Some(LogExtent { start: 1, end: Position::START });
        let found = Found { meta: Meta::first(), log, checkpoint: Position::START };
        let copy = CopyMachine::new(spec, HostId(1), Boot(1), found);
        let mut passive = Passive { copy, effects: Vec::new(), now_ms: 0 };
        passive.input(Input::FromArbiter(FromArbiter::Fence { epoch: EPOCH }));
        passive.finish_disk();
        let lineage = Lineage::first().continued(EPOCH, Position::START);
        let (end, log_start) = (Position::START, 1);
        passive.hear(PeerMessage::Ship { epoch: EPOCH, lineage, end, log_start, piece: None });
        passive.finish_disk();
        passive
    }

    fn input(&mut self, input: Input) {
        self.copy.handle(self.now_ms, input, &mut self.effects);
    }

    fn hear(&mut self, message: PeerMessage) {
        self.input(Input::Peer { from: ACTIVE, message });
    }

    /// Completes all pending disk operations.
    fn finish_disk(&mut self) {
        while let Some(at) = self.effects.iter().position(|effect| matches!(effect, Effect::Disk { .. })) {
            let Effect::Disk { ticket, .. } = self.effects.remove(at) else { unreachable!("just seen") };
            self.input(Input::DiskDone { ticket });
        }
    }

    /// Pages that the copy has requested from [`ACTIVE`] since the last call, with the nonce of each request.
    fn asked(&mut self) -> Vec<(u64, Vec<u32>)> {
        let asked = |effect| match effect {
            Effect::ToPeer(
                ACTIVE,
                PeerMessage::FetchPages { nonce, request: PageRequest::List(pages), .. },
            ) => Some((nonce, pages)),
            _ => None,
        };
        self.effects.extract_if(.., |effect| matches!(effect, Effect::ToPeer(..))).filter_map(asked).collect()
    }

    fn answer(&mut self, nonce: u64, pages: &[u32]) {
        let pages = pages.iter().map(|&page| PageCopy { page, bytes: vec![0; 16].into() }).collect();
        let (next, position) = (None, Position::START);
        self.hear(PeerMessage::Pages { epoch: EPOCH, nonce, pages, next, position });
    }

    fn writes_pages(&self) -> bool {
        let writes = |effect: &Effect| matches!(effect, Effect::Disk { op: DiskOp::WritePages(_), .. });
        self.effects.iter().any(writes)
    }
}

#[test]
fn an_answer_that_comes_after_the_question_was_repeated_is_taken() {
    let mut passive = Passive::new();
    passive.input(Input::PageDamaged { page: 3 });
    let first = passive.asked();
    assert_eq!(first.len(), 1);
    passive.now_ms += single_database(Dial::Lossless).timing.resend_ms;
    passive.input(Input::Tick);
    assert_eq!(passive.asked(), first, "the same question");
    passive.answer(first[0].0, &[3]);
    assert!(passive.writes_pages());
    passive.finish_disk();
    passive.effects.clear();
    passive.answer(first[0].0, &[3]);
    assert!(!passive.writes_pages(), "the answer to the repeated question is one too many");
}

#[test]
fn a_page_that_is_found_damaged_while_another_is_written_is_fetched_next() {
    let mut passive = Passive::new();
    passive.input(Input::PageDamaged { page: 3 });
    let asked = passive.asked();
    passive.answer(asked[0].0, &[3]);
    assert!(passive.writes_pages());
    passive.input(Input::PageDamaged { page: 7 });
    passive.finish_disk();
    assert_eq!(passive.copy.report().health, Health::Resyncing);
    let asked = passive.asked();
    assert_eq!(asked.last().expect("it is asked for").1, [7]);
    passive.answer(asked.last().expect("it is asked for").0, &[7]);
    passive.finish_disk();
    assert_eq!(passive.copy.report().health, Health::Healthy);
    assert!(passive.effects.contains(&Effect::Event(Event::Resynced { pages: 1 })));
}

/// A candidate was told to fetch the log of another copy. The arbiter then chose another candidate, which had that
/// log sooner.
#[test]
fn a_candidate_that_was_passed_over_asks_for_log_no_more() {
    let mut passive = Passive::new();
    let (epoch, source) = (Epoch(2), HostId(2));
    passive.input(Input::FromArbiter(FromArbiter::Fence { epoch }));
    passive.finish_disk();
    passive.input(Input::FromArbiter(FromArbiter::CatchUp { epoch, source }));
    let asks = |passive: &mut Passive| {
        passive.effects.clear();
        passive.now_ms += single_database(Dial::Lossless).timing.resend_ms;
        passive.input(Input::Tick);
        let asks = |effect: &Effect| matches!(effect, Effect::ToPeer(_, PeerMessage::FetchLog { .. }));
        passive.effects.iter().any(asks)
    };
    assert!(asks(&mut passive), "it is in the election");
    let lineage = Lineage::first().continued(EPOCH, Position::START).continued(epoch, Position::START);
    let (end, log_start) = (Position::START, 1);
    passive.hear(PeerMessage::Ship { epoch, lineage, end, log_start, piece: None });
    passive.finish_disk();
    assert!(!asks(&mut passive), "another copy is active");
    passive.effects.clear();
    passive
        .input(Input::Peer { from: source, message: PeerMessage::FetchLog { epoch, from: Position::START } });
    assert!(
        !passive.effects.iter().any(|effect| matches!(effect, Effect::ReadLog { .. })),
        "the active one has it"
    );
}

/// Reaction of a passive copy that follows [`ACTIVE`] to a message of `from`: its events, and its reports before and
/// after.
fn told_by(from: HostId, message: PeerMessage) -> (Vec<Event>, Report, Report) {
    let mut passive = Passive::new();
    let before = passive.copy.report();
    passive.effects.clear();
    passive.input(Input::Peer { from, message });
    let events = passive.effects.iter().filter_map(|effect| match effect {
        Effect::Event(event) => Some(*event),
        _ => None,
    });
    let events = events.collect();
    passive.finish_disk();
    (events, before, passive.copy.report())
}

#[test]
fn an_epoch_comes_from_the_arbiter_and_from_no_copy() {
    let later = Epoch(u32::MAX);
    let lineage = Lineage::first().continued(later, Position::START);
    let (end, log_start) = (Position::START, 1);
    let ship = PeerMessage::Ship { epoch: later, lineage, end, log_start, piece: None };
    for from in [ACTIVE, HostId(2)] {
        for message in [ship.clone(), PeerMessage::Rejected { promised: later }] {
            let (events, before, after) = told_by(from, message);
            assert_eq!(events, [Event::UnknownEpochRefused { from }]);
            assert_eq!(before, after);
        }
    }
}

#[test]
fn an_epoch_has_one_active_copy_and_another_one_is_not_followed() {
    let lineage = Lineage::first().continued(EPOCH, Position::START);
    let (end, log_start) = (Position::START, 1);
    let ship = PeerMessage::Ship { epoch: EPOCH, lineage, end, log_start, piece: None };
    let (events, before, after) = told_by(HostId(2), ship.clone());
    assert_eq!(events, [Event::SecondActiveRefused { from: HostId(2) }]);
    assert_eq!(before, after);
    assert_eq!(told_by(ACTIVE, ship).0, []);
}

#[test]
fn log_that_the_disk_refuses_counts_as_never_come_and_may_come_again() {
    let mut passive = Passive::new();
    let bytes: std::rc::Rc<[u8]> = vec![0; 8].into();
    let lineage = Lineage::first().continued(EPOCH, Position::START);
    let piece = replication::LogPiece {
        from: Position::START,
        checksum: replication::checksum(&bytes),
        bytes,
        closes: false,
        signature: single_database(Dial::Lossless).signature,
    };
    let (end, log_start) = (piece.end(), 1);
    let ship = PeerMessage::Ship { epoch: EPOCH, lineage, end, log_start, piece: Some(piece) };
    let stored = |passive: &mut Passive| {
        passive.effects.clear();
        passive.hear(ship.clone());
        passive.effects.iter().find_map(|effect| match effect {
            Effect::Disk { ticket, op: DiskOp::Store(_) } => Some(*ticket),
            _ => None,
        })
    };
    let before = passive.copy.report().end;
    let ticket = stored(&mut passive).expect("it is the next");
    passive.input(Input::StoreRefused { ticket });
    assert!(passive.effects.contains(&Effect::Event(Event::LogRefused { from: ACTIVE })));
    assert_eq!(passive.copy.report().end, before);
    let ticket = stored(&mut passive).expect("it is still the next");
    passive.input(Input::DiskDone { ticket });
    assert_eq!(passive.copy.report().end, end);
}
