//! `triad check`, and the backups that `triad serve` makes by itself.

use std::path::Path;

use serde_json::json;
use triad_core::WorkflowRef;
use triad_runtime::DefinitionStore as _;
use triad_runtime::ports::OperatorStore as _;
use triad_runtime::system::SystemClock;
use triad_sqlite::SqliteStore;
use triad_tests::cli::{Ran, triad};
use triad_tests::http::client;
use triad_tests::orders::{lines, order, orders};
use triad_tests::poll::until;
use triad_workflow::Millis;

use super::serve::Place;

/// Names of the directories in a directory, in their order.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}

async fn check(data: &str) -> Ran {
    triad(&["check", "--json", "--data", data], &[], b"").await
}

#[tokio::test]
async fn serve_backs_up_on_its_schedule_and_keeps_the_newest_which_are_sound() {
    let place = Place::new().await;
    place.configure(&json!({"backup": {"to": "copies", "every": "1s", "keep": 2}}));
    let copies = place.files.path("copies");
    std::fs::create_dir_all(copies.join("mine")).expect("a directory");
    std::fs::create_dir_all(copies.join(".triad-serve-left")).expect("a directory");
    let serve = place.serve().await;
    assert_eq!(serve.submit(&order("kept", 1)).await.0, 201);
    let is_copy = |name: &String| name.starts_with("20");
    let first = until("there are two copies", async || {
        let copies: Vec<String> = names(&copies).into_iter().filter(is_copy).collect();
        (copies.len() == 2).then(|| copies[0].clone())
    })
    .await;
    until("the oldest is deleted", async || {
        (!copies.join(&first).exists()).then_some(())
    })
    .await;
    assert!(copies.join("mine").exists() && !copies.join(".triad-serve-left").exists());
    serve.stop().await;
    let left: Vec<String> = names(&copies).into_iter().filter(is_copy).collect();
    assert!((2..=3).contains(&left.len()), "{left:?}");
    let newest = format!("copies/{}", left.last().expect("a copy"));
    let sound = check(&place.files.arg(&newest)).await.good().summary();
    assert_eq!(
        (&sound["orders"], &sound["damaged"]),
        (&json!(1), &json!(0))
    );
    place.configure(&json!({"data": newest}));
    let serve = place.serve().await;
    assert_eq!(serve.finished("kept").await["state"], "Processed");
    serve.stop().await;
}

#[tokio::test]
async fn a_backup_that_fails_is_logged_and_counted_and_orders_go_on() {
    let place = Place::new().await;
    place.files.write("copies", "no directory");
    place.configure(&json!({"metrics": "127.0.0.1:0", "backup": {"to": "copies", "every": "1s"}}));
    let serve = place.serve().await;
    let line = serve.process.err_line("no good backup").await;
    assert!(line.contains("copies") && line.contains("mend"), "{line}");
    assert_eq!(serve.submit(&order("on", 1)).await.0, 201);
    let metrics = serve.process.err_line("\"metrics\"").await;
    let metrics: serde_json::Value = serde_json::from_str(&metrics).expect("the log is JSON");
    let metrics = metrics["fields"]["address"].as_str().expect("an address");
    let sample = async |name: &str| {
        let text = client().get(format!("http://{metrics}/metrics")).send();
        let text = text.await.ok()?.text().await.ok()?;
        let of_it = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")))?;
        of_it.parse::<f64>().ok()
    };
    until("it is counted", async || {
        sample("triad_backups_failed_total")
            .await
            .filter(|n| *n > 0.0)
    })
    .await;
    assert_eq!(
        sample("triad_last_backup_timestamp_seconds").await,
        Some(0.0)
    );
    for name in [
        "triad_disk_free_bytes",
        "triad_store_file_bytes",
        "triad_store_wal_bytes",
    ] {
        until(name, async || sample(name).await.filter(|n| *n > 0.0)).await;
    }
    assert_eq!(sample("triad_write_groups_failed_total").await, Some(0.0));
    std::fs::remove_file(place.files.path("copies")).expect("a file");
    until("the next one is good", async || {
        sample("triad_last_backup_timestamp_seconds")
            .await
            .filter(|at| *at > 1e9)
    })
    .await;
    serve.stop().await;
    for (wrong, name) in [
        (json!({"to": "state/copies"}), "TRIAD_BACKUP_TO"),
        (json!({"to": "c", "every": "0s"}), "TRIAD_BACKUP_EVERY"),
        (json!({"to": "c", "keep": 0}), "TRIAD_BACKUP_KEEP"),
    ] {
        let config = place.configure(&json!({"backup": wrong}));
        let ran = triad(&["serve", "--config", &config], &[], b"")
            .await
            .ended(2);
        assert!(ran.err.contains(name), "{}", ran.err);
    }
}

/// Removes every workflow that is stored, and puts another one in its place.
async fn lose_definitions(data: &Path) {
    let store = SqliteStore::open(data, SystemClock, Millis(1_000)).expect("a store");
    for version in store.versions().await.expect("the versions") {
        let name = version.definition.name.clone();
        let hash = "0123456789abcdef";
        let other = WorkflowRef {
            name,
            hash: hash.parse().expect("a hash"),
        };
        store
            .publish(other, "{}".into())
            .await
            .expect("it is published");
        store
            .remove(version.definition)
            .await
            .expect("it is removed");
    }
}

#[tokio::test]
async fn a_check_reads_everything_and_names_what_is_damaged() {
    let place = Place::new().await;
    let plan = json!({"default": {"latency_ms": 1_500}});
    let slow = client()
        .put(format!("{}/_faults", place.service))
        .body(plan.to_string());
    assert!(slow.send().await.expect("it answers").status().is_success());
    let serve = place.serve().await;
    let mut all = orders("sound", 20);
    let mut marked = order("marked", 21);
    marked["details"]["note"] = json!("a note that is not changed");
    all.push(marked);
    let sent = serve
        .post("/v1/orders", "application/x-ndjson", lines(&all))
        .await;
    assert_eq!(sent.0, 200);
    let data = place.data();
    let sound = check(&data).await.good().summary();
    assert_eq!(
        (&sound["orders"], &sound["damaged"]),
        (&json!(21), &json!(0)),
        "beside a process"
    );
    serve.stop().await;
    let before = std::fs::read(place.files.path("state/triad.sqlite")).expect("a file");
    let sound = check(&data).await.good().summary();
    assert!(sound["alive"].as_u64() > Some(0), "{sound}");
    assert_eq!(sound["alive"], sound["drivable"], "{sound}");
    let file = std::fs::read(place.files.path("state/triad.sqlite")).expect("a file");
    assert!(before == file, "nothing is written");

    let changed = String::from("a note that was changed!!!");
    let note = b"a note that is not changed";
    let at = file.windows(note.len()).position(|part| part == note);
    let mut damaged = file.clone();
    damaged[at.expect("it is stored as text")..][..note.len()].copy_from_slice(changed.as_bytes());
    std::fs::write(place.files.path("state/triad.sqlite"), &damaged).expect("a file");
    let found = check(&data).await.ended(1);
    let lines = found.json_lines();
    let named: Vec<_> = lines
        .iter()
        .filter(|line| line["kind"] == "damaged")
        .collect();
    assert!(named.len() == 1 && named[0]["of"] == "marked", "{lines:?}");
    assert_eq!(found.summary()["damaged"], 1, "{lines:?}");
    let text = triad(&["check", "--data", &data], &[], b"").await.ended(1);
    assert!(
        text.err.contains("marked: the stored details"),
        "{}",
        text.err
    );

    // The workflow of the alive orders is gone.
    std::fs::write(place.files.path("state/triad.sqlite"), &file).expect("a file");
    lose_definitions(&place.files.path("state")).await;
    let found = check(&data).await.ended(1);
    let summary = found.summary();
    assert_eq!(
        (&summary["drivable"], &summary["damaged"]),
        (&json!(0), &sound["alive"])
    );
    assert!(found.json_lines()[0]["of"].is_string(), "{}", found.out);

    // A page of zeros in the middle of the file.
    let middle = file.len() / 2 / 4_096 * 4_096;
    let mut torn = file;
    torn[middle..middle + 4_096].fill(0);
    std::fs::write(place.files.path("state/triad.sqlite"), &torn).expect("a file");
    let found = triad(&["check", "--data", &data], &[], b"").await.ended(1);
    assert!(!found.err.is_empty());
    let none = triad(&["check", "--data", &place.files.arg("flows")], &[], b"")
        .await
        .ended(2);
    assert!(none.err.contains("has no store"), "{}", none.err);
}
