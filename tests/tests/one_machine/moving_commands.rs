//! `triad export`, `import` and `backup` as processes, with orders under way.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use triad_sqlite::topics::TopicSettings;
use triad_tests::cli::{Ran, triad};
use triad_tests::dev::Dev;
use triad_tests::ledger::Ledger;
use triad_tests::orders::{lines, order, orders};
use triad_tests::poll::until;

use crate::one_machine::serve::{Place, Serve};

const AGENTS: [&str; 5] = [
    "inventory",
    "payment",
    "warehouse",
    "carrier",
    "notification",
];

async fn run(args: &[&str]) -> Ran {
    triad(args, &[], b"").await
}

async fn export(data: &str, to: &str, further: &[&str]) -> Ran {
    run(&[&["export", "--json", "--data", data, "--to", to], further].concat()).await
}

async fn import(from: &str, data: &str, further: &[&str]) -> Ran {
    run(&[
        &["import", "--json", "--from", from, "--data", data],
        further,
    ]
    .concat())
    .await
}

/// Delays every call of the services by this many milliseconds.
async fn slow(place: &Place, latency: u64) {
    let plan = json!({"default": {"latency_ms": latency}});
    let answer = triad_tests::http::client()
        .put(format!("{}/_faults", place.service))
        .body(plan.to_string())
        .send();
    let answer = answer.await.expect("the reference service answers");
    assert!(answer.status().is_success(), "{answer:?}");
}

/// Submits orders and waits until one of them has ended, so that the others are under way.
async fn under_way(serve: &Serve, all: &[Value]) {
    let (status, _) = serve
        .post("/v1/orders", "application/x-ndjson", lines(all))
        .await;
    assert_eq!(status, 200);
    let ids: Vec<&str> = all.iter().filter_map(|o| o["order_id"].as_str()).collect();
    until("an order has finished", async || {
        for id in &ids[..8] {
            let order = serve.get(id).await?;
            if !order["finished_at"].is_null() {
                return Some(());
            }
        }
        None
    })
    .await;
}

async fn all_processed(serve: &Serve, all: &[Value]) {
    for order in all {
        let id = order["order_id"].as_str().expect("an id");
        assert_eq!(serve.finished(id).await["state"], "Processed", "{id}");
    }
}

/// The arguments of `triad dev` whose agents call the service of `place`.
fn dev_args(place: &Place) -> Vec<String> {
    let agent = |name| {
        let url = format!("{name}={}/{name}", place.service);
        ["--agent".to_owned(), url]
    };
    AGENTS.into_iter().flat_map(agent).collect()
}

#[tokio::test]
async fn orders_under_way_go_on_in_dynamodb_and_those_of_there_on_one_machine() {
    let place = Place::new().await;
    slow(&place, 300).await;
    let serve = place.serve().await;
    let all = orders("moved", 150);
    under_way(&serve, &all).await;
    let data = place.data();
    let file = place.files.arg("shop.jsonl");
    let refused = export(&data, &file, &[]).await.ended(2);
    assert!(refused.err.contains("stop triad serve"), "{}", refused.err);
    serve.stop().await;
    // An order that is in the broker's topic and that no handler has read.
    sent_to_nobody(&data, &order("untaken", 7)).await;

    let done = export(&data, &file, &["--move"]).await.good().summary();
    assert_eq!(done["counts"]["orders"], 150, "{done}");
    assert_eq!(
        (&done["counts"]["submissions"], &done["moved"]),
        (&json!(1), &json!(true))
    );
    assert!(done["counts"]["alive"].as_u64() > Some(0), "{done}");
    let config = place.files.arg("triad.yaml");
    let fenced = run(&["serve", "--config", &config]).await.ended(2);
    assert!(fenced.err.contains("shop.jsonl"), "{}", fenced.err);
    let into_itself = import(&file, &data, &[]).await.ended(2);
    assert!(into_itself.err.contains("new one"), "{}", into_itself.err);

    let tables = place.files.arg("tables");
    let arguments = dev_args(&place);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--data", &tables]);
    let mut dev = Dev::on_tables(&arguments).await;
    let imported = dev.triad(&["import", "--json", "--from", &file]).await;
    let imported = imported.good().summary();
    assert_eq!(imported["orders"]["new"], 150, "{imported}");
    assert!(imported["messages"].as_u64() > Some(0), "{imported}");
    dev.all_finished(151).await;
    assert_eq!(processed(&dev).await, 151);

    // Then further orders are submitted and moved back, with a kill in the middle.
    let more = orders("back", 60);
    let text = lines(&more);
    let submitted = dev.triad_reading(&["submit", "-"], text.as_bytes());
    let _ = submitted.await.good();
    until("some of them are under way", async || {
        let there = dev.orders().await;
        let open = there.iter().filter(|o| o["finished_at"].is_null()).count();
        (there.len() > 160 && open > 0).then_some(())
    })
    .await;
    dev.process.kill().await;
    let back = place.files.arg("back.jsonl");
    let done = export(&tables, &back, &["--move"]).await.good().summary();
    let orders = done["counts"]["orders"].as_u64().expect("a number");
    let submissions = done["counts"]["submissions"].as_u64().expect("a number");
    assert!(orders + submissions >= 211, "{done}");
    let home = place.files.arg("home");
    let dry = import(&back, &home, &["--dry-run"]).await.good().summary();
    assert_eq!(dry["orders"]["new"], orders);
    assert!(!Path::new(&home).exists(), "nothing was written");
    let _ = import(&back, &home, &[]).await.good();
    let again = import(&back, &home, &[]).await.good().summary();
    assert_eq!(again["orders"]["same"], orders, "{again}");
    place.configure(&json!({"data": "home"}));
    let serve = place.serve().await;
    all_processed(&serve, &all).await;
    all_processed(&serve, &more).await;
    serve.stop().await;
    let ledger = Ledger::read(&place.service).await;
    ledger.assert_nothing_twice();
    assert_eq!(ledger.summary.total.applied, 5 * 211);
}

async fn processed(dev: &Dev) -> usize {
    let orders = dev.orders().await;
    let processed = orders.iter().filter(|o| o["state"] == "Processed");
    processed.count()
}

/// Sends an order to the broker of a data directory, without running handlers.
async fn sent_to_nobody(data: &str, order: &Value) {
    let config = triad_broker::BrokerConfig {
        topics: triad_broker::TopicsIn::Directory(data.into(), TopicSettings::default()),
        auto_create_topics: false,
        ..triad_broker::BrokerConfig::default()
    };
    let broker = triad_broker::Broker::start(config).expect("the broker starts");
    let at = broker.addr().to_string();
    let variables = [("TRIAD_BROKERS", at.as_str())];
    let text = lines(std::slice::from_ref(order));
    let _ = triad(&["submit", "-"], &variables, text.as_bytes())
        .await
        .good();
    broker.shutdown().await.expect("it stops");
}

#[tokio::test]
async fn a_directory_that_was_not_imported_anywhere_goes_on() {
    let place = Place::new().await;
    let serve = place.serve().await;
    let all = orders("stays", 10);
    under_way(&serve, &all).await;
    serve.stop().await;
    let data = place.data();
    let file = place.files.arg("file.jsonl");
    let _ = export(&data, &file, &["--move"]).await.good();
    let there = export(&data, &file, &[]).await.ended(2);
    assert!(there.err.contains("is there already"), "{}", there.err);
    let moved = format!("were moved to {file}");
    let status = run(&["status", "--data", &data]).await.good();
    assert!(status.out.contains(&moved), "{}", status.out);
    let act = ["cancel", "1", "--by", "ann", "--why", "w", "--data", &data];
    let act = run(&act).await.ended(1);
    assert!(act.err.contains(&moved), "{}", act.err);
    let revert = ["export", "--revert", "--json", "--data", &data];
    assert_eq!(run(&revert).await.good().summary()["reverted"], true);
    assert_eq!(run(&revert).await.good().summary()["reverted"], false);
    let serve = place.serve().await;
    all_processed(&serve, &all).await;
    serve.stop().await;
}

#[tokio::test]
async fn a_damaged_file_is_refused_before_anything_is_written() {
    let place = Place::new().await;
    let serve = place.serve().await;
    under_way(&serve, &orders("sound", 10)).await;
    serve.stop().await;
    let file = place.files.arg("file.jsonl");
    let _ = export(&place.data(), &file, &[]).await.good();
    let text = std::fs::read_to_string(&file).expect("the file is there");
    let damaged = place
        .files
        .write("damaged.jsonl", &text.replacen("Lisboa", "Lisbon", 1));
    let cut = place.files.write("cut.jsonl", &text[..text.len() - 9]);
    let new = place.files.arg("new");
    for (file, why) in [(damaged, "is damaged"), (cut, "without its last line")] {
        let refused = import(&file, &new, &[]).await.ended(1);
        assert!(refused.err.contains(why), "{}", refused.err);
        assert!(!Path::new(&new).exists(), "nothing was written");
    }
    let none = import("no-such-file", &new, &[]).await.ended(2);
    assert!(none.err.contains("no-such-file"), "{}", none.err);
}

#[tokio::test]
async fn a_target_without_room_is_filled_once_it_has_some() {
    let place = Place::new().await;
    let serve = place.serve().await;
    let all = orders("many", 150);
    under_way(&serve, &all).await;
    all_processed(&serve, &all).await;
    serve.stop().await;
    let (file, new) = (place.files.arg("file.jsonl"), place.files.arg("new"));
    let _ = export(&place.data(), &file, &[]).await.good();
    // The limit is in blocks of 512 or 1,024 bytes, depending on the shell; either way enough for a new file, and too
    // little for 150 orders.
    let script = "trap '' XFSZ; ulimit -f 480; exec \"$0\" \"$@\"";
    let mut limited = tokio::process::Command::new("sh");
    limited.args(["-c", script]);
    limited.arg(triad_tests::process::binary("triad"));
    limited.args(["import", "--from", &file, "--data", &new]);
    let ended = limited.output().await.expect("a shell");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{err}");
    assert!(err.contains("run the command again"), "{err}");
    let done = import(&file, &new, &[]).await.good().summary();
    let of = |what: &str| done["orders"][what].as_u64().expect("a number");
    assert_eq!(of("new") + of("same"), 150, "{done}");
    assert!(of("new") > 0, "{done}");
}

#[tokio::test]
async fn a_backup_under_load_runs_to_the_end() {
    let place = Place::new().await;
    slow(&place, 1_500).await;
    let mut serve = place.serve().await;
    let all = orders("kept", 200);
    under_way(&serve, &all).await;
    let (data, copy) = (place.data(), place.files.arg("copy"));
    let backup = ["backup", "--json", "--data", &data, "--to", &copy];
    let done = run(&backup).await.good().summary();
    assert_eq!(done["counts"]["orders"], 200, "{done}");
    assert!(done["counts"]["alive"].as_u64() > Some(0), "{done}");
    let again = run(&backup).await.ended(2);
    assert!(again.err.contains("is there already"), "{}", again.err);
    for (path, mode) in [
        (copy.clone(), 0o700),
        (format!("{copy}/triad.sqlite"), 0o600),
    ] {
        let found = std::fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(found.mode() & 0o777, mode, "{path}");
    }
    // The original process is killed while it works, and the backup is used instead.
    serve.process.kill().await;
    place.configure(&json!({"data": "copy"}));
    let serve = place.serve().await;
    all_processed(&serve, &all).await;
    serve.stop().await;
    let ledger = Ledger::read(&place.service).await;
    ledger.assert_nothing_twice();
    assert_eq!(ledger.summary.total.applied, 5 * 200);
}

#[tokio::test]
async fn a_backup_is_taken_where_nobody_runs_too_and_refused_without_a_store() {
    let place = Place::new().await;
    place.configure(&json!({"partitions": 1}));
    let serve = place.serve().await;
    let all = orders("idle", 10);
    under_way(&serve, &all).await;
    let letter = letter_of(&serve, "lost-before").await;
    serve.stop().await;
    sent_to_nobody(&place.data(), &order("idle-untaken", 3)).await;
    let (data, copy) = (place.data(), place.files.arg("copy"));
    let _ = run(&["backup", "--data", &data, "--to", &copy])
        .await
        .good();
    let none = place.files.arg("none");
    let refused = run(&["backup", "--data", &none, "--to", &copy]).await;
    assert!(refused.ended(2).err.contains("this directory has no store"));
    let inside = place.files.arg("state/copy");
    let refused = run(&["backup", "--data", &data, "--to", &inside]).await;
    assert!(refused.ended(2).err.contains("is inside of --data"));
    place.configure(&json!({"data": "copy", "partitions": 1}));
    let serve = place.serve().await;
    all_processed(&serve, &all).await;
    assert_eq!(serve.finished("idle-untaken").await["state"], "Processed");
    // A letter's id contains its record's offset. The new record must have another offset than the earlier one,
    // because lists show letters with equal ids as one.
    assert_ne!(letter_of(&serve, "lost-after").await, letter);
    serve.stop().await;
}

/// Submits an order of an unknown workflow and waits for its dead letter; returns the letter's id.
async fn letter_of(serve: &Serve, id: &str) -> String {
    let mut unknown = order(id, 1);
    unknown["workflow"] = json!("gone");
    let at = [("TRIAD_BROKERS", serve.kafka.as_str())];
    let sent = triad(&["submit", "-"], &at, lines(&[unknown]).as_bytes()).await;
    let _ = sent.good();
    until("the letter is there", async || {
        let listed = triad(&["dead-letters", "list", "--json"], &at, b"").await;
        let letters = listed.good().json_lines();
        let mut letters = letters.iter().filter(|line| line["kind"] == "letter");
        let letter = letters.find(|letter| letter["key"] == id)?;
        Some(letter["id"].as_str().expect("an id").to_owned())
    })
    .await
}
