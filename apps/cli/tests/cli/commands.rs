//! Tests of the commands against a running `triad dev`.

use serde_json::{Value, json};
use triad_tests::cli::triad;
use triad_tests::dev::Dev;
use triad_tests::orders::{FULFILMENT, Files, lines, order, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};

const SMALL: &str = "workflow: small
steps: [{id: only, agent: payment, action: charge, compensation: none}]
";

#[tokio::test]
async fn orders_are_submitted_from_a_file_and_from_standard_input_and_shown() {
    let dev = Dev::start(&[]).await;
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("file", 3)));
    let ran = dev.triad(&["submit", "--json", &file]).await.good();
    assert_eq!(ran.summary()["submitted"], 3);
    let one = lines(&[order("standard", 7)]);
    let ran = dev.triad_reading(&["submit", "-"], one.as_bytes()).await;
    assert_eq!(ran.good().out, "1 submitted\n");
    let urgent = lines(&[order("urgent", 8)]);
    let ran = dev.triad_reading(&["submit", "--priority", "high", "-"], urgent.as_bytes());
    let _ = ran.await.good();
    dev.all_finished(5).await;

    let text = dev.triad(&["get", "standard"]).await.good().out;
    for part in [
        "standard",
        "Processed",
        "reserve-inventory",
        "notify: completed",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let graph = dev.triad(&["get", "standard", "--graph"]).await.good().out;
    let drawn: Vec<&str> = graph
        .lines()
        .filter(|line| line.contains("completed   "))
        .collect();
    let after = drawn.iter().find(|line| line.contains("└ pack"));
    assert!(
        after.is_some_and(|line| line.contains("after charge-payment")),
        "{graph}"
    );
    let json = dev
        .triad(&["get", "urgent", "--json"])
        .await
        .good()
        .json_lines();
    let [urgent] = &json[..] else {
        panic!("one line: {json:?}");
    };
    assert_eq!(urgent["state"], "Processed");
    assert_eq!(urgent["priority"], "high");
    assert_eq!(urgent["steps"].as_array().unwrap().len(), 5);

    let list = dev.triad(&["list", "--state", "Processed", "--json"]).await;
    assert_eq!(list.good().json_lines().len(), 5);
    let list = dev.triad(&["list", "--state", "Error"]).await.good();
    assert_eq!(list.out, "no orders\n");
    let list = dev.triad(&["list", "--limit", "2"]).await.good().out;
    let cut = "2 orders shown, and there are more; --limit 0 for all\n";
    assert!(list.ends_with(cut), "{list}");
    let cut = dev.triad(&["list", "--limit", "2", "--json"]).await.good();
    assert_eq!(
        (&cut.summary()["shown"], &cut.summary()["more"]),
        (&json!(2), &json!(true))
    );
    let all = dev.triad(&["list", "--limit", "0"]).await.good().out;
    assert!(all.ends_with("5 orders\n"), "{all}");
    let all = dev.triad(&["list", "--limit", "0", "--json"]).await.good();
    assert_eq!(
        (&all.summary()["shown"], &all.summary()["more"]),
        (&json!(5), &json!(false))
    );
}

#[tokio::test]
async fn a_bad_line_submits_nothing() {
    let dev = Dev::start(&[]).await;
    let text = format!("{}{{\"order_id\": 7}}\n\n{{\n", lines(&orders("good", 2)));
    let ran = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    let err = ran.ended(2).err;
    for part in [
        "standard input:3",
        "standard input:5",
        "nothing was submitted",
    ] {
        assert!(err.contains(part), "{part} in {err}");
    }
    // Submission still works, and no order of the bad file was submitted.
    let after = lines(&[order("after", 1)]);
    let _ = dev
        .triad_reading(&["submit", "-"], after.as_bytes())
        .await
        .good();
    let found = dev.all_finished(1).await;
    assert_eq!(found[0]["order_id"], "after");
    let ran = dev.triad(&["submit", "/no/such/file"]).await.ended(2);
    assert!(ran.err.contains("/no/such/file"));
}

#[tokio::test]
async fn an_unknown_order_is_exit_code_1() {
    let dev = Dev::start(&[]).await;
    let ran = dev.triad(&["get", "nobody"]).await.ended(1);
    assert!(ran.err.contains("there is no order nobody"), "{}", ran.err);
    assert!(
        dev.triad(&["get", "a/b"])
            .await
            .ended(2)
            .err
            .contains("order id")
    );
    let ran = dev.triad(&["list", "--state", "Lost"]).await.ended(2);
    assert!(ran.err.contains("Processed"), "{}", ran.err);
}

#[tokio::test]
async fn a_published_workflow_runs_and_orders_keep_the_version_they_began_with() {
    let dev = Dev::start(&[]).await;
    let files = Files::new();
    let first = files.write("small.yaml", SMALL);
    let published = dev.triad(&["publish", &first]).await.good().out;
    let submit = async |id: &str| {
        let order = format!("{{\"order_id\": \"{id}\", \"workflow\": \"small\"}}\n");
        let _ = dev
            .triad_reading(&["submit", "-"], order.as_bytes())
            .await
            .good();
    };
    submit("1").await;
    dev.all_finished(1).await;
    let second = files.write("small.yaml", &SMALL.replace("charge", "pay"));
    let again = dev.triad(&["publish", &second]).await.good().out;
    assert_ne!(published, again);
    // Submission caches the current version for a while, so orders are submitted until the new version runs.
    let mut number = 1;
    let json = until("an order runs on the new version", async || {
        number += 1;
        submit(&number.to_string()).await;
        let all = dev.all_finished(number).await;
        all.into_iter()
            .find(|o| again.contains(o["workflow"].as_str().unwrap()))
    })
    .await;
    assert_eq!(json["state"], "Processed");
    let old = dev.triad(&["get", "1", "--json"]).await.good().json_lines();
    assert_eq!(old[0]["workflow"].as_str(), Some(published.trim()));
}

#[tokio::test]
async fn of_several_files_none_is_published_when_one_is_bad() {
    let dev = Dev::start(&[]).await;
    let files = Files::new();
    let good = files.write("small.yaml", SMALL);
    let bad = files.write("bad.yaml", "workflow: bad\nsteps: []\n");
    let ran = dev.triad(&["publish", &good, &bad]).await.ended(2);
    assert!(
        ran.err.contains("bad.yaml") && ran.out.is_empty(),
        "{ran:?}"
    );
    // With a clock skew of 1 h, the attempt's timeout is too short: the definition is refused.
    let file = files.write("fulfilment.yaml", FULFILMENT);
    let ran = dev
        .triad(&["publish", &file, "--skew", "1h"])
        .await
        .ended(2);
    assert!(ran.err.contains("attempt_timeout"), "{ran:?}");
    let _ = dev.triad(&["publish", &file]).await.good();
}

#[tokio::test]
async fn workflows_are_validated_without_anything_running() {
    let files = Files::new();
    let good = files.write("good.yaml", FULFILMENT);
    let ran = triad(&["validate", "--json", &good], &[], b"").await.good();
    assert_eq!(ran.json_lines()[0]["workflow"], "order-fulfilment");
    let bad = files.write(
        "bad.yaml",
        &FULFILMENT.replace("agent: payment", "agnet: payment"),
    );
    let worse = files.write("worse.yaml", "steps: [");
    let ran = triad(&["validate", &good, &bad, &worse], &[], b"")
        .await
        .ended(2);
    for part in ["bad.yaml", "agnet", "worse.yaml"] {
        assert!(ran.err.contains(part), "{part} in {}", ran.err);
    }
    let line = FULFILMENT
        .lines()
        .position(|l| l.contains("agent: payment"));
    let place = format!(
        "bad.yaml:{}:5: step charge-payment: agnet: unknown key",
        line.unwrap() + 1
    );
    assert!(ran.err.contains(&place), "{place} in {}", ran.err);
    assert!(
        ran.out.contains("good.yaml: order-fulfilment@"),
        "{}",
        ran.out
    );
    let ran = triad(&["validate", "--json", &bad, &good, &worse], &[], b"").await;
    let lines = ran.ended(2).json_lines();
    let of = |key: &str| lines.iter().map(|l| l[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("path"), ["agnet".into(), Value::Null, "".into()]);
    assert_eq!(
        of("line"),
        [(line.unwrap() + 1).into(), Value::Null, 1.into()]
    );
    assert_eq!(lines[0]["hint"], "did you mean `agent`?");
    assert_eq!(lines[1]["workflow"], "order-fulfilment");
    let ran = triad(
        &["publish", "--dynamodb", "http://127.0.0.1:1", &bad],
        &[],
        b"",
    )
    .await;
    assert!(ran.ended(2).err.contains(&place), "publish says the same");
    let ran = triad(&["dev", "--workflow", &bad], &[], b"").await.ended(2);
    assert!(ran.err.contains(&place), "dev says the same: {}", ran.err);
    let ran = triad(&["validate", "--agents", "inventory", &good], &[], b"")
        .await
        .ended(2);
    assert!(
        ran.err.contains("payment") && ran.err.contains("carrier"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn validate_says_what_an_order_takes_at_worst() {
    let files = Files::new();
    let text = r#"
workflow: w
order_timeout: 4m
steps:
  - {id: a, agent: x, action: go, attempt_timeout: 30s, supervisor: {failure_threshold: 1}, compensation: none}
"#;
    let file = files.write("w.yaml", text);
    let args = ["validate", "--sweep-every", "1m", &file];
    let ran = triad(&args, &[], b"").await.good();
    // The time from complete-by until two sweeps, one minute apart, have found the lost attempt.
    let detection = "2m 6s";
    for part in [
        "at worst 5m 6s until it is processed".to_owned(),
        format!("is noticed {detection} after its complete-by, with sweeps every 1m"),
        "warning: order_timeout 4m is less than the worst case".to_owned(),
    ] {
        assert!(ran.out.contains(&part), "{part} in {}", ran.out);
    }
    let short = files.write("short.yaml", &text.replace("4m", "29s"));
    let ran = triad(&["validate", &short], &[], b"").await.ended(2);
    let why = "short.yaml:3:16: order_timeout: 29s cannot hold: the steps may take 30s in one attempt each";
    assert!(ran.err.contains(why), "{}", ran.err);
}

#[tokio::test]
async fn the_schema_is_json_schema() {
    let ran = triad(&["schema"], &[], b"").await.good();
    let schema: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        schema["$schema"]
            .as_str()
            .unwrap()
            .contains("json-schema.org")
    );
    assert!(schema["properties"]["steps"].is_object());
}

#[tokio::test]
async fn every_command_helps() {
    let help = triad(&["--help"], &[], b"").await.good().out;
    // The commands are read from the help, so that the test includes new commands.
    let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    let commands = listed.take_while(|line| !line.is_empty());
    // An indented line continues the previous command's description.
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|n| !n.is_empty() && *n != "help").collect();
    assert!(names.len() >= 20, "{names:?} of {help}");
    for name in names {
        let ran = triad(&[name, "--help"], &[], b"").await.good();
        assert!(ran.out.contains("Usage:"), "{name}: {}", ran.out);
    }
}

#[tokio::test]
async fn a_store_or_broker_that_is_not_there_is_named() {
    let nobody = "127.0.0.1:1";
    let url = format!("http://{nobody}");
    let files = Files::new();
    let good = files.write("good.yaml", FULFILMENT);
    for arguments in [&["list"][..], &["get", "1"], &["publish", &good]] {
        let ran = triad(arguments, &[("TRIAD_DYNAMODB_ENDPOINT", &url)], b"").await;
        let err = ran.ended(1).err;
        assert!(err.contains(nobody), "{arguments:?}: {err}");
    }
    let one = lines(&[order("1", 1)]);
    let ran = triad(&["submit", "-", "--brokers", nobody], &[], one.as_bytes()).await;
    let err = ran.ended(1).err;
    assert!(err.contains(nobody), "{err}");
    let ran = triad(&["submit", "-"], &[], one.as_bytes()).await.ended(2);
    assert!(ran.err.contains("--brokers"), "{}", ran.err);
    let ran = triad(&["list", "--dynamodb", "localhost"], &[], b"")
        .await
        .ended(2);
    assert!(ran.err.contains("http://"), "{}", ran.err);
}

#[tokio::test]
async fn how_things_are_is_shown_again_and_again_until_somebody_ends_it() {
    let dev = Dev::start(&[]).await;
    let text = lines(&orders("good", 2));
    let submitted = dev.triad_reading(&["submit", "-"], text.as_bytes());
    let _ = submitted.await.good();
    dev.all_finished(2).await;
    let mut status = command("triad");
    status.args(["status", "--watch", "--every", "250ms", "--json"]);
    status.envs(dev.variables());
    let mut watching = Process::start(status);
    until("it was shown three times", async || {
        (watching.out().len() >= 3).then_some(())
    })
    .await;
    watching.interrupt();
    assert_eq!(
        watching.ended().await.code(),
        Some(0),
        "{:?}",
        watching.err()
    );
    for line in watching.out() {
        let line: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(line["needing"], 0);
        assert_eq!(line["orders"]["Processed"], 2, "{line}");
        let minute = &line["rates"][0];
        assert_eq!(minute["finished"], json!({"Processed": 2}), "{line}");
        assert!(minute["p50_ms"].is_number(), "{line}");
    }
    let mut status = command("triad");
    status.args(["status", "--watch"]).envs(dev.variables());
    let mut watching = Process::start(status);
    until("its rates are shown", async || {
        let shown = watching.out().join("\n");
        shown
            .contains("Last minute  2 submitted, finished: Processed 2")
            .then_some(())
    })
    .await;
    watching.interrupt();
    watching.ended().await;
    let refused = dev.triad(&["status", "--every", "1s"]).await;
    assert!(refused.ended(2).err.contains("--watch"));
}

#[tokio::test]
async fn shells_and_man_know_every_command() {
    let help = triad(&["--help"], &[], b"").await.good().out;
    let listed = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let names: Vec<&str> = listed
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|line| !line.starts_with(' '))
        })
        .filter_map(|line| line.split(' ').next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = triad(&["completions", shell], &[], b"").await.good().out;
        for name in &names {
            assert!(script.contains(name), "{name} in {shell}");
        }
    }
    let files = Files::new();
    let dir = files.arg("man");
    let _ = triad(&["man", "--out", &dir], &[], b"").await.good();
    for name in &names {
        let page = std::fs::read_to_string(format!("{dir}/triad-{name}.1"));
        let page = page.unwrap_or_else(|e| panic!("triad-{name}.1: {e}"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    let main = triad(&["man"], &[], b"").await.good().out;
    assert!(main.contains(".TH triad 1"), "{main}");
}
