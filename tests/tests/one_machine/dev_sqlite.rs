//! `triad dev` on SQLite, and operators' commands that open its data directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::{Accepted, Order, OrderId, Priority, ProcessState, Timestamp, WorkflowRef};
use triad_operator::counts::{counts, rates};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, Created, NewOrder, StateStore, Write, Written};
use triad_sqlite::SqliteStore;
use triad_tests::cli::{Ran, triad};
use triad_tests::clock::ManualClock;
use triad_tests::dev::Dev;
use triad_tests::engines::workflow;
use triad_tests::http::client;
use triad_tests::orders::{FULFILMENT, Files, lines, order, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_workflow::Millis;

async fn start(data: &str, further: &[&str]) -> Dev {
    Dev::start(&[&["--data", data], further].concat()).await
}

/// Runs a command that gets only the data directory.
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
    // The setting that another process has written must take effect for the agents of the running process.
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
        let said = format!("no process runs in the data directory {data}");
        assert!(nobody.err.contains(&said), "{nobody:?}");
    }
}

#[tokio::test]
async fn what_a_kill_has_left_is_seen_and_gone_on_with() {
    let count = 200;
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("durable", count)));
    let data = files.arg("state");
    // With deadlines so long that a backlog on a slow machine does not reach them.
    let patient = FULFILMENT.replace("attempt_timeout: 5s", "attempt_timeout: 30s");
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
    assert!(nobody.err.contains("no process runs"), "{nobody:?}");

    let mut again = command("triad");
    // The new process uses the existing store.
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
    // An option takes precedence over the variables, in both directions.
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
    // A variable that an earlier run on tables may have left in the terminal.
    shell.env("TRIAD_DYNAMODB_ENDPOINT", "http://127.0.0.1:1");
    let ran = shell.output().await.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    dev.interrupt();
    assert_eq!(dev.ended().await.code(), Some(130));
    let said = dev.out().join("\n");
    assert!(said.contains("triad.sqlite   (SQLite)"), "{said}");
    assert!(!said.contains("DynamoDB"), "{said}");
}

/// Stores an order that ended in 1970, with a retention of zero.
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
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details: Value::Null,
    };
    let first = Order::new(&accepted, &workflow, Timestamp(1));
    let new = NewOrder {
        order: first.clone(),
        details: Arc::new(Value::Null),
        digest: "d".into(),
        messages: Vec::new(),
    };
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let write = Write::silent(
        first.version,
        Arc::new(Order {
            version: first.version.next(),
            state: ProcessState::Processed {
                at: Timestamp(5_000),
            },
            due: None,
            ..first
        }),
        1,
    );
    assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
    let there = store.load(vec![id.clone()]).await.remove(0).unwrap();
    assert!(there.is_some(), "by the clock of 1970 it has not expired");
}

fn expired_store(data: &str) -> SqliteStore<ManualClock> {
    let dir = Path::new(data);
    let store = SqliteStore::open(dir, ManualClock::at(1), Millis(0)).unwrap();
    store.keeping_details(Some(Millis(0)))
}

#[tokio::test]
async fn what_has_expired_is_deleted_by_the_process_that_owns_the_store() {
    let files = Files::new();
    let data = files.arg("state");
    let id = OrderId::new("old").unwrap();
    store_expired(&data, &id).await;
    let _dev = start(&data, &[]).await;
    let dir = Path::new(&data);
    let guest = SqliteStore::join(dir, ManualClock::at(1), Millis(0)).unwrap();
    until("it is deleted", async || {
        // By the guest's clock the order has not expired, so it can be read until the process deletes it.
        let found = guest.load(vec![id.clone()]).await.remove(0).unwrap();
        found.is_none().then_some(())
    })
    .await;
}

/// Most comparisons of the figures until one of them finds no difference.
const LOOKS: usize = 20;

/// Compares every figure about orders with the list of all orders: on the command line, in the API, on the console,
/// and in the tool for models. `Err` describes a difference.
async fn figures_differ(dev: &Dev) -> Result<(), String> {
    let listed = dev.orders().await;
    let state = |order: &Value| match order["closed"].is_null() {
        true => order["state"].as_str().unwrap().to_owned(),
        false => "closed".to_owned(),
    };
    let mut orders = BTreeMap::new();
    for order in &listed {
        *orders.entry(state(order)).or_insert(0) += 1;
    }
    let of = |states: &[&str]| states.iter().filter_map(|s| orders.get(*s)).sum::<u64>();
    let under_way = of(&["Pending", "Processing", "Compensating"]);
    let (errors, half) = (of(&["Error"]), of(&["CompensationFailed"]));
    // Every ended order counts as one of the last minute, or this fails, as the sums do.
    let ended = listed
        .iter()
        .filter(|order| !order["finished_at"].is_null());
    let ended = ended.count() as u64;
    let same = |place: &str, told: &Value, is: u64| match *told == json!(is) {
        true => Ok(()),
        false => Err(format!("{place}: {told}, and {is} are listed")),
    };
    let by_state = |place: &str, told: &Value| {
        let told = told.as_object().into_iter().flatten();
        let told = told.filter(|(_, orders)| **orders != 0);
        let told: BTreeMap<String, u64> = told
            .map(|(state, orders)| (state.clone(), orders.as_u64().unwrap()))
            .collect();
        match told == orders {
            true => Ok(()),
            false => Err(format!("{place}: {told:?}, and {orders:?} are listed")),
        }
    };

    let status = dev
        .triad(&["status", "--json"])
        .await
        .json_lines()
        .remove(0);
    by_state("status", &status["orders"])?;
    same(
        "status, under way",
        &status["under_way"]["orders"],
        under_way,
    )?;
    same("status, needing", &status["needing"], errors + half)?;

    let root = dev.console.trim_end_matches("console/");
    let get = async |path: &str| {
        let said = client().get(format!("{root}{path}")).send().await;
        said.expect("it answers").text().await.expect("a text")
    };
    let json = async |path: &str| serde_json::from_str::<Value>(&get(path).await).expect("JSON");
    let tool = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "get_overview", "arguments": {}}});
    let said = client()
        .post(format!("{root}mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(tool.to_string())
        .send()
        .await
        .expect("it answers");
    let said: Value = serde_json::from_str(&said.text().await.expect("a text")).expect("JSON");
    let tool = said["result"]["structuredContent"].clone();
    let api = json("v1/operate/counts").await;
    for (place, told, needing) in [
        ("API", &api, &api["needing"]),
        ("tool", &tool, &tool["needing"]),
    ] {
        by_state(place, &told["orders"])?;
        same(place, &told["under_way"]["orders"], under_way)?;
        same(place, &needing[0]["orders"], errors)?;
        same(place, &needing[1]["orders"], half)?;
        for (at, within) in ["minute", "hour", "day"].iter().enumerate() {
            let rate = &told["rates"][at];
            let finished = rate["finished"].as_object().into_iter().flatten();
            let finished: u64 = finished.filter_map(|(_, n)| n.as_u64()).sum();
            same(
                &format!("{place}, finished in the {within}"),
                &finished.into(),
                ended,
            )?;
            let all = listed.len() as u64;
            same(
                &format!("{place}, submitted in the {within}"),
                &rate["submitted"],
                all,
            )?;
        }
    }
    let versions = json("v1/operate/workflows").await;
    let version = &versions["versions"][0];
    same("API, on the version", &version["under_way"], under_way)?;
    let version = &dev.triad(&["workflows", "--json"]).await.json_lines()[0];
    same("workflows", &version["under_way"], under_way)?;
    same(
        "workflows, finished",
        &version["finished"],
        listed.len() as u64 - under_way,
    )?;

    let page = get("console/").await;
    for (state, is) in [("Error", errors), ("CompensationFailed", half)] {
        let link = format!("href=\"/console/orders?state={state}\"><span class=\"figure\">");
        let tiles: Vec<&str> = page.split(&link).skip(1).collect();
        if tiles.len() != 2
            || tiles
                .iter()
                .any(|tile| !tile.starts_with(&format!("{is}<")))
        {
            return Err(format!("console, {state}: {is} are listed"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_figure_is_what_is_listed_during_an_outage_and_after_it() {
    let files = Files::new();
    let data = files.arg("data");
    let dev = start(&data, &[]).await;
    let submit = async |orders: &[Value]| {
        let text = lines(orders);
        let _ = dev
            .triad_reading(&["submit", "-"], text.as_bytes())
            .await
            .good();
    };
    // While orders run, the list and the figures may be read at different times, so the comparison is repeated.
    let agree = async |when: &str| {
        for last in (0..LOOKS).rev() {
            match figures_differ(&dev).await {
                Ok(()) => return,
                Err(why) => assert!(last > 0, "{when}: {why}"),
            }
        }
    };
    let waiting = async || {
        let status = dev
            .triad(&["status", "--json"])
            .await
            .json_lines()
            .remove(0);
        status["waiting"].as_array().unwrap().len()
    };

    let refused = json!({"notification": {"permanent": 1.0}});
    dev.services(refused).await;
    submit(&orders("refused", 5)).await;
    dev.all_finished(5).await;
    let half = json!({"carrier": {"permanent": 1.0}, "payment": {"compensation_permanent": 1.0}});
    dev.services(half).await;
    submit(&orders("half", 3)).await;
    dev.all_finished(8).await;
    let close = act(&["close", "refused-0"]);
    let _ = dev.triad(&close).await.good();
    agree("after failures").await;

    dev.services(json!({"payment": {"down": true}})).await;
    submit(&orders("down", 60)).await;
    until("orders wait for room", async || {
        (waiting().await > 0).then_some(())
    })
    .await;
    agree("during an outage").await;
    dev.services(json!({})).await;
    dev.all_finished(68).await;
    assert_eq!(waiting().await, 0, "nothing is under way");
    agree("after it").await;

    drop(dev);
    let later = SystemClock.now().plus(Millis(61_000));
    let store = Path::new(&data);
    let store = SqliteStore::join(store, ManualClock::at(later.0), Millis(60_000)).unwrap();
    let [minute, hour, _] = &rates(&store, later).await.unwrap().unwrap()[..] else {
        panic!("three of them");
    };
    assert_eq!(
        (minute.submitted, minute.all_finished(), minute.p50_ms),
        (0, 0, None)
    );
    assert_eq!((hour.submitted, hour.all_finished()), (68, 68));
    let counts = counts(&store, later).await.unwrap();
    let orders = counts.orders.unwrap();
    let told = ["Processed", "Error", "CompensationFailed", "closed"].map(|name| orders[name]);
    assert_eq!((told, counts.under_way.orders), ([60, 4, 3, 1], 0));
}
