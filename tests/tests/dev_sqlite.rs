//! `triad dev` on SQLite, and operators' commands that open its data directory themselves.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::{Accepted, Order, OrderId, Priority, ProcessState, Timestamp, WorkflowRef};
use triad_runtime::{Created, NewOrder, StateStore, Write, Written};
use triad_sqlite::SqliteStore;
use triad_tests::cli::{Ran, triad};
use triad_tests::clock::ManualClock;
use triad_tests::dev::Dev;
use triad_tests::engines::workflow;
use triad_tests::orders::{FULFILMENT, Files, lines, order, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_workflow::Millis;

async fn start(data: &str, further: &[&str]) -> Dev {
    Dev::start(&[&["--data", data], further].concat()).await
}

/// Runs a command that is told of the data directory alone.
async fn at(data: &str, command: &[&str]) -> Ran {
    triad(&[command, &["--data", data]].concat(), &[], b"").await
}

fn act<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [command, &["--by", "ann", "--why", "as agreed"]].concat()
}

async fn is_in(data: &str, id: &str, state: &str) -> Value {
    until(&format!("{id} is {state}"), async || {
        let ran = at(data, &["get", id, "--json"]).await;
        let order = (ran.code == 0).then(|| ran.json_lines()[0].clone())?;
        (order["state"] == state).then_some(order)
    })
    .await
}

#[tokio::test]
async fn a_run_without_a_directory_leaves_nothing_behind() {
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("small", 10)));
    let scratch = files.arg("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let arguments = ["dev", "--json", "--orders", &file, "--until-done"];
    let ran = triad(&arguments, &[("TMPDIR", &scratch)], b"").await;
    let said = ran.good().json_lines();
    let [first, .., last] = &said[..] else {
        panic!("fewer than two lines: {said:?}");
    };
    assert_eq!(
        (&first["store"], &first["dynamodb"]),
        (&json!("sqlite"), &Value::Null)
    );
    let data = first["triad_data"].as_str().unwrap();
    assert!(data.starts_with(&scratch), "{data}");
    assert_eq!(last["summary"]["states"], json!({"Processed": 10}));
    assert_eq!(last["summary"]["applied_twice"], 0);
    let left: Vec<_> = std::fs::read_dir(&scratch).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn operators_look_and_act_by_the_data_directory_while_it_runs_and_look_afterwards() {
    let files = Files::new();
    let data = files.arg("state");
    let mut dev = start(&data, &[]).await;
    assert_eq!(dev.data, data);
    let stop = act(&["downstreams", "--force-open", "payment"]);
    let _ = at(&data, &stop).await.good();
    let text = lines(&[order("goes-on", 1), order("is-cancelled", 2)]);
    let submit = ["submit", "-", "--data", &data];
    let _ = triad(&submit, &[], text.as_bytes()).await.good();
    // What a guest has written holds for the agents of the running process.
    until("both have come to the payment", async || {
        let listed = at(&data, &["list", "--json"]).await.good().json_lines();
        let at_payment = listed.iter().filter(|o| o["state"] == "Processing");
        (at_payment.count() == 2).then_some(())
    })
    .await;
    let downstreams = at(&data, &["downstreams", "--json"]).await.good();
    assert_eq!(downstreams.summary()["not_called"], 1, "{downstreams:?}");
    let _ = at(&data, &act(&["cancel", "is-cancelled"])).await.good();
    let release = act(&["downstreams", "--release", "payment"]);
    let _ = at(&data, &release).await.good();
    is_in(&data, "goes-on", "Processed").await;
    is_in(&data, "is-cancelled", "Compensated").await;
    let _ = at(&data, &["dead-letters", "list"]).await.good();
    let workflows = at(&data, &["workflows", "--json"]).await.good();
    assert_eq!(workflows.json_lines().len(), 1, "{workflows:?}");

    dev.process.interrupt();
    assert_eq!(dev.process.ended().await.code(), Some(130));
    assert!(!Path::new(&data).join("running.json").exists());
    let listed = at(&data, &["list", "--json"]).await.good().json_lines();
    assert_eq!(listed.len(), 2, "{listed:?}");
    for command in [
        act(&["resubmit", "is-cancelled"]),
        vec!["dead-letters", "list"],
    ] {
        let nobody = at(&data, &command).await.ended(1);
        let said = format!("nobody runs in the data directory {data}");
        assert!(nobody.err.contains(&said), "{nobody:?}");
    }
}

#[tokio::test]
async fn what_a_kill_has_left_is_seen_and_gone_on_with() {
    let count = 200;
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("durable", count)));
    let data = files.arg("state");
    // Deadlines that a backlog on a slow machine does not reach.
    let patient = FULFILMENT.replace("complete_within: 5s", "complete_within: 30s");
    let workflow = files.write("patient.yaml", &patient);
    let arguments = [
        "--orders",
        &file,
        "--workflow",
        &workflow,
        "--latency",
        "20ms",
    ];
    let mut dev = start(&data, &arguments).await;
    until(
        "some orders have finished and others have not",
        async || {
            let done = at(
                &data,
                &["list", "--json", "--state", "Processed", "--limit", "9"],
            );
            (!done.await.good().json_lines().is_empty()).then_some(())
        },
    )
    .await;
    dev.process.kill().await;
    let running = Path::new(&data).join("running.json");
    assert!(running.exists(), "it was killed");
    let all = ["list", "--json", "--limit", "0"];
    let seen = at(&data, &all).await.good().json_lines();
    assert!(!seen.is_empty());
    let nobody = at(&data, &act(&["cancel", "durable-1"])).await.ended(1);
    assert!(nobody.err.contains("nobody runs"), "{nobody:?}");

    let mut again = command("triad");
    // It goes on with the store that it has.
    again
        .args(["dev", "--json", "--until-done", "--data", &data])
        .args(arguments);
    let mut again = Process::start(again);
    let ended = again.ended().await;
    let said = again.out();
    assert_eq!(ended.code(), Some(0), "{said:?} {:?}", again.err());
    let first: Value = serde_json::from_str(&said[0]).unwrap();
    assert_eq!(first["store"], "sqlite");
    let last: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    let summary = &last["summary"];
    assert_eq!(summary["states"], json!({"Processed": count}), "{summary}");
    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["applied_twice"], 0);
    assert_eq!(summary["effects"], 5 * count);
}

#[tokio::test]
async fn a_directory_with_the_other_store_is_refused() {
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("one", 1)));
    let run = async |data: &str, further: &[&str]| {
        let arguments = ["dev", "--json", "--orders", &file, "--until-done", "--data"];
        triad(&[&arguments[..], &[data], further].concat(), &[], b"").await
    };
    for (is, other) in [("sqlite", "dynamodb"), ("dynamodb", "sqlite")] {
        let data = files.arg(is);
        let _ = run(&data, &["--store", is]).await.good();
        let refused = run(&data, &["--store", other]).await.ended(2);
        for part in [&data, &format!("of --store {is}"), "leave --store out"] {
            assert!(refused.err.contains(part), "{part} in {}", refused.err);
        }
        let again = run(&data, &[]).await.good().json_lines();
        assert_eq!(again[0]["store"], is);
        assert_eq!(again.last().unwrap()["summary"]["ended_before"], 1);
    }
    let tables = at(&files.arg("dynamodb"), &["list"]).await.ended(2);
    assert!(tables.err.contains("--dynamodb URL"), "{tables:?}");
    let new = files.arg("new");
    let port = run(&new, &["--store", "sqlite", "--dynamodb-port", "8000"]).await;
    assert!(port.ended(2).err.contains("--dynamodb-port"));
}

#[tokio::test]
async fn a_wrong_data_directory_is_named_and_two_installations_are_refused() {
    let files = Files::new();
    let none = files.arg("none");
    let refused = at(&none, &["list"]).await.ended(2);
    assert!(refused.err.contains(&none), "{refused:?}");
    assert!(!Path::new(&none).exists(), "nothing is made");
    let both = [
        ("TRIAD_DATA", none.as_str()),
        ("TRIAD_DYNAMODB_ENDPOINT", "http://127.0.0.1:1"),
    ];
    let refused = triad(&["list"], &both, b"").await.ended(2);
    assert!(
        refused
            .err
            .contains("TRIAD_DATA and TRIAD_DYNAMODB_ENDPOINT")
    );
    // The command line wins over variables, either way.
    let by_option = triad(&["list", "--data", &none], &both[1..], b"").await;
    assert!(by_option.ended(2).err.contains("has no store"));
    let other = ["list", "--dynamodb", "http://127.0.0.1:1"];
    let by_option = triad(&other, &both[..1], b"").await.ended(1);
    assert!(
        by_option.err.contains("http://127.0.0.1:1"),
        "{by_option:?}"
    );
}

#[tokio::test]
async fn a_project_says_where_its_store_is() {
    let files = Files::new();
    let dir = files.arg("trip");
    let _ = triad(&["new", &dir], &[], b"").await.good();
    let path = std::env::vars().find(|(name, _)| name == "PATH");
    let mut dev = command("triad");
    dev.args(["dev", "--project", &dir]);
    dev.envs(path.clone());
    let mut dev = Process::start(dev);
    dev.first_line().await;
    let env = Path::new(&dir).join(".triad/env");
    until("the addresses are written", async || {
        env.exists().then_some(())
    })
    .await;
    let triad = triad_tests::process::binary("triad");
    let mut shell = tokio::process::Command::new("sh");
    let script = ". .triad/env; \"$0\" submit orders.jsonl && \"$0\" list --json";
    shell.args(["-c", script]).arg(triad).current_dir(&dir);
    shell.env_clear().envs(path);
    // As an earlier run on tables has left it in a terminal.
    shell.env("TRIAD_DYNAMODB_ENDPOINT", "http://127.0.0.1:1");
    let ran = shell.output().await.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    dev.interrupt();
    assert_eq!(dev.ended().await.code(), Some(130));
    let said = dev.out().join("\n");
    assert!(said.contains("state.sqlite   (SQLite)"), "{said}");
    assert!(!said.contains("DynamoDB"), "{said}");
}

/// Stores an order that ended in 1970, and is kept for no time.
async fn store_expired(data: &str, id: &OrderId) {
    let store = expired_store(data);
    let workflow =
        workflow("workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]");
    let accepted = Accepted {
        order_id: id.clone(),
        workflow: WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        },
        priority: Priority::Normal,
        reply_topic: None,
        traceparent: None,
        submitted_at: Timestamp(1),
        due: Timestamp(1),
        deadline: None,
        search: Vec::new(),
        details: Value::Null,
    };
    let first = Order::new(&accepted, &workflow, Timestamp(1));
    let new = NewOrder {
        order: first.clone(),
        details: Arc::new(Value::Null),
        digest: "d".into(),
    };
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let write = Write {
        expected: first.version,
        next: Arc::new(Order {
            version: first.version.next(),
            state: ProcessState::Processed {
                at: Timestamp(5_000),
            },
            due: None,
            ..first
        }),
        token: 1,
    };
    assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
    let there = store.load(vec![id.clone()]).await.remove(0).unwrap();
    assert!(there.is_some(), "by the clock of 1970 it has not expired");
}

fn expired_store(data: &str) -> SqliteStore<ManualClock> {
    let dir = Path::new(data).join("store");
    let store = SqliteStore::open(&dir, ManualClock::at(1), Millis(0)).unwrap();
    store.keeping_details(Some(Millis(0)))
}

#[tokio::test]
async fn what_has_expired_is_deleted_by_the_process_that_owns_the_store() {
    let files = Files::new();
    let data = files.arg("state");
    let id = OrderId::new("old").unwrap();
    store_expired(&data, &id).await;
    let _dev = start(&data, &[]).await;
    let dir = Path::new(&data).join("store");
    let guest = SqliteStore::join(&dir, ManualClock::at(1), Millis(0)).unwrap();
    until("it is deleted", async || {
        // By this clock it has not expired: it is read as long as it is there.
        let found = guest.load(vec![id.clone()]).await.remove(0).unwrap();
        found.is_none().then_some(())
    })
    .await;
}
