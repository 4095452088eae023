//! A clock that only the test moves.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use triad_core::Timestamp;
use triad_runtime::Clock;
use triad_workflow::Millis;

/// A clock that stands still until the test moves it. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    now: u64,
    next: u64,
    sleepers: BTreeMap<u64, (u64, Option<Waker>)>,
}

impl ManualClock {
    /// A clock at a moment.
    #[must_use]
    pub fn at(now: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            now,
            next: 0,
            sleepers: BTreeMap::new(),
        })))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the clock, and wakes the sleeps that are over.
    pub fn advance(&self, span: Millis) {
        let mut inner = self.lock();
        inner.now += span.0;
        let now = inner.now;
        for (until, waker) in inner.sleepers.values_mut() {
            if *until <= now
                && let Some(waker) = waker.take()
            {
                waker.wake();
            }
        }
    }

    /// Number of pending sleeps of at most this span.
    #[must_use]
    pub fn sleepers(&self, at_most: Millis) -> usize {
        let inner = self.lock();
        let by = inner.now + at_most.0;
        inner.sleepers.values().filter(|(u, _)| *u <= by).count()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.lock().now)
    }

    fn sleep(&self, span: Millis) -> impl Future<Output = ()> + Send {
        let mut inner = self.lock();
        let (id, until) = (inner.next, inner.now + span.0);
        inner.next += 1;
        inner.sleepers.insert(id, (until, None));
        Sleep {
            clock: self.clone(),
            id,
        }
    }
}

struct Sleep {
    clock: ManualClock,
    id: u64,
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.clock.lock();
        let now = inner.now;
        match inner.sleepers.get_mut(&self.id) {
            Some((until, waker)) if *until > now => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.id);
    }
}
