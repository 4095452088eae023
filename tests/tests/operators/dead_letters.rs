//! Listing, showing and replaying dead letters of a running `triad dev`.

use serde_json::{Value, json};
use triad_tests::cli::triad;
use triad_tests::dev::Dev;
use triad_tests::orders::{Files, order};
use triad_tests::topics::{Raw, header, read_all, read_until, write};

const LATE: &str = "workflow: late
steps: [{id: only, agent: payment, action: charge, compensation: none}]
";

const WHY: [&str; 4] = ["--by", "ops", "--why", "it is fixed"];

fn orders_record(key: &str, value: &[u8]) -> Raw {
    Raw {
        topic: "orders".to_owned(),
        key: Some(key.as_bytes().to_vec()),
        value: Some(value.to_vec()),
        headers: vec![
            ("traceparent".to_owned(), Some(b"00-1".to_vec())),
            ("triad-topic".to_owned(), Some(b"elsewhere".to_vec())),
        ],
    }
}

/// Writes records that become dead letters; returns the letters' ids.
async fn poison(dev: &Dev, records: &[Raw]) -> Vec<String> {
    let before = read_all(&dev.kafka, &["dead-letter"]).await.len();
    let places = write(&dev.kafka, records).await;
    let all = before + records.len();
    read_until(&dev.kafka, &["dead-letter"], |r| r.len() >= all).await;
    let id = |(topic, partition, offset)| format!("{topic}/{partition}/{offset}");
    places.into_iter().map(id).collect()
}

async fn replay(dev: &Dev, arguments: &[&str]) -> triad_tests::cli::Ran {
    let all = [&["dead-letters", "replay"][..], arguments, &WHY].concat();
    dev.triad(&all).await
}

async fn list(dev: &Dev, arguments: &[&str]) -> Vec<Value> {
    let all = [&["dead-letters", "list", "--json"][..], arguments].concat();
    dev.triad(&all).await.good().json_lines()
}

/// The causes of all letters.
async fn causes(dev: &Dev) -> Vec<Value> {
    let mut listed = list(dev, &["--limit", "0"]).await;
    listed.retain(|line| line["kind"] == "cause");
    listed
}

/// Number of records in all partitions of a topic.
async fn count(dev: &Dev, topic: &str) -> usize {
    read_all(&dev.kafka, &[topic]).await.len()
}

#[tokio::test]
async fn a_poison_record_is_listed_shown_corrected_and_replayed_once() {
    let dev = Dev::start(&[]).await;
    let sound = order("poison", 3).to_string();
    let broken = &sound[..sound.len() - 1];
    let ids = poison(&dev, &[orders_record("poison", broken.as_bytes())]).await;
    let id = ids[0].as_str();

    let listed = list(&dev, &[]).await;
    let [cause, letter] = &listed[..] else {
        panic!("a cause and a letter: {listed:?}")
    };
    assert_eq!(
        (&cause["kind"], &cause["letters"]),
        (&json!("cause"), &json!(1))
    );
    assert_eq!(
        (&cause["cause"], &cause["replayed"]),
        (&json!("not-json"), &json!(0))
    );
    assert_eq!(
        (&letter["kind"], &letter["id"]),
        (&json!("letter"), &json!(id))
    );
    assert_eq!(
        (&letter["key"], &letter["replayed_at"]),
        (&json!("poison"), &Value::Null)
    );
    let ran = dev.triad(&["dead-letters", "list"]).await.good();
    assert!(ran.err.is_empty(), "{}", ran.err);
    let table = ran.out;
    assert!(table.contains("not-json") && table.contains(id), "{table}");

    let shown = dev.triad(&["dead-letters", "show", id]).await.good().out;
    for part in [
        id,
        "not-json",
        "traceparent: 00-1",
        "triad-topic: elsewhere",
        "not JSON",
        broken,
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let value = dev
        .triad(&["dead-letters", "show", id, "--value"])
        .await
        .good()
        .out;
    assert_eq!(value, broken);

    let files = Files::new();
    let file = files.write("fixed.json", &sound);
    let ran = replay(&dev, &[id, "--value", &file]).await.good();
    assert_eq!(
        ran.out,
        format!("{id}  replayed\n1 replayed, 0 replayed before, 0 failed\n")
    );
    let ended = dev.all_finished(1).await;
    assert_eq!(ended[0]["state"], "Processed");
    // The replayed record has its own key and headers, and none of the letter's headers.
    let sent = read_all(&dev.kafka, &["orders"]).await.pop().unwrap();
    assert_eq!(sent.key.as_deref(), Some(&b"poison"[..]));
    assert_eq!(sent.value.as_deref(), Some(sound.as_bytes()));
    let names: Vec<&str> = sent.headers.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["traceparent", "triad-topic"]);

    let ran = replay(&dev, &[id, "--value", &file]).await.ended(1);
    assert!(ran.out.contains("--again"), "{ran:?}");
    assert_eq!(count(&dev, "orders").await, 2, "it was sent twice");
    let shown = dev.triad(&["dead-letters", "show", id, "--json"]).await;
    let shown = shown.good().json_lines().remove(0);
    assert_eq!(shown["replays"][0]["by"], "ops");
    assert_eq!(shown["replays"][0]["why"], "it is fixed");
    assert_eq!(shown["replays"][0]["corrected"], sound);
    let listed = list(&dev, &[]).await;
    assert_eq!(listed[0]["replayed"], 1);
    let at = listed[1]["replayed_at"].as_str().expect("a moment");
    assert!(humantime::parse_rfc3339(at).is_ok(), "{listed:?}");

    let ran = replay(&dev, &[id, "--value", &file, "--again"]).await;
    assert!(ran.good().out.contains("1 replayed"));
    assert_eq!(count(&dev, "orders").await, 3);
}

#[tokio::test]
async fn all_letters_of_a_cause_are_replayed_after_the_fix_and_others_are_left() {
    let dev = Dev::start(&[]).await;
    let late = |n: usize| json!({"order_id": format!("late-{n}"), "workflow": "late"}).to_string();
    let mut records: Vec<Raw> = (0..20)
        .map(|n| orders_record(&format!("late-{n}"), late(n).as_bytes()))
        .collect();
    records.push(orders_record("bad", b"{"));
    poison(&dev, &records).await;
    let groups = causes(&dev).await;
    let counts: Vec<_> = groups
        .iter()
        .map(|g| (&g["cause"], &g["letters"]))
        .collect();
    let wanted = [
        (&json!("unknown-workflow"), &json!(20)),
        (&json!("not-json"), &json!(1)),
    ];
    assert_eq!(counts, wanted);

    let files = Files::new();
    let workflow = files.write("late.yaml", LATE);
    let _ = dev.triad(&["publish", &workflow]).await.good();
    let every = ["--all", "--cause", "unknown-workflow", "--rate", "500/s"];
    let shown = replay(&dev, &every).await.good().out;
    assert!(
        shown.ends_with("20 would be replayed, 0 replayed before, 0 failed\nadd --yes to do it\n"),
        "{shown}"
    );
    let every = [&every[..], &["--yes"]].concat();
    let before = (
        count(&dev, "orders").await,
        count(&dev, "dead-letter").await,
    );
    let dry = replay(&dev, &[&every[..], &["--dry-run"]].concat())
        .await
        .good();
    assert!(
        dry.out
            .ends_with("20 would be replayed, 0 replayed before, 0 failed\n"),
        "{dry:?}"
    );
    let after = (
        count(&dev, "orders").await,
        count(&dev, "dead-letter").await,
    );
    assert_eq!(after, before, "a dry run has sent something");

    let said = replay(&dev, &[&every[..], &["--json"]].concat())
        .await
        .good()
        .json_lines();
    let done = said.iter().filter(|l| l["outcome"] == "replayed").count();
    assert_eq!((said.len(), done), (20, 20), "{said:?}");
    let ended = dev.all_finished(20).await;
    assert!(ended.iter().all(|o| o["state"] == "Processed"), "{ended:?}");

    let again = replay(&dev, &every[..]).await.good();
    assert_eq!(again.out, "0 replayed, 20 replayed before, 0 failed\n");
    let groups = causes(&dev).await;
    let counts: Vec<_> = groups.iter().map(|g| &g["replayed"]).collect();
    assert_eq!(counts, [&json!(20), &json!(0)]);
}

#[tokio::test]
async fn what_is_not_whole_is_replayed_only_with_its_value() {
    let dev = Dev::start(&[]).await;
    let mut huge = order("huge", 1);
    huge["details"]["text"] = "x".repeat(950 * 1024).into();
    let mut tombstone = orders_record("gone", b"");
    tombstone.value = None;
    let ids = poison(
        &dev,
        &[
            orders_record("huge", huge.to_string().as_bytes()),
            tombstone,
        ],
    )
    .await;
    for (id, part) in ids.iter().zip(["were kept", "tombstone"]) {
        let shown = dev.triad(&["dead-letters", "show", id]).await.good().out;
        assert!(shown.contains(part), "{part} in {shown}");
        let refused = replay(&dev, &[id]).await.ended(1).out;
        assert!(
            refused.contains(part) && refused.contains("--value"),
            "{refused}"
        );
    }
    assert_eq!(count(&dev, "orders").await, 2, "something was sent");
    let sound = order("huge", 1).to_string();
    let arguments = ["dead-letters", "replay", &ids[0], "--value", "-"];
    let arguments = [&arguments[..], &WHY].concat();
    let ran = dev.triad_reading(&arguments, sound.as_bytes());
    let _ = ran.await.good();
    assert_eq!(dev.all_finished(1).await[0]["state"], "Processed");
}

#[tokio::test]
async fn letters_are_filtered_by_topic_cause_and_time() {
    let dev = Dev::start(&[]).await;
    let mut request = orders_record("r", b"{}");
    request.topic = "agent.payment".to_owned();
    poison(&dev, &[orders_record("o", b"{}"), request]).await;
    for (arguments, letters) in [
        (&["--topic", "agent.payment"][..], 1),
        (&["--topic", "orders"], 1),
        (&["--cause", "not-a-request"], 1),
        (&["--cause", "no-such"], 0),
        (&["--since", "1h"], 2),
        (&["--since", "1ms"], 0),
        (&["--limit", "1"], 1),
        (&["--limit", "0"], 2),
    ] {
        let listed = list(&dev, arguments).await;
        let found = listed.iter().filter(|l| l["kind"] == "letter").count();
        assert_eq!(found, letters, "{arguments:?}: {listed:?}");
    }
    let none = dev
        .triad(&["dead-letters", "list", "--cause", "no-such"])
        .await;
    assert_eq!(none.good().out, "no dead letters\n");
    let one = dev
        .triad(&["dead-letters", "list", "--limit", "1"])
        .await
        .good();
    let cut = "2 causes, 1 of 2 letters shown; --limit 0 for all\n";
    assert!(one.out.ends_with(cut), "{}", one.out);
}

#[tokio::test]
async fn a_letter_that_is_not_there_or_an_act_without_reason_replays_nothing() {
    let dev = Dev::start(&[]).await;
    let ids = poison(&dev, &[orders_record("o", b"{}")]).await;
    let id = ids[0].as_str();
    let nobody = dev.triad(&["dead-letters", "show", "orders/0/99"]).await;
    assert!(nobody.ended(1).err.contains("orders/0/99"));
    let ran = replay(&dev, &[id, "orders/0/99"]).await.ended(1);
    assert!(ran.err.contains("nothing was replayed"), "{ran:?}");
    for arguments in [
        &["replay", id, "--by", "ops"][..],
        &["replay", id, "--why", "no name"],
        &["replay", id, "--by", "ops", "--why", " "],
        &["replay", "--by", "ops", "--why", "x"],
        &["replay", id, "--all", "--by", "ops", "--why", "x"],
        &["replay", id, "--rate", "0/s", "--by", "ops", "--why", "x"],
        &[
            "replay",
            id,
            id,
            "--value",
            "/dev/null",
            "--by",
            "ops",
            "--why",
            "x",
        ],
        &[
            "replay",
            id,
            "--value",
            "/no/such/file",
            "--by",
            "ops",
            "--why",
            "x",
        ],
        &["replay", "orders", "--by", "ops", "--why", "x"],
        &["show", "orders/1"],
        &["list", "--since", "soon"],
    ] {
        let ran = dev
            .triad(&[&["dead-letters"][..], arguments].concat())
            .await;
        assert!(!ran.ended(2).err.is_empty(), "{arguments:?}");
    }
    assert_eq!(count(&dev, "orders").await, 1, "something was sent");
    let marks = read_all(&dev.kafka, &["dead-letter"]).await;
    assert!(marks.iter().all(|r| header(r, "triad-replay-of").is_none()));
}

#[tokio::test]
async fn a_dismissed_letter_is_recorded_and_shown_no_more() {
    let dev = Dev::start(&[]).await;
    let ids = poison(&dev, &[orders_record("a", b"{"), orders_record("b", b"{")]).await;
    let dismiss = async |args: &[&str]| {
        let all = [&["dead-letters", "dismiss"][..], args, &WHY].concat();
        dev.triad(&all).await
    };
    let all = ["--all", "--topic", "orders"];
    let shown = dismiss(&all).await.good().out;
    let dry = "2 would be dismissed, 0 dismissed before, 0 failed\nadd --yes to do it\n";
    assert!(shown.ends_with(dry), "{shown}");
    let letters = async |args: &[&str]| {
        let listed = list(&dev, args).await;
        let ids = listed
            .iter()
            .filter_map(|l| l["id"].as_str().map(str::to_owned));
        ids.collect::<Vec<_>>()
    };
    assert_eq!(letters(&[]).await.len(), 2, "nothing was dismissed");
    let ran = dismiss(&[&ids[0]]).await.good();
    let said = format!(
        "{}  dismissed\n1 dismissed, 0 dismissed before, 0 failed\n",
        ids[0]
    );
    assert_eq!(ran.out, said);
    assert_eq!(letters(&[]).await, [ids[1].as_str()]);
    let mut both = letters(&["--dismissed"]).await;
    both.sort();
    let mut expected = ids.clone();
    expected.sort();
    assert_eq!(both, expected);
    let shown = dev
        .triad(&["dead-letters", "show", &ids[0]])
        .await
        .good()
        .out;
    assert!(
        shown.contains("Dismissed") && shown.contains("by ops: it is fixed"),
        "{shown}"
    );
    let again = dismiss(&[&ids[0]]).await.ended(1).out;
    assert!(
        again.contains("not dismissed: it was dismissed at"),
        "{again}"
    );
    let sent = count(&dev, "orders").await;
    let _ = replay(&dev, &["--all", "--yes"]).await.good();
    assert_eq!(
        count(&dev, "orders").await,
        sent + 1,
        "the dismissed one is left"
    );
    // The replayed record is still bad, so it becomes another letter.
    read_until(&dev.kafka, &["dead-letter"], |r| r.len() >= 5).await;
    let open = letters(&["--not-replayed"]).await;
    assert!(!open.contains(&ids[1]), "{open:?}");
    assert_eq!(open.len(), 1, "the one that the replay made anew: {open:?}");
}

#[tokio::test]
async fn every_command_of_dead_letters_helps_and_names_a_broker_that_is_not_there() {
    for name in ["list", "show", "replay", "dismiss"] {
        let help = triad(&["dead-letters", name, "--help"], &[], b"")
            .await
            .good();
        assert!(help.out.contains("Examples:"), "{name}: {}", help.out);
    }
    let nobody = ["--brokers", "127.0.0.1:1"];
    let ran = triad(&[&["dead-letters", "list"][..], &nobody].concat(), &[], b"").await;
    assert!(ran.ended(1).err.contains("127.0.0.1:1"));
}
