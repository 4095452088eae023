//! Operators' acts with the commands, on a running `triad dev`.

use serde_json::{Value, json};
use triad_tests::dev::Dev;
use triad_tests::http::client;
use triad_tests::orders::{Files, lines, order, orders};
use triad_tests::poll::until;

/// Submits orders.
async fn submit(dev: &Dev, orders: &[Value]) {
    let text = lines(orders);
    let ran = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    let _ = ran.good();
}

async fn get(dev: &Dev, id: &str) -> Value {
    dev.triad(&["get", id, "--json"]).await.good().json_lines()[0].clone()
}

async fn is_in(dev: &Dev, id: &str, state: &str) -> Value {
    until(&format!("{id} is {state}"), async || {
        let ran = dev.triad(&["get", id, "--json"]).await;
        let order = (ran.code == 0).then(|| ran.json_lines()[0].clone())?;
        (order["state"] == state).then_some(order)
    })
    .await
}

async fn step_is(dev: &Dev, id: &str, step: &str, state: &str) -> Value {
    until(&format!("{step} of {id} is {state}"), async || {
        let ran = dev.triad(&["get", id, "--json"]).await;
        let order = (ran.code == 0).then(|| ran.json_lines()[0].clone())?;
        let steps = order["steps"].as_array()?;
        let found = steps
            .iter()
            .any(|s| s["step"] == step && s["state"] == state);
        found.then_some(order)
    })
    .await
}

const WHO: [&str; 4] = ["--by", "ann", "--why", "as agreed"];

fn acts<'a>(command: &[&'a str]) -> Vec<&'a str> {
    command.iter().copied().chain(WHO).collect()
}

#[tokio::test]
async fn errors_are_grouped_by_cause_and_resubmitted_in_bulk() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    submit(&dev, &orders("e", 4)).await;
    dev.all_finished(4).await;
    let groups = dev.triad(&["list", "--by-cause", "--json"]).await.good();
    let [group] = &groups.json_lines()[..] else {
        panic!("one cause: {}", groups.out)
    };
    assert_eq!(group["state"], "Error");
    assert_eq!(group["cause"], "permanent/notify/declined");
    assert_eq!(group["orders"], 4);
    let old = ["list", "--state", "Error", "--older-than", "1h", "--json"];
    let none = dev.triad(&old).await.good();
    assert_eq!(
        (none.json_lines().len(), &none.summary()["shown"]),
        (0, &json!(0))
    );

    dev.services(json!({})).await;
    let cause = ["resubmit", "--cause", "permanent/notify/*", "--json"];
    let dry = dev.triad(&acts(&cause)).await.good().json_lines();
    assert_eq!(dry.len(), 4);
    assert!(
        dry.iter()
            .all(|l| l["dry_run"] == true && l["result"] == "done")
    );
    assert_eq!(
        get(&dev, "e-0").await["state"],
        "Error",
        "a filter without --yes"
    );
    let mut real = acts(&cause);
    real.extend(["--yes", "--rate", "1000"]);
    let done = dev.triad(&real).await.good().json_lines();
    assert!(
        done.iter()
            .all(|l| l["result"] == "done" && l["dry_run"] == false)
    );
    let order = is_in(&dev, "e-3", "Processed").await;
    assert_eq!(order["run"], 1);
    let text = dev.triad(&["get", "e-3"]).await.good().out;
    for part in [
        "attempt 1 failed",
        "declined",
        "resubmitted by ann: as agreed",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let refused = dev.triad(&acts(&["resubmit", "e-3"])).await.ended(1);
    assert!(refused.out.contains("refused"), "{refused:?}");
    let unknown = dev.triad(&acts(&["resubmit", "nobody"])).await.ended(1);
    assert!(
        unknown.out.contains("there is no such order"),
        "{unknown:?}"
    );
    let none = dev.triad(&acts(&["resubmit"])).await.ended(2);
    assert!(none.err.contains("say which orders"), "{none:?}");
    let empty = ["close", "e-3", "--by", "ann", "--why", " "];
    let _ = dev.triad(&empty).await.ended(2);
}

#[tokio::test]
async fn a_corrected_input_is_held_against_the_one_it_replaces_and_recorded() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    submit(&dev, &[order("c", 1)]).await;
    is_in(&dev, "c", "Error").await;
    dev.services(json!({})).await;
    let with = |input: &'static str| acts(&["resubmit", "c", "--step", "notify", "--input", input]);
    let refused = dev.triad(&with("{\"customer\": \"X\"}")).await.ended(1);
    assert!(refused.out.contains("text is missing"), "{refused:?}");
    let refused = dev
        .triad(&with("{\"customer\": 7, \"text\": \"T\"}"))
        .await
        .ended(1);
    assert!(refused.out.contains("must be a string"), "{refused:?}");
    let _ = dev.triad(&with("{")).await.ended(2);
    let good = "{\"customer\": \"NEW\", \"text\": \"Sorry\"}";
    let _ = dev.triad(&with(good)).await.good();
    let order = is_in(&dev, "c", "Processed").await;
    let notify = &order["steps"][4];
    assert_eq!(notify["input"]["customer"], "NEW");
    assert_eq!(notify["output"]["customer"], "NEW", "the service got it");
    let text = dev.triad(&["get", "c"]).await.good().out;
    assert!(text.contains("Sorry"), "the timeline has it: {text}");
}

#[tokio::test]
async fn a_corrected_input_is_given_to_every_order_that_a_filter_finds() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    submit(&dev, &orders("c", 3)).await;
    let ids = ["c-0", "c-1", "c-2"];
    for id in ids {
        is_in(&dev, id, "Error").await;
    }
    dev.services(json!({})).await;
    let good = "{\"customer\": \"NEW\", \"text\": \"Sorry\"}";
    let all = acts(&[
        "resubmit", "--state", "Error", "--step", "notify", "--input", good, "--yes", "--json",
    ]);
    let lines = dev.triad(&all).await.good().json_lines();
    let of = |kind: &str| lines.iter().filter(|l| l["kind"] == kind).count();
    assert_eq!((of("difference"), of("result")), (3, 3), "{lines:?}");
    for id in ids {
        let order = is_in(&dev, id, "Processed").await;
        let notify = &order["steps"][4];
        assert_eq!(notify["input"]["customer"], "NEW", "{id}");
        assert_eq!(notify["output"]["customer"], "NEW", "the service got it");
    }
}

#[tokio::test]
async fn a_corrected_input_begins_from_the_present_one_and_shows_what_differs() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    submit(&dev, &orders("c", 3)).await;
    for id in ["c-0", "c-1", "c-2"] {
        is_in(&dev, id, "Error").await;
    }
    dev.services(json!({})).await;
    let notify = ["resubmit", "--step", "notify"];
    let with = |more: &[&'static str]| acts(&[&notify[..], more].concat());
    // Single fields are corrected in many orders; a dry run shows the change of each order.
    let some = ["--state", "Error", "--set", "text=Sorry"];
    let shown = dev.triad(&with(&some)).await.good().out;
    for part in [
        "c-0  notify  text: \"",
        "-> \"Sorry\"",
        "3 orders would be resubmitted",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let wrong = with(&["c-0", "--set", "txet=Sorry"]);
    let wrong = dev.triad(&wrong).await.ended(1).out;
    assert!(
        wrong.contains("has no txet; there are: customer, text"),
        "{wrong}"
    );
    let _ = dev
        .triad(&with(&["c-0", "--set", "text=Sorry"]))
        .await
        .good();
    let order = is_in(&dev, "c-0", "Processed").await;
    assert_eq!(order["steps"][4]["input"]["text"], "Sorry");
    assert_eq!(
        order["steps"][4]["input"]["customer"], "C0000",
        "the rest stays"
    );

    // The new input comes from an editor.
    let edit = |id: &'static str| with(&[id, "--edit"]);
    let run = async |args: &[&str], editor: &str| {
        let further = vec![("PATH", "/usr/bin:/bin"), ("EDITOR", editor)];
        let variables = [dev.variables(), further].concat();
        triad_tests::cli::triad(args, &variables, b"").await
    };
    let same = run(&edit("c-1"), "true").await.ended(2);
    assert!(same.err.contains("nothing was done"), "{same:?}");
    let failed = run(&edit("c-1"), "false").await.ended(2);
    assert!(failed.err.contains("nothing was done"), "{failed:?}");
    let broken = run(&edit("c-1"), "sed -i s/{//").await.ended(2);
    assert!(
        broken.err.contains("not JSON") && broken.err.contains("--input @"),
        "{broken:?}"
    );
    let kept = broken
        .err
        .rsplit_once('@')
        .expect("where it is kept")
        .1
        .trim();
    std::fs::remove_file(kept).expect("it is kept");
    let done = run(&edit("c-1"), "sed -i s/C0001/C9/").await.good();
    assert!(
        done.out.contains("customer: \"C0001\" -> \"C9\""),
        "{done:?}"
    );
    let order = is_in(&dev, "c-1", "Processed").await;
    assert_eq!(
        order["steps"][4]["output"]["customer"], "C9",
        "the service got it"
    );
    for bad in [
        &["c-2", "c-0", "--edit"][..],
        &["c-2", "--edit", "--set", "text=x"],
        &["c-2", "--set", "text"],
        &["c-2"],
    ] {
        let _ = dev.triad(&with(bad)).await.ended(2);
    }
    let none = dev
        .triad(&acts(&["resubmit", "c-2", "--set", "text=x"]))
        .await;
    assert!(none.ended(2).err.contains("--step"));
}

#[tokio::test]
async fn a_failed_compensation_is_retried_or_closed_by_hand() {
    let dev = Dev::start(&[]).await;
    let plans = json!({"carrier": {"permanent": 1.0}, "payment": {"compensation_permanent": 1.0}});
    dev.services(plans).await;
    submit(&dev, &orders("u", 2)).await;
    for id in ["u-0", "u-1"] {
        is_in(&dev, id, "CompensationFailed").await;
    }
    let order = step_is(&dev, "u-0", "charge-payment", "not-compensated").await;
    assert_eq!(
        order["steps"][0]["state"], "compensation-due",
        "its turn has not come"
    );
    let _ = dev.triad(&acts(&["close", "u-1"])).await.good();
    let again = dev.triad(&acts(&["close", "u-1"])).await.ended(1);
    assert!(again.out.contains("closed already"), "{again:?}");
    dev.services(json!({})).await;
    let retry = acts(&[
        "retry-compensation",
        "--state",
        "CompensationFailed",
        "--yes",
        "--json",
    ]);
    let lines = dev.triad(&retry).await.good().json_lines();
    assert_eq!(lines.len(), 1, "a closed order needs nobody: {lines:?}");
    let order = is_in(&dev, "u-0", "Compensated").await;
    assert!(
        order["failure"]["code"] == "declined",
        "why it was compensated: {order}"
    );
    let order = get(&dev, "u-1").await;
    assert_eq!(order["state"], "CompensationFailed");
    assert_eq!(order["closed"]["by"], "ann");
    let left = dev.triad(&["list", "--by-cause"]).await.good();
    assert_eq!(left.out, "no orders need an operator\n");
}

#[tokio::test]
async fn a_downstream_an_order_and_a_step_type_are_paused_and_resumed() {
    let dev = Dev::start(&[]).await;
    let _ = dev
        .triad(&acts(&["pause", "--downstream", "payment"]))
        .await
        .good();
    submit(&dev, &orders("p", 3)).await;
    for id in ["p-0", "p-1", "p-2"] {
        step_is(&dev, id, "charge-payment", "deferred").await;
    }
    let shown = dev.triad(&["downstreams"]).await.good().out;
    assert!(shown.contains("open by ann: as agreed"), "{shown}");
    let _ = dev.triad(&acts(&["pause", "p-0"])).await.good();
    let _ = dev.triad(&acts(&["cancel", "p-1"])).await.good();
    // The effect of the deferred step is in doubt, so its compensation waits for the service too.
    step_is(&dev, "p-1", "charge-payment", "compensation-deferred").await;
    let cancelled = is_in(&dev, "p-1", "Compensating").await;
    assert_eq!(cancelled["failure"]["kind"], "operator");
    let listed = ["list", "--state", "Paused", "--json"];
    assert_eq!(dev.triad(&listed).await.good().json_lines().len(), 1);
    let step_type = ["pause", "--step-type", "order-fulfilment/pack"];
    let _ = dev.triad(&acts(&step_type)).await.good();
    let _ = dev
        .triad(&acts(&["resume", "--downstream", "payment"]))
        .await
        .good();
    is_in(&dev, "p-1", "Compensated").await;
    step_is(&dev, "p-2", "pack", "deferred").await;
    step_is(&dev, "p-2", "book-carrier", "completed").await;
    let step_type = ["resume", "--step-type", "order-fulfilment/pack"];
    let _ = dev.triad(&acts(&step_type)).await.good();
    is_in(&dev, "p-2", "Processed").await;
    let held = get(&dev, "p-0").await;
    assert_eq!(held["state"], "Pending");
    assert_eq!(held["paused"]["by"], "ann");
    let _ = dev.triad(&acts(&["resume", "p-0"])).await.good();
    is_in(&dev, "p-0", "Processed").await;
    let late = dev.triad(&acts(&["cancel", "p-0"])).await.ended(1);
    assert!(late.out.contains("cancel is for"), "{late:?}");
    let wrong = acts(&["pause", "--downstream", "nobody"]);
    let wrong = dev.triad(&wrong).await.ended(2);
    assert!(wrong.err.contains("payment"), "what there is: {wrong:?}");
}

#[tokio::test]
async fn an_effect_in_doubt_stops_for_an_operator_or_is_resolved_by_a_probe() {
    let files = Files::new();
    let step = |repeat: &str, reads: &str| {
        format!(
            "steps:
  - id: wire
    agent: bank
    action: wire
    {repeat}
    compensation: {{ action: recall }}
  - id: tell
    agent: mail
    action: send
    {reads}
    compensation: none
"
        )
    };
    let once = format!(
        "workflow: once\n{}",
        step(
            "at_most_once: true",
            "input: { ref: \"${steps.wire.reference}\" }"
        )
    );
    let asked = format!(
        "workflow: asked\n{}",
        step("probe: { action: wire-status }", "input: {}")
    );
    let (once, asked) = (
        files.write("once.yaml", &once),
        files.write("asked.yaml", &asked),
    );
    let dev = Dev::start(&["--workflow", &once, "--workflow", &asked]).await;
    let lost = json!({"bank": {"transient": 1.0, "transient_after_effect": 1.0}});
    dev.services(lost).await;
    let of =
        |id: &str, workflow: &str| json!({"order_id": id, "workflow": workflow, "details": {}});
    submit(&dev, &[of("o", "once"), of("n", "once"), of("a", "asked")]).await;
    let order = is_in(&dev, "o", "Error").await;
    assert_eq!(order["failure"]["code"], "in-doubt");
    is_in(&dev, "n", "Error").await;
    let refused = dev.triad(&acts(&["resubmit", "o"])).await.ended(1);
    assert!(refused.out.contains("triad resolve"), "{refused:?}");
    dev.services(json!({})).await;
    let order = is_in(&dev, "a", "Processed").await;
    assert_eq!(order["steps"][0]["attempt"], 2, "the question: {order}");
    let neither = dev
        .triad(&acts(&["resolve", "o", "--step", "wire"]))
        .await
        .ended(2);
    for answer in ["--applied", "--not-applied"] {
        assert!(neither.err.contains(answer), "{neither:?}");
    }
    let both = acts(&[
        "resolve",
        "o",
        "--step",
        "wire",
        "--applied",
        "--not-applied",
    ]);
    let _ = dev.triad(&both).await.ended(2);
    let lacks = acts(&["resolve", "o", "--step", "wire", "--applied"]);
    let lacks = dev.triad(&lacks).await.ended(1).out;
    assert!(
        lacks.contains("tell reads reference (its input)"),
        "{lacks}"
    );
    assert_eq!(
        get(&dev, "o").await["state"],
        "Error",
        "nothing was written"
    );
    let applied = [
        "resolve",
        "o",
        "--step",
        "wire",
        "--applied",
        "--output",
        "{\"reference\": 7}",
    ];
    let _ = dev.triad(&acts(&applied)).await.good();
    let order = is_in(&dev, "o", "Processed").await;
    assert_eq!(order["steps"][0]["output"]["reference"], 7);
    let not = ["resolve", "n", "--step", "wire", "--not-applied"];
    let _ = dev.triad(&acts(&not)).await.good();
    is_in(&dev, "n", "Processed").await;
    let ledger = dev.ledger().await;
    for (id, calls) in [("o", 1), ("a", 1), ("n", 2)] {
        let key = format!("{id}/wire/forward");
        assert_eq!(ledger.calls(&key), calls, "{key}");
    }
}

#[tokio::test]
async fn orders_end_on_their_version_unless_they_are_moved() {
    let dev = Dev::start(&[]).await;
    let files = Files::new();
    let _ = dev
        .triad(&acts(&["pause", "--downstream", "payment"]))
        .await
        .good();
    submit(&dev, &orders("v", 3)).await;
    for id in ["v-0", "v-1", "v-2"] {
        step_is(&dev, id, "charge-payment", "deferred").await;
    }
    let first = get(&dev, "v-0").await["workflow"].clone();
    let later = triad_tests::orders::FULFILMENT.replace(
        "    input:\n      customer: \"${details.customerID}\"\n      text:",
        "    retry: { calls_per_attempt: 2 }\n    input:\n      customer: \"${details.customerID}\"\n      text:",
    ) + "
  - id: archive
    agent: notification
    action: archive
    after: [notify]
";
    let file = files.write("later.yaml", &later);
    let _ = dev.triad(&["publish", &file]).await.good();
    let to = ["migrate", "v-1", "--to-workflow", "order-fulfilment"];
    let mut dry = acts(&to);
    dry.push("--dry-run");
    let shown = dev.triad(&dry).await.good().out;
    for part in [
        "archive added: notification/archive",
        "notify retry changed",
        "would be migrated",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(
        get(&dev, "v-1").await["workflow"],
        first,
        "nothing was written"
    );
    let _ = dev.triad(&acts(&to)).await.good();
    let moved = get(&dev, "v-1").await["workflow"].clone();
    assert_ne!(moved, first);
    let again = dev.triad(&acts(&to)).await.ended(1);
    assert!(again.out.contains("on this version already"), "{again:?}");
    let _ = dev
        .triad(&acts(&["resume", "--downstream", "payment"]))
        .await
        .good();
    for (id, workflow, steps) in [("v-0", &first, 5), ("v-1", &moved, 6)] {
        let order = is_in(&dev, id, "Processed").await;
        assert_eq!(&order["workflow"], workflow);
        assert_eq!(order["steps"].as_array().unwrap().len(), steps);
    }
    is_in(&dev, "v-2", "Processed").await;
    let versions = dev.triad(&["workflows", "--prune", "--json"]).await.good();
    let versions = versions.json_lines();
    assert_eq!(versions.len(), 2, "both are needed");
    let old = versions.iter().find(|v| v["present"] == false).unwrap();
    assert_eq!((&old["finished"], &old["result"]), (&json!(2), &json!("")));
}

/// Starts a console beside the run; returns status and body of its answer.
async fn seen(dev: &Dev, path: &str) -> (u16, String) {
    let root = dev.console.trim_end_matches("console/");
    let answer = client().get(format!("{root}{path}")).send().await;
    let answer = answer.expect("the console answers");
    let status = answer.status().as_u16();
    (status, answer.text().await.expect("a body"))
}

#[tokio::test]
async fn orders_are_found_by_their_search_keys() {
    let files = Files::new();
    let search = "search: { customer: \"${details.customerID}\", freight: \"${details.freight}\" }";
    let yaml = triad_tests::orders::FULFILMENT;
    let yaml = yaml.replace("\nsteps:", &format!("\n{search}\nsteps:"));
    let dev = Dev::start(&["--workflow", &files.write("searched.yaml", &yaml)]).await;
    submit(&dev, &orders("s", 3)).await;
    dev.all_finished(3).await;

    let list = async |search: &str| {
        let ran = dev.triad(&["list", "--search", search, "--json"]).await;
        ran.good()
    };
    let found = list("customer=C0001").await.json_lines();
    let [order] = &found[..] else {
        panic!("one order: {found:?}")
    };
    assert_eq!(order["order_id"], "s-1");
    let keys = json!({"customer": "C0001", "freight": "0.25"});
    assert_eq!(order["search"], keys);
    assert_eq!(list("freight=0.25").await.json_lines().len(), 1);
    for unlike in ["customer=C000", "customer=0.25", "freight=C0001"] {
        assert_eq!(list(unlike).await.json_lines().len(), 0, "{unlike}");
    }
    let shown = dev.triad(&["get", "s-1"]).await.good().out;
    assert!(shown.contains("Search     customer=C0001"), "{shown}");
    let unknown = list("basket=7").await;
    let said = "no workflow has a search key basket; there are order-fulfilment: customer, freight";
    assert!(unknown.err.contains(said), "{unknown:?}");
    let _ = dev.triad(&["list", "--search", "C0001"]).await.ended(2);
    let both = ["list", "--by-cause", "--search", "customer=C0001"];
    let _ = dev.triad(&both).await.ended(2);

    let (status, page) = seen(&dev, "v1/operate/orders?search=customer%3DC0001").await;
    let page: Value = serde_json::from_str(&page).expect("JSON");
    assert_eq!(status, 200, "{page}");
    assert_eq!(page["orders"][0]["order_id"], "s-1");
    assert_eq!(
        (&page["looked_at"], &page["sampled"]),
        (&json!(1), &json!(false))
    );
    let (status, _) = seen(&dev, "v1/operate/orders?search=C0001").await;
    assert_eq!(status, 400);
    let (_, page) = seen(&dev, "console/orders?search=customer%3DC0002").await;
    let has = |id: &str| page.contains(&format!("/console/orders/{id}\""));
    assert!(has("s-2") && !has("s-1"), "{page}");
    let (_, page) = seen(&dev, "console/orders?search=basket%3D7").await;
    assert!(page.contains(said), "{page}");
    let (_, page) = seen(&dev, "console/orders/s-1").await;
    assert!(
        page.contains("/console/orders?search=customer%3DC0001"),
        "{page}"
    );
}

#[tokio::test]
async fn details_are_amended_until_a_step_has_read_them() {
    let dev = Dev::start(&[]).await;
    let pause = acts(&["pause", "--downstream", "payment"]);
    let _ = dev.triad(&pause).await.good();
    submit(&dev, &[order("m", 1)]).await;
    step_is(&dev, "m", "reserve-inventory", "completed").await;
    let amend = |details: &'static str| acts(&["amend", "m", "--details", details]);
    let read = dev.triad(&amend(r#"{"freight": 9.5}"#)).await.ended(1);
    let why =
        "refused: the details cannot be amended: steps have read details.freight by charge-payment";
    assert!(read.out.contains(why), "{read:?}");
    for (wrong, why) in [
        ("{", "is not JSON"),
        (
            r#"{"n": 12345678901234567890123}"#,
            "a number that would be rounded, at \"n\"",
        ),
    ] {
        let ended = dev.triad(&amend(wrong)).await.ended(2);
        assert!(ended.err.contains(why), "{ended:?}");
    }

    let city = r#"{"shipAddress": {"city": "Porto"}, "shipName": null}"#;
    let dry = [&amend(city)[..], &["--dry-run"]].concat();
    let dry = dev.triad(&dry).await.good();
    assert!(dry.out.contains("m  would be amended"), "{dry:?}");
    let inputs = async || {
        let got = dev.triad(&["get", "m", "--inputs", "--json"]).await.good();
        got.json_lines()[0]["inputs"].clone()
    };
    assert_eq!(inputs().await["details"]["shipAddress"]["city"], "Lisboa");
    let named = r#"{"shipAddress": {"city": "Porto"}}"#;
    let json = [&amend(named)[..], &["--json"]].concat();
    let done = dev.triad(&json).await.good().json_lines();
    assert_eq!(done[0]["result"], "done", "{done:?}");
    let again = dev.triad(&amend(named)).await.good();
    assert!(
        again.out.contains("the details are so already"),
        "{again:?}"
    );
    assert_eq!(inputs().await["details"]["shipAddress"]["city"], "Porto");

    let resume = acts(&["resume", "--downstream", "payment"]);
    let _ = dev.triad(&resume).await.good();
    is_in(&dev, "m", "Processed").await;
    let calls = inputs().await["calls"].clone();
    let calls = calls.as_array().expect("calls");
    let booked = calls.iter().find(|call| call["step"] == "book-carrier");
    assert_eq!(booked.expect("a call")["input"]["city"], "Porto");
    let text = dev.triad(&["get", "m"]).await.good().out;
    let line = "amended by ann: as agreed (details.shipAddress.city)";
    assert!(text.contains(line), "{text}");
}
