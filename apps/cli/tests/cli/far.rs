//! Commands at a console over HTTP say and do what they do beside the store.

use serde_json::{Value, json};
use triad_tests::cli::{Ran, triad};
use triad_tests::dev::Dev;
use triad_tests::orders::{lines, orders};

async fn at(dev: &Dev, args: &[&str]) -> Ran {
    let variables = [("TRIAD_URL", dev.console.as_str()), ("USER", "ann")];
    triad(args, &variables, b"").await
}

/// Starts `triad dev` with three orders in Error.
async fn failed() -> Dev {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    let text = lines(&orders("e", 3));
    let _ = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    dev.all_finished(3).await;
    dev
}

#[tokio::test]
async fn what_is_shown_from_far_away_is_what_is_shown_beside_the_store() {
    let dev = failed().await;
    for args in [
        &["list"][..],
        &["list", "--state", "Error", "--limit", "2", "--json"],
        &["list", "--by-cause", "--json"],
        &["list", "--search", "customer=nobody"],
        &["get", "e-1"],
        &["get", "e-1", "--inputs"],
        &["get", "e-1", "--inputs", "--json"],
        &["get", "e-1", "--graph"],
        &["get", "none"],
        &["watch", "e-1"],
        &["status"],
        &["status", "--json"],
        &["downstreams", "--json"],
        &["workflows", "--json"],
        &["campaign", "list", "--json"],
        &["campaign", "show", "c-0000000000000000"],
        &["dead-letters", "list", "--json"],
        &["dead-letters", "show", "orders/0/0"],
        &["audit", "--json"],
        &["list", "--state", "Wrong"],
        &["resubmit", "--state", "Error", "--why", "w", "--json"],
        &["close", "none", "--why", "w", "--dry-run"],
        &[
            "campaign", "start", "close", "--state", "Error", "--why", "w",
        ],
    ] {
        let (near, far) = (dev.triad(args).await, at(&dev, args).await);
        assert_eq!(far.code, near.code, "{args:?}: {far:?}, not {near:?}");
        assert_eq!(far.out, near.out, "{args:?}: {far:?}");
    }
}

#[tokio::test]
async fn what_is_done_from_far_away_is_done_and_bears_a_name() {
    let dev = failed().await;
    let closed = at(
        &dev,
        &["close", "e-0", "e-1", "--why", "by hand", "--by", "ann"],
    );
    let closed = closed.await.good().out;
    assert!(closed.contains("2 orders closed"), "{closed}");
    let shown = at(&dev, &["get", "e-0"]).await.good().out;
    assert!(shown.contains("by ann: by hand"), "{shown}");
    let paused = [
        "pause",
        "--downstream",
        "payment",
        "--why",
        "w",
        "--by",
        "ann",
    ];
    let _ = at(&dev, &paused).await.good();
    let seen = dev.triad(&["downstreams"]).await.good().out;
    assert!(seen.contains("1 not to be called"), "{seen}");
    let started = [
        "campaign", "start", "resubmit", "--state", "Error", "--yes", "--json", "--why", "w",
        "--by", "ann",
    ];
    let started = at(&dev, &started).await.good().out;
    let started: Value = serde_json::from_str(started.trim()).expect("a JSON line");
    let id = started["id"].as_str().expect("an id").to_owned();
    let stopped = at(
        &dev,
        &["campaign", "stop", &id, "--why", "w", "--by", "ann"],
    )
    .await;
    assert!(
        stopped.code <= 1 && stopped.out.contains(&id) || stopped.err.contains(&id),
        "{stopped:?}"
    );
}

#[tokio::test]
async fn a_console_that_is_away_or_no_console_is_one_sentence() {
    let away = triad(&["list", "--url", "http://127.0.0.1:1"], &[], b"")
        .await
        .ended(1);
    assert!(
        away.err.contains("127.0.0.1:1") && away.err.contains("does not answer"),
        "{away:?}"
    );
    let dev = failed().await;
    let service = format!("{}nothing/", dev.console);
    let odd = triad(&["list", "--url", &service], &[], b"").await.ended(1);
    assert!(odd.err.lines().count() == 1, "{odd:?}");
    let wrong = triad(&["list", "--url", "triad.example"], &[], b"")
        .await
        .ended(2);
    assert!(wrong.err.contains("is not a URL"), "{wrong:?}");
    let open = ["list", "--url", "http://triad.example", "--token", "t"];
    let open = triad(&open, &[], b"").await.ended(2);
    assert!(open.err.contains("is not https"), "{open:?}");
    let kafka = triad(&["submit", "-", "--url", &dev.console], &[], b"")
        .await
        .ended(2);
    assert!(kafka.err.contains("--brokers is missing"), "{kafka:?}");
}

#[tokio::test]
async fn a_token_without_a_url_and_a_command_that_needs_the_store_are_said() {
    let variables = [("TRIAD_TOKEN", "t")];
    let near = triad(&["list"], &variables, b"").await.ended(2).err;
    assert!(
        near.contains("the address of the tables is missing"),
        "{near}"
    );
    let alone = triad(&["list", "--token", "t"], &[], b"")
        .await
        .ended(2)
        .err;
    assert!(alone.contains("give --url"), "{alone}");
    let url = ["export", "--to", "unwritten", "--url", "http://127.0.0.1:9"];
    let export = triad(&url, &[], b"").await.ended(2).err;
    assert!(export.contains("works on the store itself"), "{export}");
}
