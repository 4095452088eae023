//! `triad serve` is killed repeatedly while orders are submitted, sometimes with the loss of unsynced data. Every
//! accepted order must still be there, and be carried out once.
//!
//! `TRIAD_POWER_ORDERS=100000` sets the number of orders, with 50 kills and 20 losses of power.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::sync::watch;
use triad_tests::cli::triad;
use triad_tests::http::client;
use triad_tests::ledger::Ledger;
use triad_tests::orders::{lines, order};
use triad_tests::poll::until;
use triad_tests::process::binary;
use triad_unsynced::{Lost, lose};

use crate::one_machine::serve::{Place, Serve};

/// Number of orders in a request.
const PART: usize = 20;
/// Number of concurrent clients.
const CLIENTS: usize = 8;
/// Number of steps of the workflow; each has an effect.
const STEPS: usize = 5;

/// Each wait with a time limit is for this many further effects, because all of them may take long.
const EFFECTS_AT_LEAST: u64 = 500;

/// The number of orders in this test.
#[expect(
    clippy::disallowed_methods,
    reason = "the size of a test's run is no configuration of a process"
)]
fn count() -> usize {
    let said = std::env::var("TRIAD_POWER_ORDERS").ok();
    said.map_or(600, |text| text.parse().expect("a number of orders"))
}

/// After how many accepted orders the process ends, and whether unsynced data are lost.
struct Death {
    after: usize,
    takes_power: bool,
}

/// The ends of the process at random times of a run, in order.
fn deaths(random: &mut StdRng, orders: usize) -> Vec<Death> {
    let kills = 4 + orders * 46 / 100_000;
    let losses = 4 + orders * 16 / 100_000;
    let mut kinds = [vec![false; kills], vec![true; losses]].concat();
    kinds.shuffle(random);
    let mut moments: Vec<usize> = kinds
        .iter()
        .map(|_| random.random_range(0..orders))
        .collect();
    moments.sort_unstable();
    let death = |(after, takes_power)| Death { after, takes_power };
    moments.into_iter().zip(kinds).map(death).collect()
}

/// A client that submits its orders in parts until all are accepted.
struct Client {
    next: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    /// The server's address; `None` while the server does not run.
    address: watch::Receiver<Option<String>>,
}

impl Client {
    async fn submit(mut self, count: usize) {
        loop {
            let first = self.next.fetch_add(PART, Ordering::SeqCst);
            if first >= count {
                return;
            }
            let numbers = first..count.min(first + PART);
            let mut left: Vec<Value> = numbers.map(|n| order(&format!("o-{n}"), n)).collect();
            until("a part is accepted", async || {
                let taken = self.taken(&left).await;
                left.retain(|order| !taken.contains(order["order_id"].as_str().expect("an id")));
                self.accepted.fetch_add(taken.len(), Ordering::SeqCst);
                left.is_empty().then_some(())
            })
            .await;
        }
    }

    /// Submits a part; returns the orders that were accepted, now or earlier.
    async fn taken(&mut self, orders: &[Value]) -> HashSet<String> {
        let running = self.address.wait_for(Option::is_some).await;
        let address = running.expect("the test goes on").clone().expect("it runs");
        let request = client().post(address).body(lines(orders));
        let request = request.header("content-type", "application/x-ndjson");
        let answer = match request.send().await {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        // The answer's last line may be incomplete.
        let told = answer
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.filter(|r| r["result"] == "accepted" || r["result"] == "again")
            .map(|r| r["order_id"].as_str().expect("an id").to_owned())
            .collect()
    }
}

/// Waits until this many orders are accepted; fails when their number no longer grows.
async fn accepted_are(accepted: &AtomicUsize, many: usize) {
    let mut seen = accepted.load(Ordering::SeqCst);
    while seen < many {
        seen = until("more orders are accepted", async || {
            Some(accepted.load(Ordering::SeqCst)).filter(|now| *now > seen)
        })
        .await;
    }
}

/// A place whose server loses unsynced data when it is killed.
struct Fragile {
    place: Place,
    notes: tempfile::TempDir,
}

impl Fragile {
    async fn serve(&self) -> Serve {
        let layer = binary("libtriad_unsynced_layer.so");
        let data = self.place.files.path("state");
        let variables: [(&str, &Path); 3] = [
            ("LD_PRELOAD", &layer),
            ("TRIAD_UNSYNCED_DATA", &data),
            ("TRIAD_UNSYNCED_NOTES", self.notes.path()),
        ];
        self.place.serve_with(&variables).await
    }

    fn lose_power(&self, seed: u64) -> Lost {
        let data = self.place.files.path("state");
        lose(&data, self.notes.path(), seed).expect("the files can be changed")
    }

    async fn ids_in(&self, state: &str) -> HashSet<String> {
        let data = self.place.data();
        let words = [
            "list", "--state", state, "--limit", "0", "--json", "--data", &data,
        ];
        let listed = triad(&words, &[], b"").await.good();
        let id = |line: &Value| line["order_id"].as_str().expect("an id").to_owned();
        listed.json_lines().iter().map(id).collect()
    }

    async fn under_way(&self) -> Option<u64> {
        let words = ["status", "--json", "--data", &self.place.data()];
        let said = triad(&words, &[], b"").await;
        let status: Value = serde_json::from_str(&said.out).ok()?;
        status["under_way"]["orders"].as_u64()
    }
}

#[tokio::test]
async fn what_was_accepted_is_carried_out_once_over_kills_and_losses_of_power() {
    let count = count();
    let seed = 7;
    let mut random = StdRng::seed_from_u64(seed);
    let here = Fragile {
        place: Place::new().await,
        notes: tempfile::tempdir().expect("a directory"),
    };
    let mut serve = here.serve().await;
    let (runs, address) = watch::channel(Some(serve.url("/v1/orders")));
    let (next, accepted) = (Arc::default(), Arc::<AtomicUsize>::default());
    let clients = (0..CLIENTS).map(|_| {
        let client = Client {
            next: Arc::clone(&next),
            accepted: Arc::clone(&accepted),
            address: address.clone(),
        };
        client.submit(count)
    });
    let (mut losses, mut lost) = (0, Lost::default());
    let dying = async {
        for death in deaths(&mut random, count) {
            accepted_are(&accepted, death.after).await;
            runs.send_replace(None);
            serve.process.kill().await;
            if death.takes_power {
                let found = here.lose_power(random.random());
                losses += 1;
                lost.unsynced += found.unsynced;
                lost.pages += found.pages;
            }
            serve = here.serve().await;
            runs.send_replace(Some(serve.url("/v1/orders")));
        }
    };
    tokio::join!(join_all(clients), dying);
    let effects = (count * STEPS) as u64;
    let mut wanted = 0;
    while wanted < effects {
        wanted = effects.min(wanted + EFFECTS_AT_LEAST);
        until("more steps have taken effect", async || {
            let summary = Ledger::summary(&here.place.service).await;
            (summary.total.applied >= wanted).then_some(())
        })
        .await;
    }
    until("nothing is under way", async || {
        (here.under_way().await? == 0).then_some(())
    })
    .await;
    println!(
        "{losses} losses of power, {} of {} unsynced pages lost",
        lost.pages, lost.unsynced
    );
    assert!(lost.pages > 0, "no loss of power took anything: {lost:?}");

    let processed = here.ids_in("Processed").await;
    let missing: Vec<String> = (0..count)
        .map(|n| format!("o-{n}"))
        .filter(|id| !processed.contains(id))
        .collect();
    assert!(missing.is_empty(), "not processed: {missing:?}");
    let ledger = Ledger::read(&here.place.service).await;
    ledger.assert_nothing_twice();
    let total = &ledger.summary.total;
    assert_eq!(total.applied, effects, "{total:?}");
    println!(
        "{} of {} calls were made again",
        total.calls - total.applied,
        total.calls
    );
    serve.stop().await;
}
