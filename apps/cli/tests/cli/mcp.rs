//! `triad mcp` over standard input and output, beside a running `triad dev`.

use serde_json::{Value, json};
use triad_tests::dev::Dev;
use triad_tests::mcp::Mcp;
use triad_tests::orders::{lines, orders};
use triad_tests::poll::until;

/// Starts `triad dev` with `count` orders in Error.
async fn failed(count: usize) -> Dev {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    let text = lines(&orders("e", count));
    let _ = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    dev.all_finished(count).await;
    dev
}

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["result"]["tools"].as_array().expect("tools");
    tools.iter().filter_map(|t| t["name"].as_str()).collect()
}

#[tokio::test]
async fn a_model_looks_at_an_installation_and_is_offered_no_act() {
    let dev = failed(1).await;
    let mut talk = Mcp::start(&dev, &[]).await;
    let listed = talk.ask("tools/list", json!({})).await;
    let names = names(&listed);
    assert!(
        names.contains(&"get_overview") && !names.contains(&"act"),
        "{names:?}"
    );
    assert!(talk.ask("ping", json!({})).await["result"].is_object());
    let seen = talk
        .call("get_overview", json!({}))
        .await
        .expect("it answers");
    assert_eq!(
        seen["causes"]["causes"][0]["cause"], "permanent/notify/declined",
        "{seen}"
    );
    let page = talk.call("read_docs", json!({"page": "run-on-aws"})).await;
    let page = page.expect("it is built in");
    assert!(
        page["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("# "))
    );
    let act = json!({"on": "orders", "act": "close", "orders": ["e-0"], "why": "w"});
    let refused = talk.call("dry_run", act).await.expect_err("it is refused");
    assert_eq!(refused["code"], "acts-not-allowed");
    let ended = talk.end().await;
    assert!(ended.status.success() && ended.out.is_empty(), "{ended:?}");
}

#[tokio::test]
async fn what_a_model_does_is_kept_under_the_name_that_it_was_started_with() {
    let dev = failed(2).await;
    let mut talk = Mcp::start(&dev, &["--allow-acts", "--by", "model of ann"]).await;
    let act =
        json!({"on": "orders", "act": "close", "filter": {"state": "Error"}, "why": "a drill"});
    let tried = talk
        .call("dry_run", act.clone())
        .await
        .expect("it is tried");
    assert_eq!(
        (&tried["done"], &tried["by"]),
        (&json!(2), &json!("model of ann"))
    );
    let mut other = act;
    other["by"] = "ann".into();
    let refused = talk
        .call("dry_run", other)
        .await
        .expect_err("not under another name");
    assert_eq!(refused["code"], "bad-by");
    let done = talk.call("act", json!({"dry_run": tried["dry_run"]})).await;
    assert_eq!(done.expect("it is done")["done"], 2);
    let said = dev.triad(&["get", "e-1"]).await.good().out;
    assert!(said.contains("by model of ann: a drill"), "{said}");
    assert!(talk.end().await.status.success());
}

#[tokio::test]
async fn a_campaign_is_tried_started_and_watched_to_its_end() {
    let dev = failed(4).await;
    dev.services(json!({"notification": {"permanent": 0.0}}))
        .await;
    let mut talk = Mcp::start(&dev, &["--allow-acts", "--by", "model of ann"]).await;
    let start = json!({"on": "campaigns", "act": "resubmit", "filter": {"state": "Error"},
        "why": "it is mended", "rate": 100});
    let tried = talk.call("dry_run", start).await.expect("it is tried");
    assert_eq!(
        (&tried["orders"], &tried["more"]),
        (&json!(4), &json!(false)),
        "{tried}"
    );
    let none = talk.call("list_campaigns", json!({})).await;
    assert_eq!(
        none.expect("it answers")["campaigns"],
        json!([]),
        "nothing is started"
    );
    let started = talk.call("act", json!({"dry_run": tried["dry_run"]})).await;
    let started = started.expect("it is started");
    let id = started["id"].as_str().expect("an id").to_owned();
    let one = json!({"id": id});
    let seen = until("the campaign ends", async || {
        let seen = talk
            .call("get_campaign", one.clone())
            .await
            .expect("it answers");
        seen["end"].is_string().then_some(seen)
    })
    .await;
    assert_eq!(
        (&seen["end"], &seen["orders"]["well"]),
        (&json!("finished"), &json!(4)),
        "{seen}"
    );
    assert_eq!(seen["by"], "model of ann", "{seen}");
    let batch = talk
        .call("get_campaign_batch", json!({"id": id, "batch": 2}))
        .await;
    let batch = batch.expect("it answers");
    assert_eq!(batch["orders"].as_array().map(Vec::len), Some(2), "{batch}");
    // Stopping a finished campaign is refused, and so is an act with an unknown name.
    let stop = json!({"on": "campaigns", "act": "stop", "campaign": id, "why": "enough"});
    let tried = talk.call("dry_run", stop).await.expect("it is tried");
    assert_eq!(tried["end"], "finished", "{tried}");
    let refused = talk.call("act", json!({"dry_run": tried["dry_run"]})).await;
    assert_eq!(refused.expect_err("it is over")["code"], "campaign");
    let odd = json!({"on": "campaigns", "act": "close", "campaign": id, "why": "enough"});
    let refused = talk.call("dry_run", odd).await.expect_err("it is refused");
    assert_eq!(refused["code"], "bad-act");
    assert!(talk.end().await.status.success());
}
