//! Runs calls of a store concurrently, for contracts about races.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Barrier;

/// A call of a store that runs concurrently with others, and returns `T`.
pub type Racer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A way to run several calls concurrently: [`TakingTurns`] for a store whose calls await something, [`OnThreads`]
/// for a store whose calls never wait.
pub trait Racers: Sync {
    /// Runs all calls concurrently; returns their results in the order of `all`.
    fn at_once<T: Send + 'static>(&self, all: Vec<Racer<T>>)
    -> impl Future<Output = Vec<T>> + Send;
}

/// Runs the calls on one thread, where each continues while another waits. For the simulated world.
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

/// Runs the calls on the threads of a tokio runtime. The runtime must have several threads: on a single one,
/// calls that never wait would run one after the other.
#[derive(Debug)]
pub struct OnThreads;

impl Racers for OnThreads {
    /// # Panics
    /// If one of the calls panics.
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
