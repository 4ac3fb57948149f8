//! Sequential streams of a volume: recognised, kept on one mirror, read ahead.
//!
//! A read that starts where an earlier one ended makes a stream. Read-ahead goes on `ahead` bytes in front of the last
//! read, in steps of half of that, and a read that finds its data on the way waits for them.
//!
//! Left out: streams that go backwards or skip, read-ahead that adapts its length, cache room taken by read-ahead.

use std::collections::VecDeque;

const CANDIDATES: usize = 32;
const STREAMS: usize = 32;

/// A read-ahead under way or done: its job and its end.
struct Ahead {
    id: u64,
    end: u64,
    done: bool,
}

struct Stream {
    number: u64,
    next: u64,
    ready_end: u64,
    ahead_end: u64,
    ahead: VecDeque<Ahead>,
    /// Reads that wait for read-ahead: the job, and the end that it needs.
    waiting: VecDeque<(u32, u64)>,
    used: u64,
}

/// What a read is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Read from the drives; part of this stream, if any.
    Read(Option<u64>),
    /// The data are there.
    Hit,
    /// The data are on their way.
    Wait,
}

/// A range to be read ahead for a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefetch {
    pub stream: u64,
    pub id: u64,
    pub start: u64,
    pub end: u64,
}

pub(crate) struct Streams {
    ahead_bytes: u64,
    volume_bytes: u64,
    /// Ends of the last reads of no stream.
    candidates: [u64; CANDIDATES],
    next_candidate: usize,
    streams: Vec<Stream>,
    clock: u64,
    next_number: u64,
}

impl Streams {
    pub fn new(ahead_bytes: u64, volume_bytes: u64) -> Streams {
        Streams {
            ahead_bytes,
            volume_bytes,
            candidates: [u64::MAX; CANDIDATES],
            next_candidate: 0,
            streams: Vec::new(),
            clock: 0,
            next_number: 0,
        }
    }

    /// Looks at a read of job `job`, and says what to read ahead for its stream.
    pub fn read(&mut self, job: u32, start: u64, end: u64, prefetch: &mut Option<Prefetch>) -> Advice {
        self.clock += 1;
        let clock = self.clock;
        let Some(index) = self.streams.iter().position(|stream| stream.next == start) else {
            let Some(at) = self.candidates.iter().position(|candidate| *candidate == start) else {
                self.candidates[self.next_candidate] = end;
                self.next_candidate = (self.next_candidate + 1) % CANDIDATES;
                return Advice::Read(None);
            };
            self.candidates[at] = u64::MAX;
            self.begin(end);
            let index = self.streams.len() - 1;
            *prefetch = self.plan_ahead(index);
            return Advice::Read(Some(self.streams[index].number));
        };
        let stream = &mut self.streams[index];
        stream.used = clock;
        stream.next = end;
        let advice = if end <= stream.ready_end {
            Advice::Hit
        } else if end <= stream.ahead_end {
            stream.waiting.push_back((job, end));
            Advice::Wait
        } else {
            // Ahead of read-ahead: read it oneself, and what is under way is of no use any more.
            stream.ready_end = stream.ready_end.max(end);
            stream.ahead_end = stream.ahead_end.max(end);
            Advice::Read(Some(stream.number))
        };
        *prefetch = self.plan_ahead(index);
        advice
    }

    fn begin(&mut self, end: u64) {
        if self.streams.len() == STREAMS {
            // The one that has been silent longest and that nobody waits for.
            let idle = self.streams.iter().enumerate().filter(|(_, stream)| stream.waiting.is_empty());
            if let Some((index, _)) = idle.min_by_key(|(_, stream)| stream.used) {
                self.streams.swap_remove(index);
            }
        }
        self.streams.push(Stream {
            number: self.next_number,
            next: end,
            ready_end: end,
            ahead_end: end,
            ahead: VecDeque::new(),
            waiting: VecDeque::new(),
            used: self.clock,
        });
        self.next_number += 1;
    }

    fn plan_ahead(&mut self, index: usize) -> Option<Prefetch> {
        let stream = &mut self.streams[index];
        let wanted = (stream.next + self.ahead_bytes).min(self.volume_bytes);
        if self.ahead_bytes == 0 || wanted < stream.ahead_end + self.ahead_bytes / 2 {
            return None;
        }
        let start = stream.ahead_end;
        stream.ahead_end = wanted;
        stream.ahead.push_back(Ahead { id: self.clock, end: wanted, done: false });
        Some(Prefetch { stream: stream.number, id: self.clock, start, end: wanted })
    }

    /// A read-ahead has ended: the jobs that waited for it are appended.
    pub fn arrived(&mut self, stream: u64, id: u64, ready: &mut Vec<u32>) {
        let Some(stream) = self.streams.iter_mut().find(|candidate| candidate.number == stream) else {
            return;
        };
        if let Some(ahead) = stream.ahead.iter_mut().find(|ahead| ahead.id == id) {
            ahead.done = true;
        }
        while let Some(ahead) = stream.ahead.front().filter(|ahead| ahead.done) {
            stream.ready_end = stream.ready_end.max(ahead.end);
            stream.ahead.pop_front();
        }
        let ready_end = stream.ready_end;
        stream.waiting.retain(|(job, end)| {
            let waits = *end > ready_end;
            if !waits {
                ready.push(*job);
            }
            waits
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_read_ahead_and_random_reads_do_not_disturb_it() {
        let mut streams = Streams::new(1 << 20, 1 << 40);
        let mut prefetch = None;
        let step = 256 << 10;
        assert_eq!(streams.read(1, 0, step, &mut prefetch), Advice::Read(None));
        assert!(prefetch.is_none());
        assert_eq!(streams.read(2, step, 2 * step, &mut prefetch), Advice::Read(Some(0)));
        let first = prefetch.take().expect("the second read makes a stream");
        assert_eq!((first.start, first.end), (2 * step, 2 * step + (1 << 20)));
        for k in 0..1_000u64 {
            streams.read(9, (k + 7) << 30, ((k + 7) << 30) + 4096, &mut prefetch);
        }
        assert_eq!(streams.read(3, 2 * step, 3 * step, &mut prefetch), Advice::Wait);
        let mut ready = Vec::new();
        streams.arrived(first.stream, first.id, &mut ready);
        assert_eq!(ready, [3]);
        assert_eq!(streams.read(4, 3 * step, 4 * step, &mut prefetch), Advice::Hit);
        let second = prefetch.take().expect("half of the distance is used up");
        assert_eq!((second.start, second.end), (first.end, 4 * step + (1 << 20)));
    }
}
