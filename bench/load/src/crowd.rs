//! Many connections on one thread: each speaks, waits for the answer, and speaks again.

use crate::cpu::{Meter, Usage};
use mio::{Events, Interest, Poll, Token, event::Event, net::TcpStream};
use std::{
    io::{self, ErrorKind, Read, Write},
    time::{Duration, Instant},
};

/// How long nothing at all may happen.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_ROOM: usize = 4096;

/// What is said on one connection.
pub trait Speaker {
    /// Makes the next request; `false` when there is nothing more to say.
    fn prepare(&mut self) -> bool;
    /// The request that was made last.
    fn request(&self) -> &[u8];
    /// Looks at everything received since that request. An error ends the connection.
    fn hear(&mut self, received: &[u8]) -> Result<Heard, String>;
}

/// What was heard, and how many bytes of it are done with.
pub enum Heard {
    NotYet,
    /// An answer on the way: another request follows at once.
    Step(usize),
    /// What is counted has happened.
    Done(usize),
    /// The same, but not as it should be.
    Wrong(usize, String),
}

/// When a run ends.
#[derive(Clone, Copy)]
pub enum Until {
    Count(u64),
    /// Seconds to warm up, then seconds that are measured.
    Seconds(f64, f64),
}

/// What happened in the measured part of a run.
#[derive(Default)]
pub struct Tally {
    pub done: u64,
    pub bytes: u64,
    pub errors: u64,
    pub first_error: String,
    /// In nanoseconds, in no order.
    pub latencies: Vec<u32>,
    pub usage: Option<Usage>,
}

impl Tally {
    fn fail(&mut self, why: String) {
        self.errors += 1;
        if self.first_error.is_empty() {
            self.first_error = why;
        }
    }
}

pub struct Crowd<S> {
    poll: Poll,
    members: Vec<Member<S>>,
}

struct Member<S> {
    stream: TcpStream,
    speaker: S,
    state: State,
    /// How much of the request is sent.
    sent: usize,
    received: Vec<u8>,
    filled: usize,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Waiting,
    Gone,
}

/// One run: what is counted, and whether to go on.
struct Run {
    until: Until,
    server: u32,
    phase: Phase,
    started: u64,
    phase_began: Instant,
    meter: Meter,
    tally: Tally,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Warming,
    Measuring,
    /// Nothing new is said; what is under way is waited for, so that the server rests afterwards.
    Draining,
}

impl<S: Speaker> Crowd<S> {
    pub fn new() -> io::Result<Self> {
        Ok(Self { poll: Poll::new()?, members: vec![] })
    }

    /// Takes a connection in.
    pub fn join(&mut self, stream: std::net::TcpStream, speaker: S) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        let token = Token(self.members.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, interest)?;
        let received = vec![0; FIRST_ROOM];
        let (state, since) = (State::Idle, Instant::now());
        self.members.push(Member { stream, speaker, state, sent: 0, received, filled: 0, since });
        Ok(())
    }

    pub fn speakers(&self) -> impl Iterator<Item = &S> {
        self.members.iter().map(|member| &member.speaker)
    }

    /// How many of some members are still connected: nothing came, or something, but no end.
    pub fn alive(&self, members: impl Iterator<Item = usize>) -> usize {
        let open = |member: &Member<S>| match member.stream.peek(&mut [0]) {
            Ok(length) => length > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        members.filter(|index| open(&self.members[*index])).count()
    }

    /// Lets everybody speak until the run ends. `server` is the process whose CPU time is taken.
    pub fn run(&mut self, until: Until, server: u32) -> io::Result<Tally> {
        let mut run = Run::new(until, server);
        for member in &mut self.members {
            member.speak(&mut run);
        }
        let mut events = Events::with_capacity(1024);
        while self.members.iter().any(|member| member.state == State::Waiting) {
            self.poll.poll(&mut events, Some(PATIENCE))?;
            if events.is_empty() {
                run.tally.fail(format!("no answer for {} seconds", PATIENCE.as_secs()));
                break;
            }
            for event in &events {
                self.members[event.token().0].turn(event, &mut run);
            }
        }
        Ok(run.end())
    }
}

impl<S: Speaker> Member<S> {
    /// Starts the next request, if the run and the speaker want one.
    fn speak(&mut self, run: &mut Run) {
        if self.state == State::Gone {
            return;
        }
        self.state = State::Idle;
        if run.wants_more() && self.speaker.prepare() {
            run.started += 1;
            self.since = Instant::now();
            self.send(run);
        }
    }

    fn send(&mut self, run: &mut Run) {
        self.state = State::Waiting;
        self.sent = 0;
        self.send_rest(run);
    }

    fn send_rest(&mut self, run: &mut Run) {
        while self.sent < self.speaker.request().len() {
            match self.stream.write(&self.speaker.request()[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.leave(run, format!("cannot send: {error}")),
            }
        }
    }

    fn turn(&mut self, event: &Event, run: &mut Run) {
        if self.state != State::Waiting {
            return;
        }
        if event.is_writable() {
            self.send_rest(run);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.receive(run);
        }
    }

    /// Reads what is there. A read that leaves room has taken all of it.
    fn receive(&mut self, run: &mut Run) {
        while self.state == State::Waiting {
            if self.filled == self.received.len() {
                self.received.resize(self.filled * 2, 0);
            }
            match self.stream.read(&mut self.received[self.filled..]) {
                Ok(0) => return self.leave(run, "the server closed the connection".to_owned()),
                Ok(length) => self.filled += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.leave(run, format!("cannot receive: {error}")),
            }
            let emptied = self.filled < self.received.len();
            self.hear(run);
            if emptied {
                return;
            }
        }
    }

    fn hear(&mut self, run: &mut Run) {
        match self.speaker.hear(&self.received[..self.filled]) {
            Ok(Heard::NotYet) => (),
            Ok(Heard::Step(length)) => {
                self.forget(length);
                self.state = State::Idle;
                if self.speaker.prepare() {
                    self.send(run);
                }
            }
            Ok(Heard::Done(length)) => {
                run.count(self.since, length);
                self.forget(length);
                self.speak(run);
            }
            Ok(Heard::Wrong(length, why)) => {
                run.tally.fail(why);
                self.forget(length);
                self.speak(run);
            }
            Err(why) => self.leave(run, why),
        }
    }

    fn forget(&mut self, length: usize) {
        self.received.copy_within(length..self.filled, 0);
        self.filled -= length;
    }

    fn leave(&mut self, run: &mut Run, why: String) {
        self.state = State::Gone;
        run.tally.fail(why);
    }
}

impl Run {
    fn new(until: Until, server: u32) -> Self {
        let warm = matches!(until, Until::Seconds(warm, _) if warm > 0.0);
        Self {
            until,
            server,
            phase: if warm { Phase::Warming } else { Phase::Measuring },
            started: 0,
            phase_began: Instant::now(),
            meter: Meter::start(server),
            tally: Tally::default(),
        }
    }

    fn wants_more(&self) -> bool {
        match self.until {
            Until::Count(count) => self.started < count,
            Until::Seconds(..) => self.phase != Phase::Draining,
        }
    }

    fn count(&mut self, since: Instant, bytes: usize) {
        let now = Instant::now();
        if self.phase == Phase::Measuring {
            let nanoseconds = (now - since).as_nanos();
            self.tally.latencies.push(u32::try_from(nanoseconds).unwrap_or(u32::MAX));
            self.tally.done += 1;
            self.tally.bytes += bytes as u64;
        }
        if let Until::Seconds(warm, measured) = self.until {
            self.change_phase(now, warm, measured);
        }
    }

    fn change_phase(&mut self, now: Instant, warm: f64, measured: f64) {
        let elapsed = (now - self.phase_began).as_secs_f64();
        if self.phase == Phase::Warming && elapsed >= warm {
            self.phase = Phase::Measuring;
            self.phase_began = now;
            self.meter = Meter::start(self.server);
        } else if self.phase == Phase::Measuring && elapsed >= measured {
            self.phase = Phase::Draining;
            self.tally.usage = Some(self.meter.stop());
        }
    }

    fn end(mut self) -> Tally {
        self.tally.usage.get_or_insert_with(|| self.meter.stop());
        self.tally
    }
}
