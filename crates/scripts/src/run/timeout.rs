//! Timeouts of scripts: they stand still while a user is asked, and progress extends them.

use std::{
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard},
    time::{Duration, SystemTime},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use zcp::wire::sync::lock;

/// Times that no clock can tell are as long as this.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long a script may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) time: Duration,
    /// A sign of progress begins the time anew, up to this in all.
    pub(crate) with_progress: Option<Duration>,
}

/// Which timeout a script exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// Its time was up.
    Fixed(Duration),
    /// There was no progress for so long.
    Idle(Duration),
    /// Progress or not, this was all it could have.
    Most(Duration),
}

/// The clock of one run.
#[derive(Debug)]
pub(crate) struct Timer {
    allowed: Allowed,
    /// What a script touches to show that it goes on.
    touched: Option<OwnedFd>,
    clock: Mutex<Clock>,
    changed: Notify,
}

#[derive(Debug)]
struct Clock {
    begun: Instant,
    progressed: Instant,
    /// Since when a person thinks.
    asked: Option<Instant>,
}

impl Timer {
    pub(crate) fn new(allowed: Allowed, touched: Option<OwnedFd>) -> Self {
        let now = Instant::now();
        let clock = Mutex::new(Clock { begun: now, progressed: now, asked: None });
        Self { allowed, touched, clock, changed: Notify::new() }
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        lock(&self.clock)
    }

    pub(crate) fn progressed(&self) {
        self.clock().progressed = Instant::now();
    }

    /// The time stands still until it is answered.
    pub(crate) fn asked(&self) {
        self.clock().asked = Some(Instant::now());
        self.changed.notify_one();
    }

    pub(crate) fn answered(&self) {
        let mut clock = self.clock();
        if let Some(asked) = clock.asked.take() {
            clock.begun += asked.elapsed();
            clock.progressed += asked.elapsed();
        }
        self.changed.notify_one();
    }

    /// When something was last written for the server, or what it is written to was touched.
    fn touched(&self) -> Option<Instant> {
        let about = rustix::fs::fstat(self.touched.as_ref()?).ok()?;
        let at = SystemTime::UNIX_EPOCH
            + Duration::new(about.st_mtime.try_into().ok()?, about.st_mtime_nsec.try_into().ok()?);
        Instant::now().checked_sub(at.elapsed().ok()?)
    }

    fn deadline(&self) -> Option<(Instant, Late)> {
        let mut clock = self.clock();
        if clock.asked.is_some() {
            return None;
        }
        if self.allowed.with_progress.is_some() {
            clock.progressed = self.touched().unwrap_or(clock.progressed).max(clock.progressed);
        }
        let time = self.allowed.time;
        let idle = after(clock.progressed, time);
        Some(match self.allowed.with_progress.map(|most| (most, after(clock.begun, most))) {
            None => (after(clock.begun, time), Late::Fixed(time)),
            Some((most, end)) if idle > end => (end, Late::Most(most)),
            Some(_) => (idle, Late::Idle(time)),
        })
    }

    /// Waits until the script has exceeded its timeout.
    pub(crate) async fn over(&self) -> Late {
        loop {
            let Some((deadline, late)) = self.deadline() else {
                self.changed.notified().await;
                continue;
            };
            if deadline <= Instant::now() {
                return late;
            }
            tokio::select! {
                () = sleep_until(deadline) => (),
                () = self.changed.notified() => (),
            }
        }
    }
}

/// A time after another, as far as clocks go.
fn after(begun: Instant, time: Duration) -> Instant {
    begun.checked_add(time).unwrap_or_else(|| begun + FOR_EVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, sleep};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn progress_begins_the_time_anew_up_to_the_most() {
        let allowed = Allowed { time: SECOND * 2, with_progress: Some(SECOND * 5) };
        let timer = Timer::new(allowed, None);
        let begun = Instant::now();
        let progress = async {
            loop {
                sleep(SECOND).await;
                timer.progressed();
            }
        };
        let late = tokio::select! { late = timer.over() => late, () = progress => unreachable!() };
        assert_eq!((late, begun.elapsed()), (Late::Most(SECOND * 5), SECOND * 5));
        let timer = Timer::new(allowed, None);
        assert_eq!(timer.over().await, Late::Idle(SECOND * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_time_is_longer_than_a_clock() {
        for with_progress in [None, Some(Duration::MAX)] {
            let timer = Timer::new(Allowed { time: Duration::MAX, with_progress }, None);
            assert!(timer.deadline().is_some_and(|(end, _)| end > Instant::now()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_may_think() {
        let timer = Timer::new(Allowed { time: SECOND * 2, with_progress: None }, None);
        let begun = Instant::now();
        advance(SECOND).await;
        let thinking = async {
            timer.asked();
            sleep(SECOND * 100).await;
            timer.answered();
            std::future::pending::<()>().await;
        };
        let late = tokio::select! { late = timer.over() => late, () = thinking => unreachable!() };
        assert_eq!((late, begun.elapsed()), (Late::Fixed(SECOND * 2), SECOND * 102));
    }
}
