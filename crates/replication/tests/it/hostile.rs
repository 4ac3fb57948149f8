//! Messages that no honest party would send: nothing panics, and without the arbiter's word nothing mounts.

use std::rc::Rc;

use replication::{
    Arbiter, ArbiterInput, Boot, CopyMachine, Dial, Effect, Epoch, FromArbiter, Health, HostId, Input, Life,
    Lineage, LogPiece, PageCopy, PageRequest, PeerMessage, Position, Record, Renewal, Report, ToArbiter,
};

use crate::faults::Random;
use crate::model::Disk;
use crate::random::single_database;

const MESSAGES: u32 = 40_000;

struct Hostile(Random);

impl Hostile {
    fn number(&mut self) -> u32 {
        [0, 1, 2, 3, 7, u32::MAX - 1, u32::MAX][self.0.below(7) as usize]
    }

    fn position(&mut self) -> Position {
        Position { generation: self.number(), offset: self.number() }
    }

    fn lineage(&mut self) -> Lineage {
        (0..self.0.below(4)).fold(Lineage::default(), |lineage, _| {
            let (epoch, at) = (Epoch(self.number()), self.position());
            lineage.continued(epoch, at)
        })
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        self.0.chance(700).then_some(value)
    }

    fn request(&mut self) -> PageRequest {
        if self.0.chance(500) {
            PageRequest::From(self.number())
        } else {
            PageRequest::List((0..self.0.below(4)).map(|_| self.number()).collect())
        }
    }

    fn piece(&mut self) -> LogPiece {
        let bytes: Rc<[u8]> = vec![0; self.0.below(9) as usize].into();
        let checksum = if self.0.chance(800) { replication::checksum(&bytes) } else { self.number() };
        let signature = single_database(Dial::Lossless).signature;
        LogPiece { from: self.position(), bytes, closes: self.0.chance(300), signature, checksum }
    }

    fn life(&mut self) -> Life {
        Life { boot: Boot(self.number()), erasures: self.number() }
    }

    fn peer_message(&mut self) -> PeerMessage {
        let epoch = Epoch(self.number());
        let nonce = u64::from(self.number());
        match self.0.below(8) {
            0 | 1 => {
                let piece = self.piece();
                PeerMessage::Ship {
                    epoch,
                    lineage: self.lineage(),
                    end: self.position(),
                    log_start: self.number(),
                    piece: self.maybe(piece),
                }
            }
            2 => {
                let (end, again) = (self.position(), self.position());
                PeerMessage::Progress {
                    epoch,
                    life: self.life(),
                    end: self.maybe(end),
                    checkpoint: self.position(),
                    replayed: self.position(),
                    mountable: self.0.chance(500),
                    resend_from: self.maybe(again),
                }
            }
            3 => PeerMessage::Rejected { promised: epoch },
            4 => PeerMessage::FetchLog { epoch, from: self.position() },
            5 => PeerMessage::SeedRequest { epoch, life: self.life(), nonce },
            6 => PeerMessage::SeedStart { epoch, nonce, lineage: self.lineage(), generation: self.number() },
            _ if self.0.chance(500) => {
                PeerMessage::FetchPages { epoch, nonce, request: self.request(), at_least: self.position() }
            }
            _ => {
                let page = PageCopy { page: self.number(), bytes: vec![0; 16].into() };
                let next = self.number();
                PeerMessage::Pages {
                    epoch,
                    nonce,
                    pages: vec![page].into(),
                    next: self.maybe(next),
                    position: self.position(),
                }
            }
        }
    }

    fn arbiter_message(&mut self) -> ToArbiter {
        let database = single_database(Dial::Lossless).id;
        let host = HostId(self.0.below(4) as u16);
        match self.0.below(3) {
            0 => ToArbiter::Report(Report {
                database,
                host,
                boot: Boot(self.number()),
                promised: Epoch(self.number()),
                lineage: self.lineage(),
                end: self.position(),
                log_start: self.number(),
                replayed: self.position(),
                health: Health::Healthy,
                mountable: self.0.chance(800),
                copy_queue: self.number(),
                host_tier: self.0.below(256) as u8,
            }),
            1 => {
                let partner = HostId(self.0.below(4) as u16);
                ToArbiter::Renewal(Renewal {
                    database,
                    host,
                    boot: Boot(self.number()),
                    epoch: Epoch(self.number()),
                    sequence: u64::from(self.number()),
                    asked_at_ms: u64::MAX,
                    generation: self.number(),
                    partner: self.maybe(partner),
                    lineage: self.lineage(),
                })
            }
            _ => {
                let drained = self.position();
                ToArbiter::Released {
                    database,
                    host,
                    epoch: Epoch(self.number()),
                    drained: self.maybe(drained),
                }
            }
        }
    }
}

#[test]
fn a_copy_survives_hostile_peers_and_does_not_mount_on_their_word() {
    for seed in 0..20 {
        let spec = Rc::new(single_database(Dial::Lossless));
        let mut hostile = Hostile(Random::new(seed));
        let mut copy = CopyMachine::new(spec, HostId(0), Boot(1), Disk::first().found());
        let mut effects = Vec::new();
        for number in 0..MESSAGES / 20 {
            let from = HostId(hostile.0.below(4) as u16);
            let message = hostile.peer_message();
            copy.handle(u64::from(number), Input::Peer { from, message }, &mut effects);
            for effect in std::mem::take(&mut effects) {
                assert!(!matches!(effect, Effect::Mount { .. } | Effect::Acknowledge { .. }));
                // Its disk works, so that the machine gets anywhere.
                if let (Effect::Disk { ticket, .. }, true) = (&effect, hostile.0.chance(900)) {
                    copy.handle(u64::from(number), Input::DiskDone { ticket: *ticket }, &mut effects);
                }
            }
        }
    }
}

#[test]
fn an_active_copy_survives_hostile_peers() {
    for seed in 0..20 {
        let spec = Rc::new(single_database(Dial::Lossless));
        let mut hostile = Hostile(Random::new(seed));
        let mut copy = CopyMachine::new(spec.clone(), HostId(0), Boot(1), Disk::first().found());
        let mut effects = Vec::new();
        let grant = FromArbiter::Granted {
            epoch: Epoch(1),
            sequence: 1,
            asked_at_ms: 0,
            lease_ms: u64::from(MESSAGES),
            generation: 1,
            partner: None,
        };
        copy.handle(0, Input::FromArbiter(FromArbiter::Fence { epoch: Epoch(1) }), &mut effects);
        copy.handle(0, Input::FromArbiter(FromArbiter::Activate { epoch: Epoch(1) }), &mut effects);
        for effect in std::mem::take(&mut effects) {
            if let Effect::Disk { ticket, .. } = effect {
                copy.handle(0, Input::DiskDone { ticket }, &mut effects);
            }
        }
        copy.handle(0, Input::FromArbiter(grant), &mut effects);
        assert_eq!(copy.active_epoch(0), Some(Epoch(1)));
        effects.clear();
        for number in 0..MESSAGES / 20 {
            let from = HostId(hostile.0.below(4) as u16);
            let message = hostile.peer_message();
            // A newer epoch is the one thing that may end it, and then it stays ended.
            let ends = matches!(&message, PeerMessage::Rejected { .. } | PeerMessage::Ship { .. });
            if !ends {
                copy.handle(u64::from(number), Input::Peer { from, message }, &mut effects);
            }
            let acknowledged = effects.drain(..).any(|effect| matches!(effect, Effect::Acknowledge { .. }));
            assert!(!acknowledged, "nobody has committed");
        }
        assert!(copy.active_epoch(u64::from(MESSAGES / 20)).is_some());
    }
}

#[test]
fn the_arbiter_survives_hostile_copies() {
    for seed in 0..20 {
        let spec = Rc::new(single_database(Dial::GoodAvailability));
        let mut hostile = Hostile(Random::new(seed));
        let mut arbiter = Arbiter::new([(spec.clone(), Record::first(&spec))], Some(1), 0);
        let mut effects = Vec::new();
        for number in 0..MESSAGES / 20 {
            let message = hostile.arbiter_message();
            arbiter.handle(u64::from(number) * 7, ArbiterInput::Message(message), &mut effects);
            for effect in std::mem::take(&mut effects) {
                if let replication::ArbiterEffect::Persist { ticket, .. } = effect {
                    arbiter.handle(u64::from(number) * 7, ArbiterInput::Persisted { ticket }, &mut effects);
                }
            }
        }
    }
}
