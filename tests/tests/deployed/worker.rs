//! `triad-worker` as separate processes, two of each kind, with one broker and the same tables.

use std::net::TcpListener;

use triad_reference_service::{FaultPlan, Faults};
use triad_tests::cli::triad;
use triad_tests::engines::Engines;
use triad_tests::orders::{FULFILMENT, order, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_tests::topics::{Raw, write};

const KINDS: [&str; 3] = ["submission,scheduler", "agent", "supervisor"];

fn worker(engines: &Engines, brokers: &str, functions: &str) -> Process {
    let mut command = command("triad-worker");
    command
        .args(["--sweep-every", "500ms", "--functions", functions])
        .envs(engines.variables(brokers));
    Process::start(command)
}

async fn submit(brokers: &str, count: usize) {
    let raw = |order: serde_json::Value| Raw {
        topic: "orders".to_owned(),
        value: Some(order.to_string().into_bytes()),
        ..Raw::default()
    };
    let all: Vec<Raw> = orders("worked", count).into_iter().map(raw).collect();
    write(brokers, &all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_finish_every_order_though_one_is_killed() {
    let count = 100;
    let faults = Faults {
        default: FaultPlan {
            latency_ms: 100,
            ..FaultPlan::default()
        },
        ..Faults::default()
    };
    let engines = Engines::start(FULFILMENT, faults).await;
    let brokers = engines.brokers();
    let mut workers: Vec<Process> = KINDS
        .iter()
        .flat_map(|kind| [kind, kind])
        .map(|kind| worker(&engines, &brokers, kind))
        .collect();
    submit(&brokers, count).await;
    for (victim, kind) in [(0, KINDS[0]), (2, KINDS[1])] {
        let before = engines.count("Processed").await;
        until("some more orders have finished", async || {
            let done = engines.count("Processed").await;
            (done > before || done == count).then_some(())
        })
        .await;
        assert!(
            engines.count("Processed").await < count,
            "killed in the middle"
        );
        workers[victim].kill().await;
        workers[victim] = worker(&engines, &brokers, kind);
    }
    engines.all_in("Processed", count).await;
    let ledger = engines.ledger().await;
    ledger.assert_nothing_twice();
    assert_eq!(ledger.summary.total.applied, 5 * count as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_waits_for_a_broker_and_says_so() {
    let mut engines = Engines::without_broker(FULFILMENT, Faults::default()).await;
    // Bound only to find a free port, and closed.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let brokers = addr.to_string();
    let all = worker(&engines, &brokers, "submission,scheduler,agent,supervisor");
    let said = all.err_line("no Kafka broker answers").await;
    assert!(said.contains(&brokers), "{said}");
    engines.start_broker(addr).await;
    submit(&brokers, 3).await;
    engines.all_in("Processed", 3).await;
    engines.ledger().await.assert_nothing_twice();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_share_a_breaker_and_go_on_when_the_service_is_back() {
    let down = FaultPlan {
        down: true,
        ..FaultPlan::default()
    };
    let faults = Faults {
        services: [("payment".to_owned(), down)].into(),
        ..Faults::default()
    };
    let engines = Engines::start(FULFILMENT, faults).await;
    let brokers = engines.brokers();
    let _workers: Vec<Process> = KINDS
        .iter()
        .chain(["agent"].iter())
        .map(|kind| worker(&engines, &brokers, kind))
        .collect();
    submit(&brokers, 20).await;
    // Orders that called the service before its breaker opened fail once and are then deferred. The others are
    // deferred at once, or not started while the breaker is open.
    until("every order waits for the service", async || {
        let (mut deferred, mut unstarted) = (0, 0);
        for n in 0..20 {
            let Some(order) = engines.record(&format!("worked-{n}")).await else {
                continue;
            };
            deferred += usize::from(order.steps[1].state.deferred_since().is_some());
            unstarted += usize::from(order.sequence == 1);
        }
        (deferred >= 1 && deferred + unstarted == 20).then_some(())
    })
    .await;
    engines.set_faults(Faults::default());
    engines.all_in("Processed", 20).await;
    engines.ledger().await.assert_nothing_twice();
}

/// Ids with every allowed character, at the beginning and later, an id of the greatest length, and pairs that would
/// be equal after a change of case or trimming.
fn ids_of_the_whole_alphabet() -> Vec<String> {
    let firsts = ('a'..='z').chain('A'..='Z').chain('0'..='9');
    let all: Vec<char> = firsts.clone().chain("-_.~:@=,".chars()).collect();
    let mut ids: Vec<String> = firsts.map(|first| first.to_string()).collect();
    ids.extend("-_.~:@=,".chars().map(|last| format!("a{last}")));
    ids.extend("-_.~:@=,".chars().map(|last| format!("a{last}{last}")));
    ids.extend(
        all.chunks(10)
            .map(|part| format!("x{}", part.iter().collect::<String>())),
    );
    ids.push("9".repeat(128));
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_the_same_in_topics_tables_headers_and_commands() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let brokers = engines.brokers();
    let _all = worker(&engines, &brokers, "submission,scheduler,agent,supervisor");
    let ids = ids_of_the_whole_alphabet();
    let records: Vec<Raw> = ids
        .iter()
        .map(|id| Raw {
            topic: "orders".to_owned(),
            key: Some(id.clone().into_bytes()),
            value: Some(order(id, 1).to_string().into_bytes()),
            ..Raw::default()
        })
        .collect();
    write(&brokers, &records).await;
    engines.all_in("Processed", ids.len()).await;
    assert_eq!(engines.ids().await, ids.iter().cloned().collect());
    // Every id has its own effects.
    let ledger = engines.ledger().await;
    ledger.assert_nothing_twice();
    assert_eq!(ledger.summary.total.applied, 5 * ids.len() as u64);
    let variables = engines.variables(&brokers);
    let variables: Vec<(&str, &str)> = variables.iter().map(|(k, v)| (*k, v.as_str())).collect();
    for id in ids.iter().rev().take(20) {
        let got = triad(&["get", id, "--json"], &variables, b"").await.good();
        assert_eq!(got.json_lines()[0]["order_id"], id.as_str());
    }
}
