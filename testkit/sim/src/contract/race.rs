//! Several at once: how a contract has calls of a store race each other.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Barrier;

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

/// Racers on the threads of a tokio runtime, of which there must be several: a store that answers without
/// waiting would be raced by one after the other on a single one.
#[derive(Debug)]
pub struct OnThreads;

impl Racers for OnThreads {
    /// # Panics
    /// If a racer does.
    async fn at_once<T: Send + 'static>(&self, all: Vec<Racer<T>>) -> Vec<T> {
        let start = Arc::new(Barrier::new(all.len()));
        let racers = all.into_iter().map(|racer| {
            let start = start.clone();
            tokio::spawn(async move {
                start.wait().await;
                racer.await
            })
        });
        let racers: Vec<_> = racers.collect();
        let mut ended = Vec::with_capacity(racers.len());
        for racer in racers {
            ended.push(racer.await.expect("it does not panic"));
        }
        ended
    }
}
