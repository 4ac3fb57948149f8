//! Messages on their way.

use super::*;

impl Cluster {
    pub(super) fn send(&mut self, from: Party, to: Party, message: Message) {
        let is_cut = self.cuts.iter().any(|(left, right, until)| {
            *until > self.now_us
                && (left.contains(&from) && right.contains(&to)
                    || left.contains(&to) && right.contains(&from))
        });
        if is_cut {
            return self.count("net.cut");
        }
        let weather = if self.weather.until_us > self.now_us { self.weather } else { Weather::default() };
        let copies = 1 + u64::from(self.random.chance(weather.doubling));
        for _ in 0..copies {
            if self.random.chance(weather.loss) {
                self.count("net.lost");
                continue;
            }
            let far = self.site(from) != self.site(to);
            let mut delay =
                if far { self.random.between(4 * MS, 12 * MS) } else { self.random.between(200, 4 * MS) };
            if self.random.chance(weather.late) {
                delay += self.random.between(50 * MS, 1_500 * MS);
                self.count("net.late");
            }
            let mut message = message.clone();
            if weather.loss > 0 && self.random.chance(10) {
                spoil(&mut message);
            }
            self.at(delay, Happening::Deliver { to, message });
        }
        if copies > 1 {
            self.count("net.doubled");
        }
    }

    pub(super) fn site(&self, party: Party) -> Option<SiteId> {
        match party {
            Party::Arbiter => None,
            Party::Host(host) => Some(self.hosts[&host].site),
        }
    }

    pub(super) fn deliver(&mut self, to: Party, message: Message) -> Result<(), String> {
        match (to, message) {
            (Party::Arbiter, Message::ToArbiter(message)) => {
                self.arbiter_input(ArbiterInput::Message(message))
            }
            (Party::Host(host), message) => {
                let resumes_us = self.hosts[&host].paused_until_us;
                if resumes_us > self.now_us {
                    let delay = resumes_us - self.now_us;
                    self.at(delay, Happening::Deliver { to, message });
                    return Ok(());
                }
                match message {
                    Message::FromArbiter(database, message) => {
                        self.input((host, database), Input::FromArbiter(message))
                    }
                    Message::Peer(from, database, message) => {
                        self.input((host, database), Input::Peer { from, message })
                    }
                    Message::ToArbiter(_) => Ok(()),
                }
            }
            (Party::Arbiter, _) => Ok(()),
        }
    }
}

/// Flips a bit of shipped log in a message.
fn spoil(message: &mut Message) {
    if let Message::Peer(_, _, PeerMessage::Ship { piece: Some(piece), .. }) = message
        && !piece.bytes.is_empty()
    {
        let mut bytes = piece.bytes.to_vec();
        bytes[0] ^= 1;
        piece.bytes = bytes.into();
    }
}
