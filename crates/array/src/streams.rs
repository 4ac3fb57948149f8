//! Sequential streams of a volume: recognised, kept on one mirror, read ahead.
//!
//! A read that starts where an earlier one ended makes a stream. Read-ahead goes on `ahead` bytes in front of
//! the last read, in steps of half of that, and a read that finds its data on the way waits for them. A stream
//! with long pauses is not worth that: of it only the rest of a stripe element is read on behind a read that
//! went to the drives.
//!
//! Streams take the disks of a mirror in turn as they begin. Of those that are read at the same time, one moves to the
//! other disk while that has two fewer of them: else two long streams would share a disk, and the other be idle.
//!
//! Left out: streams that go backwards or skip, read-ahead that adapts its length, cache room taken by read-ahead.

use std::collections::VecDeque;

const CANDIDATES: usize = 32;
const STREAMS: usize = 32;
/// Time since its last read within which a stream counts as being read, ns.
const BEING_READ_NS: u64 = 50_000_000;

/// Some bits of the end of a read, for quick comparison.
fn fold(end: u64) -> u32 {
    (end >> 9) as u32
}

/// Read-ahead in progress or done: its job and its end.
struct Ahead {
    id: u64,
    end: u64,
    done: bool,
}

struct Stream {
    number: u64,
    /// Disk of a mirror from which the stream is read.
    pin: u64,
    ready_end: u64,
    ahead_end: u64,
    ahead: VecDeque<Ahead>,
    /// Reads that wait for read-ahead: job, and the end that it needs.
    waiting: VecDeque<(u32, u64)>,
    used: u64,
    read_ns: u64,
}

/// Handling of streams with long pauses between reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlowStreams {
    /// Pause from which a stream counts as slow, ns.
    pub pause_ns: u64,
    /// Size of a stripe element, bytes.
    pub element_bytes: u64,
}

/// Decision about a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Read from the drives; from this disk of a mirror, if the read is part of a stream.
    Read(Option<u64>),
    /// The data are in the buffer.
    Hit,
    /// The data are being read ahead.
    Wait,
}

/// Range to be read ahead for a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefetch {
    pub stream: u64,
    pub pin: u64,
    pub id: u64,
    pub start: u64,
    pub end: u64,
}

pub(crate) struct Streams {
    ahead_bytes: u64,
    /// Handling of slow streams; `None`: like others.
    slow: Option<SlowStreams>,
    volume_bytes: u64,
    /// Last reads that belong to no stream: their ends, folded for a comparison without branches; ends and times.
    folded: [u32; CANDIDATES],
    candidates: [(u64, u64); CANDIDATES],
    next_candidate: usize,
    streams: Vec<Stream>,
    /// Ends of the streams.
    nexts: Vec<u64>,
    clock: u64,
    next_number: u64,
}

impl Streams {
    pub fn new(ahead_bytes: u64, slow: Option<SlowStreams>, volume_bytes: u64) -> Streams {
        Streams {
            ahead_bytes,
            slow,
            volume_bytes,
            folded: [fold(u64::MAX); CANDIDATES],
            candidates: [(u64::MAX, 0); CANDIDATES],
            next_candidate: 0,
            streams: Vec::new(),
            nexts: Vec::new(),
            clock: 0,
            next_number: 0,
        }
    }

    /// Decides about a read of job `job`, and what to read ahead for its stream.
    #[inline]
    pub fn read(
        &mut self,
        now_ns: u64,
        job: u32,
        (start, end): (u64, u64),
        prefetch: &mut Option<Prefetch>,
    ) -> Advice {
        self.clock += 1;
        if let Some(index) = self.nexts.iter().position(|next| *next == start) {
            return self.read_on(index, now_ns, job, end, prefetch);
        }
        if let Some(at) = self.candidate(start) {
            return self.read_after(at, now_ns, end, prefetch);
        }
        self.set_candidate(self.next_candidate, (end, now_ns));
        self.next_candidate = (self.next_candidate + 1) % CANDIDATES;
        Advice::Read(None)
    }

    /// Handles a read that makes a stream with an earlier one.
    #[inline(never)]
    fn read_after(&mut self, at: usize, now_ns: u64, end: u64, prefetch: &mut Option<Prefetch>) -> Advice {
        let before_ns = self.candidates[at].1;
        self.set_candidate(at, (u64::MAX, 0));
        self.begin(end, now_ns);
        let index = self.streams.len() - 1;
        *prefetch = self.plan_ahead(index, now_ns - before_ns, true);
        Advice::Read(Some(self.streams[index].pin))
    }

    /// Handles a read of a stream.
    #[inline(never)]
    fn read_on(
        &mut self,
        index: usize,
        now_ns: u64,
        job: u32,
        end: u64,
        prefetch: &mut Option<Prefetch>,
    ) -> Advice {
        self.spread(index, now_ns);
        let stream = &mut self.streams[index];
        let pause_ns = now_ns - std::mem::replace(&mut stream.read_ns, now_ns);
        stream.used = self.clock;
        self.nexts[index] = end;
        let advice = if end <= stream.ready_end {
            Advice::Hit
        } else if end <= stream.ahead_end {
            stream.waiting.push_back((job, end));
            Advice::Wait
        } else {
            // Ahead of read-ahead: read it oneself, and what is under way is of no use any more.
            stream.ready_end = stream.ready_end.max(end);
            stream.ahead_end = stream.ahead_end.max(end);
            Advice::Read(Some(stream.pin))
        };
        *prefetch = self.plan_ahead(index, pause_ns, matches!(advice, Advice::Read(_)));
        advice
    }

    /// Earlier read without a stream that ended where this one starts.
    #[inline]
    fn candidate(&self, start: u64) -> Option<usize> {
        let wanted = fold(start);
        if !self.folded.iter().fold(false, |any, end| any | (*end == wanted)) {
            return None;
        }
        self.candidates.iter().position(|candidate| candidate.0 == start)
    }

    fn set_candidate(&mut self, index: usize, candidate: (u64, u64)) {
        self.folded[index] = fold(candidate.0);
        self.candidates[index] = candidate;
    }

    /// Moves an active stream to the other disk of a mirror if that has at least two active streams fewer.
    fn spread(&mut self, index: usize, now_ns: u64) {
        let pin = self.streams[index].pin;
        let is_read = |stream: &&Stream| now_ns - stream.read_ns <= BEING_READ_NS;
        let read = self.streams.iter().filter(is_read).count();
        let here = self.streams.iter().filter(is_read).filter(|stream| stream.pin % 2 == pin % 2).count();
        if here >= read - here + 2 {
            self.streams[index].pin = pin + 1;
        }
    }

    fn begin(&mut self, end: u64, now_ns: u64) {
        // There may be more than that for as long as each of them has a waiter.
        while self.streams.len() >= STREAMS {
            // The one that has been silent longest and has no waiter.
            let idle = self.streams.iter().enumerate().filter(|(_, stream)| stream.waiting.is_empty());
            let Some((index, _)) = idle.min_by_key(|(_, stream)| stream.used) else { break };
            self.remove(index);
        }
        self.nexts.push(end);
        self.streams.push(Stream {
            number: self.next_number,
            pin: self.next_number,
            ready_end: end,
            ahead_end: end,
            ahead: VecDeque::new(),
            waiting: VecDeque::new(),
            used: self.clock,
            read_ns: now_ns,
        });
        self.next_number += 1;
    }

    fn remove(&mut self, index: usize) -> Stream {
        self.nexts.swap_remove(index);
        self.streams.swap_remove(index)
    }

    /// Read-ahead of a stream after a pause of `pause_ns` before its last read, which went to the drives or not.
    fn plan_ahead(&mut self, index: usize, pause_ns: u64, from_drives: bool) -> Option<Prefetch> {
        let (stream, next) = (&mut self.streams[index], self.nexts[index]);
        let slow = self.slow.filter(|slow| pause_ns > slow.pause_ns);
        let (wanted, least) = match slow {
            Some(SlowStreams { element_bytes, .. }) if from_drives => {
                (next.next_multiple_of(element_bytes), stream.ahead_end + 1)
            }
            Some(_) => return None,
            None => (next + self.ahead_bytes, stream.ahead_end + self.ahead_bytes / 2),
        };
        let wanted = wanted.min(self.volume_bytes);
        if self.ahead_bytes == 0 || wanted < least {
            return None;
        }
        let start = stream.ahead_end;
        stream.ahead_end = wanted;
        stream.ahead.push_back(Ahead { id: self.clock, end: wanted, done: false });
        Some(Prefetch { stream: stream.number, pin: stream.pin, id: self.clock, start, end: wanted })
    }

    /// Handles the end of a read-ahead; appends the jobs that waited for it.
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

    /// Handles a failed read-ahead: its stream ends; appends the waiting jobs, which must read themselves.
    pub fn failed(&mut self, stream: u64, waiting: &mut Vec<u32>) {
        if let Some(at) = self.streams.iter().position(|candidate| candidate.number == stream) {
            waiting.extend(self.remove(at).waiting.into_iter().map(|(job, _)| job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_streams_do_not_stay_on_one_disk_of_a_mirror() {
        let mut streams = Streams::new(0, None, 1 << 40);
        let (step, mut at) = (256 << 10, [0u64, 1 << 30, 2 << 30]);
        let mut read = |stream: usize, ms: u64| {
            let start = at[stream];
            at[stream] += step;
            match streams.read(ms * 1_000_000, 1, (start, start + step), &mut None) {
                Advice::Read(pin) => pin.map(|pin| pin % 2),
                advice => panic!("nothing is read ahead: {advice:?}"),
            }
        };
        // The second one is short and ends; its place in the turn is between the others.
        let begun = [0, 0, 1, 1, 2, 2].map(|stream| read(stream, 0));
        assert_eq!(begun, [None, Some(0), None, Some(1), None, Some(0)]);
        let long: Vec<_> = (10..30).map(|n| [read(0, n * 10), read(2, n * 10)]).collect();
        assert!(
            long.iter().skip(1).all(|[first, third]| first != third),
            "each has a disk of its own: {long:?}"
        );
        let moves = long.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(moves <= 1, "and stays there: {long:?}");
    }

    #[test]
    fn a_stream_is_read_ahead_and_random_reads_do_not_disturb_it() {
        let mut streams = Streams::new(1 << 20, None, 1 << 40);
        let mut prefetch = None;
        let step = 256 << 10;
        assert_eq!(streams.read(0, 1, (0, step), &mut prefetch), Advice::Read(None));
        assert!(prefetch.is_none());
        assert_eq!(streams.read(0, 2, (step, 2 * step), &mut prefetch), Advice::Read(Some(0)));
        let first = prefetch.take().expect("the second read makes a stream");
        assert_eq!((first.start, first.end), (2 * step, 2 * step + (1 << 20)));
        for k in 0..1_000u64 {
            streams.read(0, 9, ((k + 7) << 30, ((k + 7) << 30) + 4096), &mut prefetch);
        }
        assert_eq!(streams.read(0, 3, (2 * step, 3 * step), &mut prefetch), Advice::Wait);
        let mut ready = Vec::new();
        streams.arrived(first.stream, first.id, &mut ready);
        assert_eq!(ready, [3]);
        assert_eq!(streams.read(0, 4, (3 * step, 4 * step), &mut prefetch), Advice::Hit);
        let second = prefetch.take().expect("half of the distance is used up");
        assert_eq!((second.start, second.end), (first.end, 4 * step + (1 << 20)));
    }

    #[test]
    fn a_slow_stream_is_read_on_to_the_end_of_its_element() {
        let slow = SlowStreams { pause_ns: 50, element_bytes: 512 << 10 };
        let mut streams = Streams::new(1 << 20, Some(slow), 1 << 40);
        let step = 256 << 10;
        let mut seen = Vec::new();
        for k in 0..6 {
            let mut prefetch = None;
            let advice = streams.read(k * 100, 1, (k * step, (k + 1) * step), &mut prefetch);
            if let Some(Prefetch { stream, id, start, end, .. }) = prefetch {
                assert_eq!((start, end), ((k + 1) * step, (k + 2) * step));
                streams.arrived(stream, id, &mut Vec::new());
            }
            seen.push((advice, prefetch.is_some()));
        }
        assert_eq!(
            seen[2..],
            [
                (Advice::Read(Some(0)), true),
                (Advice::Hit, false),
                (Advice::Read(Some(0)), true),
                (Advice::Hit, false)
            ]
        );
        let mut prefetch = None;
        streams.read(510, 1, (6 * step, 7 * step), &mut prefetch);
        assert!(prefetch.is_some_and(|ahead| ahead.end == 7 * step + (1 << 20)), "now it is fast");
    }

    #[test]
    fn streams_that_all_had_to_be_waited_for_are_forgotten_later() {
        let mut streams = Streams::new(1 << 20, None, 1 << 40);
        let step = 256 << 10;
        let mut begun = Vec::new();
        for k in 0..2 * STREAMS as u64 {
            let at = (k + 1) << 30;
            let mut prefetch = None;
            streams.read(0, 1, (at, at + step), &mut prefetch);
            streams.read(0, 2, (at + step, at + 2 * step), &mut prefetch);
            begun.push(prefetch.expect("the second read makes a stream"));
            assert_eq!(streams.read(0, 3, (at + 2 * step, at + 3 * step), &mut prefetch), Advice::Wait);
        }
        assert_eq!(streams.streams.len(), begun.len(), "nobody is let down");
        let mut ready = Vec::new();
        begun.iter().for_each(|ahead| streams.arrived(ahead.stream, ahead.id, &mut ready));
        assert_eq!(ready.len(), begun.len());
        streams.read(0, 1, (0, step), &mut None);
        streams.read(0, 2, (step, 2 * step), &mut None);
        assert_eq!(streams.streams.len(), STREAMS);
    }
}
