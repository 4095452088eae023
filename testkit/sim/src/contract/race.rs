//! Several at once: how a contract has calls of a store race each other.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// One that races: a call of a store.
pub type Racer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Has racers run at the same time. A store that waits for something is raced on one thread; one that
/// answers at once needs threads.
pub trait Racers: Sync {
    /// Runs all of them, and returns what came of each, in their order.
    fn at_once<T: Send + 'static>(&self, all: Vec<Racer<T>>)
    -> impl Future<Output = Vec<T>> + Send;
}

/// Racers on one thread, which take turns where they wait: those of the simulated world.
#[derive(Debug)]
pub struct TakingTurns;

impl Racers for TakingTurns {
    async fn at_once<T: Send + 'static>(&self, all: Vec<Racer<T>>) -> Vec<T> {
        let mut open: Vec<_> = all.into_iter().map(Some).collect();
        let mut ended: Vec<_> = open.iter().map(|_| None).collect();
        poll_fn(|cx| {
            for (open, ended) in open.iter_mut().zip(&mut ended) {
                if let Some(Poll::Ready(done)) = open.as_mut().map(|f| f.as_mut().poll(cx)) {
                    *ended = Some(done);
                    *open = None;
                }
            }
            match open.iter().all(Option::is_none) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        ended.into_iter().flatten().collect()
    }
}
