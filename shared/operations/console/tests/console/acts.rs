//! Finding orders page by page, acts on them, the record of acts, and limits.

use serde_json::{Value, json};
use triad_core::{Applied, Attempt, Doubt, Failure, FailureKind, ProcessState, StepState, Work};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

use crate::common::{World, cookie, csrf_token, error, identity, publish, send_form, text};

async fn ids(world: &World, query: &str) -> (Vec<String>, usize) {
    let (mut found, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("/v1/operate/orders?{query}&limit=7{cursor}");
        let said = world.get(&path).await;
        assert_eq!(said.status, 200, "{said:?}");
        let page = said.json();
        let orders = page["orders"].as_array().unwrap();
        assert!(orders.len() <= 7);
        found.extend(
            orders
                .iter()
                .map(|o| o["order_id"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, pages),
        }
    }
}

#[tokio::test]
async fn pages_have_every_order_once_and_those_of_an_index_the_oldest_first() {
    let world = World::start().await;
    for n in 0..40 {
        world
            .failed(
                &format!("e-{n:02}"),
                if n % 2 == 0 { "even" } else { "odd" },
            )
            .await;
        world.order(&format!("u-{n:02}"), |_| {}).await;
    }
    let (found, pages) = ids(&world, "state=Error").await;
    let wanted: Vec<String> = (0..40).map(|n| format!("e-{n:02}")).collect();
    assert_eq!(found, wanted, "in {pages} pages");
    assert!(pages >= 6);
    let (found, _) = ids(&world, "cause=permanent/even").await;
    assert_eq!(found.len(), 20);
    for (query, wanted) in [
        ("state=Pending", 40),
        ("", 80),
        ("id=-07", 2),
        ("workflow=none", 0),
    ] {
        let (mut found, _) = ids(&world, query).await;
        let all = found.len();
        found.sort();
        found.dedup();
        assert_eq!((found.len(), all), (wanted, wanted), "{query}");
    }
    let other = world
        .get("/v1/operate/orders?state=Error&limit=7")
        .await
        .json();
    let next = other["next"].as_str().unwrap();
    let path = format!("/v1/operate/orders?state=Pending&cursor={next}");
    assert_eq!(
        world.get(&path).await.is(),
        (400, "bad-cursor".into()),
        "of another question"
    );
}

fn cancel(further: &Value) -> Value {
    let mut body = json!({"act": "cancel", "why": "as agreed", "by": "ann"});
    for (name, value) in further.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn what_a_filter_finds_is_tried_first_and_who_and_why_are_kept() {
    let world = World::start().await;
    for n in 0..5 {
        world.failed(&format!("e-{n}"), "x").await;
    }
    let body = cancel(&json!({"filter": {"state": "Error"}}));
    let tried = world.act("/v1/operate/acts", &body).await.json();
    assert_eq!(
        (&tried["done"], &tried["dry_run"]),
        (&json!(5), &json!(true))
    );
    assert!(matches!(
        world.stored("e-0").await.state,
        ProcessState::Error { .. }
    ));
    let body = cancel(&json!({"filter": {"state": "Error"}, "dry_run": false, "limit": 3}));
    let done = world.act("/v1/operate/acts", &body).await.json();
    assert_eq!((&done["done"], &done["more"]), (&json!(3), &json!(true)));
    let order = world.stored("e-0").await;
    let act = order
        .incidents
        .iter()
        .find_map(|line| line.act.clone())
        .unwrap();
    assert_eq!((act.by.as_str(), act.why.as_str()), ("ann", "as agreed"));
    let body = cancel(&json!({"orders": ["e-0", "none", "e-4"], "dry_run": false}));
    let done = world.act("/v1/operate/acts", &body).await.json();
    assert_eq!(
        (&done["done"], &done["refused"]),
        (&json!(1), &json!(2)),
        "{done}"
    );
}

#[tokio::test]
async fn whatever_is_asked_for_it_is_a_dry_run_unless_it_says_otherwise() {
    let world = World::start().await;
    world.failed("e", "x").await;
    world.letter(0, "{}").await;
    let sent = world.heard.0.lock().unwrap().len();
    for (path, which) in [
        ("acts", json!({"act": "close", "orders": ["e"]})),
        (
            "acts",
            json!({"act": "close", "filter": {"state": "Error"}}),
        ),
        (
            "campaigns",
            json!({"act": "close", "filter": {"state": "Error"}}),
        ),
        (
            "downstreams/acts",
            json!({"act": "pause", "downstream": "bank"}),
        ),
        (
            "dead-letters/acts",
            json!({"act": "dismiss", "letters": ["orders/3/0"]}),
        ),
        ("dead-letters/acts", json!({"act": "dismiss", "filter": {}})),
    ] {
        let mut body = which.clone();
        (body["why"], body["by"]) = (json!("w"), json!("ann"));
        let said = world.act(&format!("/v1/operate/{path}"), &body).await;
        assert_eq!(said.status, 200, "{which}: {said:?}");
        let said = said.json();
        assert_eq!(said["dry_run"], true, "{which}: {said}");
        let would_be = said["done"].as_u64().or(said["orders"].as_u64());
        assert_eq!(would_be, Some(1), "{which}: {said}");
    }
    assert!(world.stored("e").await.closed.is_none());
    let campaigns = world.get("/v1/operate/campaigns").await.json();
    assert_eq!(campaigns["campaigns"], json!([]));
    let downstreams = world.get("/v1/operate/downstreams").await.json();
    let last = &downstreams["downstreams"][0]["record"]["last"];
    assert_eq!(last["what"], "", "{downstreams}");
    assert_eq!(world.heard.0.lock().unwrap().len(), sent, "nothing is sent");
}

#[tokio::test]
async fn a_page_about_many_orders_counts_the_outcomes_and_shows_some() {
    let world = World::start().await;
    for n in 0..60 {
        world.failed(&format!("e-{n:02}"), "x").await;
    }
    let page = world.get("/console/orders?state=Error").await;
    let (cookie, word) = (cookie(&page), csrf_token(&text(&page)));
    let mut form = vec![
        ("word", &*word),
        ("scope", "chosen"),
        ("act", "close"),
        ("by", "ann"),
        ("why", "w"),
        ("do", "try"),
    ];
    let ids: Vec<String> = (0..61).map(|n| format!("e-{n:02}")).collect();
    form.extend(ids.iter().map(|id| ("orders", &**id)));
    let said = text(&send_form(&world, "/console/act", &cookie, &form).await);
    assert!(said.contains("60 would be done, 1 refused"), "{said}");
    let (outcomes, rows) = said
        .split_once("What would come of each order")
        .expect("rows");
    let outcomes = outcomes.split_once("By outcome").expect("outcomes").1;
    assert!(
        outcomes.contains(">60<") && outcomes.contains(">1<"),
        "{outcomes}"
    );
    assert!(rows.contains(": 50 of 61"), "{rows}");
    assert_eq!(
        rows.split_once("</table>")
            .expect("an end")
            .0
            .matches("<tr>")
            .count(),
        51
    );
    assert!(
        rows.contains("e-60"),
        "what is not done comes first: {rows}"
    );
}

#[tokio::test]
async fn what_is_not_said_or_said_twice_is_refused_and_nothing_is_done() {
    let world = World::start().await;
    world.failed("e", "x").await;
    let many: Vec<String> = (0..1_001).map(|n| format!("o{n}")).collect();
    for (further, code) in [
        (json!({}), "no-orders"),
        (json!({"filter": {}}), "no-orders"),
        (
            json!({"filter": {"state": "Error"}, "orders": ["e"]}),
            "no-orders",
        ),
        (json!({"filter": {"state": "Eror"}}), "bad-filter"),
        (
            json!({"filter": {"state": "Error"}, "limit": 1_001}),
            "bad-limit",
        ),
        (json!({"orders": many}), "too-many-orders"),
        (json!({"orders": ["a/b"]}), "bad-order-id"),
        (json!({"orders": ["e"], "why": " "}), "bad-why"),
        (json!({"orders": ["e"], "by": ""}), "bad-by"),
        (json!({"orders": ["e"], "rate": 0}), "bad-rate"),
        (json!({"orders": ["e"], "step": "pay"}), "bad-act"),
        (
            json!({"orders": ["e"], "act": "resubmit", "set": ["a=1"]}),
            "bad-act",
        ),
        (
            json!({"orders": ["e"], "act": "resolve", "step": "pay"}),
            "bad-act",
        ),
        (json!({"orders": ["e"], "act": "migrate"}), "bad-act"),
        (json!({"orders": ["e"], "act": "destroy"}), "bad-body"),
        (json!({"orders": ["e"], "more": 1}), "bad-body"),
    ] {
        let said = world.act("/v1/operate/acts", &cancel(&further)).await;
        assert_eq!(said.is(), (400, code.to_owned()), "{further}");
    }
    assert_eq!(world.stored("e").await.incidents.len(), 0);
}

#[tokio::test]
async fn hostile_bodies_and_ids_are_refused() {
    let world = World::start().await;
    let json = [("content-type", "application/json")];
    let path = "/v1/operate/acts";
    for body in [
        vec![b' '; 1 << 20],
        vec![b'['; 1 << 20],
        b"\xff\xfe".to_vec(),
    ] {
        let said = world.client.send("POST", path, &json, &body).await;
        assert_eq!(said.is(), (400, "bad-body".into()));
    }
    for id in ["%00", "%FF", "%2e%2e%2f", "a%2Fb", &"x".repeat(129)] {
        let said = world.get(&format!("/v1/operate/orders/{id}")).await;
        assert_eq!(said.status, 400, "{id}");
        assert_eq!(
            world.get(&format!("/console/orders/{id}")).await.status,
            400,
            "{id}"
        );
    }
}

#[tokio::test]
async fn letters_are_replayed_with_a_corrected_value_and_dismissed() {
    let world = World::start().await;
    for offset in 0..3 {
        world.letter(offset, "{\"card\": 1").await;
    }
    let path = "/v1/operate/dead-letters/acts";
    let one = json!({"act": "replay", "letters": ["orders/3/0"], "value": "{}", "why": "w", "by": "ann",
        "dry_run": false});
    let done = world.act(path, &one).await.json();
    assert_eq!(done["results"][0]["outcome"], "replayed", "{done}");
    let sent = world.heard.0.lock().unwrap().clone();
    let again = sent.iter().find(|m| m.topic == "orders").unwrap();
    assert_eq!(again.value, b"{}");
    let rest = json!({"act": "dismiss", "filter": {}, "why": "w", "by": "ann", "dry_run": false});
    assert_eq!(world.act(path, &rest).await.json()["done"], 3);
    let left = world.get("/v1/operate/dead-letters").await.json();
    assert_eq!(left["letters"], json!([]));
    let shown = world
        .get("/v1/operate/dead-letters/orders/3/0")
        .await
        .json();
    assert_eq!(shown["replays"][0]["by"], "ann");

    // The link in the list names the letter's position, so the page opens without a scan of the topic.
    let list = text(&world.get("/console/dead-letters?dismissed=true").await);
    let written = shown["at"].as_str().expect("a moment");
    let link = format!("/console/dead-letters/orders/3/0?written={written}");
    assert!(list.contains(&link), "{list}");
    let page = text(&world.get(&link).await);
    assert!(page.contains("Dead letter orders/3/0"), "{page}");
    let path = link.replace("/console/", "/v1/operate/");
    assert_eq!(world.get(&path).await.json(), shown);
    let bad = world.get("/v1/operate/dead-letters/orders/3/0?written=x");
    assert_eq!(bad.await.json()["code"], "bad-filter");
}

#[tokio::test]
async fn who_follows_a_cause_means_all_that_failed_for_it_unless_some_are_chosen() {
    let world = World::start().await;
    for id in ["e-0", "e-1"] {
        world.failed(id, "x").await;
    }
    let all = "<option value=\"all\" selected";
    let list = text(&world.get("/console/orders?state=Error").await);
    assert!(
        list.contains("value=\"all\"") && !list.contains(all),
        "{list}"
    );
    let list = world
        .get("/console/orders?state=Error&cause=permanent%2Fx")
        .await;
    assert!(text(&list).contains(all), "{}", text(&list));
    let (cookie, word) = (cookie(&list), csrf_token(&text(&list)));
    let form = |chosen: &'static str| {
        let form = [
            ("word", word.clone()),
            ("filter_state", "Error".into()),
            ("scope", "all".into()),
            ("orders", chosen.into()),
            ("act", "close".into()),
            ("by", "ann".into()),
            ("why", "w".into()),
            ("do", "act".into()),
        ];
        form.to_vec()
    };
    let send = async |form: Vec<(&str, String)>| {
        let form: Vec<(&str, &str)> = form.iter().map(|(n, v)| (*n, v.as_str())).collect();
        send_form(&world, "/console/act", &cookie, &form).await
    };
    let said = send(form("e-0")).await;
    assert_eq!(said.status, 400, "one is chosen, and all are asked for");
    assert!(world.stored("e-0").await.closed.is_none());
    let done = text(&send(form("")).await);
    assert!(done.contains("2 done, 0 refused"), "{done}");
}

#[tokio::test]
async fn of_orders_that_are_half_compensated_the_first_act_is_to_retry_the_compensation() {
    let world = World::start().await;
    world.failed("e-0", "x").await;
    world
        .order("h-0", |order| {
            order.state = ProcessState::CompensationFailed {
                at: SystemClock.now(),
                cause: Failure::new(FailureKind::Permanent, "x", "no"),
                compensated_for: None,
            };
        })
        .await;
    for (state, first) in [
        ("Error", "resubmit"),
        ("CompensationFailed", "retry-compensation"),
    ] {
        let page = text(&world.get(&format!("/console/orders?state={state}")).await);
        let acts = page.split("<select name=\"act\">").nth(1).expect("acts");
        assert!(
            acts.starts_with(&format!("<option value=\"{first}\"")),
            "{state}"
        );
    }
}

/// Acts on one order, by default without a dry run; returns its line of the result.
async fn act_on(world: &World, order: &str, more: Value) -> Value {
    let mut body = json!({"orders": [order], "why": "as agreed", "by": "ann", "dry_run": false});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let said = world.act("/v1/operate/acts", &body).await;
    assert_eq!(said.status, 200, "{said:?}");
    said.json()["results"][0].clone()
}

#[tokio::test]
async fn an_order_is_moved_to_another_version_after_a_dry_run_that_changes_nothing() {
    let world = World::start().await;
    world.failed("e", "x").await;
    let newer = publish(&world.store, "w", "other").await;
    let to = json!({"act": "migrate", "to_workflow": "w", "to_version": newer.hash.to_string()});
    let mut tried = to.clone();
    tried["dry_run"] = json!(true);
    let line = act_on(&world, "e", tried).await;
    assert_eq!(line["result"], "done", "{line}");
    assert_eq!(world.stored("e").await.workflow, identity(&world.workflow));
    let line = act_on(&world, "e", to.clone()).await;
    assert_eq!(line["result"], "done", "{line}");
    assert_eq!(world.stored("e").await.workflow, identity(&newer));
    let line = act_on(&world, "e", to).await;
    assert_eq!(line["result"], "refused", "it is there already: {line}");
}

#[tokio::test]
async fn an_effect_in_doubt_is_resolved_with_the_output_that_an_operator_found() {
    let world = World::start().await;
    let state = error("x");
    world
        .order("d", |order| {
            order.state = state;
            order.steps[0].state = StepState::Acting(Work::due(Attempt(1)));
            order.steps[0].in_doubt = Some(Doubt::default());
        })
        .await;
    let found =
        json!({"act": "resolve", "step": "pay", "applied": true, "output": {"reference": "r-1"}});
    let line = act_on(&world, "d", found).await;
    assert_eq!(line["result"], "done", "{line}");
    let order = world.stored("d").await;
    let StepState::Completed { output, .. } = &order.steps[0].state else {
        panic!("{:?}", order.steps[0]);
    };
    assert_eq!(output.value(), Some(&json!({"reference": "r-1"})));
    let act = order.incidents.iter().find_map(|line| line.act.as_ref());
    assert_eq!(act.unwrap().by, "ann");
}

/// Checked with the API, and with the form of a page that was loaded before the other attempt.
#[tokio::test]
async fn what_is_said_of_an_effect_is_refused_where_there_has_been_another_attempt_since() {
    let world = World::start().await;
    let state = error("x");
    world
        .order("d", |order| {
            order.state = state;
            order.steps[0].state = StepState::Acting(Work::due(Attempt(2)));
            order.steps[0].in_doubt = Some(Doubt::default());
        })
        .await;
    let not = |attempt: u32| json!({"act": "resolve", "step": "pay", "applied": false, "attempt": attempt});
    let line = act_on(&world, "d", not(1)).await;
    assert_eq!(line["result"], "refused", "{line}");
    let why = line["text"].as_str().expect("a reason");
    assert!(why.contains("ask its service again"), "{why}");

    let page = world.get("/console/orders/d").await;
    let (cookie, word) = (cookie(&page), csrf_token(&text(&page)));
    let seen = "name=\"seen\" value=\"pay=2\"";
    assert!(text(&page).contains(seen), "{}", text(&page));
    for (seen, button, says) in [
        ("pay=1", "act", "0 done, 1 refused"),
        ("pay=2", "try", "1 would be done"),
        ("pay=2", "act", "1 done"),
    ] {
        let form = [
            ("word", &*word),
            ("orders", "d"),
            ("seen", "other=7"),
            ("seen", seen),
            ("act", "resolve"),
            ("step", "pay"),
            ("applied", "no"),
            ("by", "ann"),
            ("why", "the bank has nothing"),
            ("do", button),
        ];
        let said = text(&send_form(&world, "/console/act", &cookie, &form).await);
        assert!(said.contains(says), "{seen} {button}: {said}");
        let again = format!("name=\"seen\" value=\"{seen}\"");
        assert_eq!(
            said.contains(&again),
            button == "try",
            "it is sent again: {said}"
        );
    }
    assert!(world.stored("d").await.steps[0].in_doubt.is_none());
}

#[tokio::test]
async fn an_order_is_paused_and_resumed() {
    let world = World::start().await;
    world.order("p", |_| {}).await;
    for (act, is_paused) in [("pause", true), ("resume", false)] {
        let line = act_on(&world, "p", json!({"act": act})).await;
        assert_eq!(line["result"], "done", "{line}");
        assert_eq!(world.stored("p").await.paused.is_some(), is_paused);
    }
    let line = act_on(&world, "p", json!({"act": "resume"})).await;
    assert_eq!(line["result"], "refused", "{line}");
}

#[tokio::test]
async fn an_act_that_does_not_fit_is_refused_with_the_reason_and_writes_nothing() {
    let world = World::start().await;
    world.failed("e", "x").await;
    let line = act_on(&world, "e", json!({"act": "close"})).await;
    assert_eq!(line["result"], "done", "{line}");
    let closed = world.stored("e").await;
    let refused = [
        ("close", "it is closed already"),
        ("retry-compensation", "this one is Error"),
    ];
    for (act, reason) in refused {
        let line = act_on(&world, "e", json!({"act": act})).await;
        assert_eq!(line["result"], "refused", "{act}: {line}");
        assert!(
            line["text"]
                .as_str()
                .is_some_and(|why| why.contains(reason)),
            "{line}"
        );
    }
    assert_eq!(world.stored("e").await, closed);
}

#[tokio::test]
async fn an_order_that_has_stopped_is_done_again_with_a_corrected_input() {
    let world = World::start().await;
    world.failed("e", "x").await;
    let body = json!({"act": "resubmit", "orders": ["e"], "step": "pay", "set": ["card=\"4712\""],
        "why": "as agreed", "by": "ann", "dry_run": false});
    let said = world.act("/v1/operate/acts", &body).await.json();
    assert_eq!(said["results"][0]["result"], "done", "{said}");
    let order = world.stored("e").await;
    assert_eq!(order.steps[0].input, Some(json!({"card": "4712"})));
    assert!(matches!(order.state, ProcessState::Pending { .. }));
    assert_eq!(order.run, 1);
    let line = act_on(&world, "e", json!({"act": "resubmit"})).await;
    assert_eq!(line["result"], "refused", "{line}");
}

#[tokio::test]
async fn a_compensation_that_has_failed_is_tried_again() {
    let world = World::start().await;
    world
        .order("h", |order| {
            order.state = ProcessState::CompensationFailed {
                at: SystemClock.now(),
                cause: Failure::new(FailureKind::Permanent, "x", "no"),
                compensated_for: None,
            };
            order.steps[0].state = StepState::NotCompensated {
                attempt: Attempt(1),
                applied: Applied {
                    position: Some(0),
                    output: json!({"reference": "r-1"}).into(),
                },
            };
        })
        .await;
    let line = act_on(&world, "h", json!({"act": "retry-compensation"})).await;
    assert_eq!(line["result"], "done", "{line}");
    let order = world.stored("h").await;
    assert!(matches!(order.state, ProcessState::Compensating { .. }));
    let line = act_on(&world, "h", json!({"act": "close"})).await;
    assert_eq!(line["result"], "refused", "{line}");
}

#[tokio::test]
async fn that_an_effect_in_doubt_did_not_happen_is_refused_while_its_request_may_be_carried_out() {
    let world = World::start().await;
    let until = SystemClock.now().plus(Millis(3_600_000));
    for (id, until) in [("open", Some(until)), ("over", None)] {
        let state = error("x");
        world
            .order(id, |order| {
                order.state = state;
                order.steps[0].state = StepState::Acting(Work::due(Attempt(1)));
                order.steps[0].in_doubt = Some(Doubt { open_until: until });
            })
            .await;
    }
    let not = json!({"act": "resolve", "step": "pay", "applied": false});
    let line = act_on(&world, "open", not.clone()).await;
    assert_eq!(line["result"], "refused", "{line}");
    let why = line["text"].as_str().expect("a reason");
    assert!(why.starts_with("step pay: "), "{why}");
    let line = act_on(&world, "over", not).await;
    assert_eq!(line["result"], "done", "{line}");
    assert!(world.stored("over").await.steps[0].in_doubt.is_none());
}

#[tokio::test]
async fn what_a_downstream_or_a_step_type_is_already_is_refused_with_the_reason() {
    let world = World::start().await;
    let (bank, pay) = (("downstream", "bank"), ("step_type", "w/pay"));
    for ((of, name), act, result, part) in [
        (bank, "resume", "refused", "already"),
        (bank, "force-closed", "done", "closed"),
        (bank, "force-closed", "refused", "already"),
        (bank, "release", "done", ""),
        (pay, "pause", "done", "w/pay"),
        (pay, "pause", "refused", "already"),
        (pay, "resume", "done", "w/pay"),
    ] {
        let mut body = json!({"act": act, "why": "as agreed", "by": "ann", "dry_run": false});
        body[of] = json!(name);
        let said = world.act("/v1/operate/downstreams/acts", &body).await;
        let line = &said.json()["results"][0];
        assert_eq!(line["result"], result, "{act} {name}: {line}");
        let text = line["text"].as_str().expect("a text");
        assert!(text.contains(part), "{act} {name}: {line}");
    }
}

#[tokio::test]
async fn an_order_is_moved_from_its_page_by_the_form() {
    let world = World::start().await;
    world.failed("e", "x").await;
    let newer = publish(&world.store, "w", "other").await;
    let page = world.get("/console/orders/e").await;
    let (cookie, word) = (cookie(&page), csrf_token(&text(&page)));
    for (button, says, is_moved) in [("try", "1 would be done", false), ("act", "1 done", true)] {
        let form = [
            ("word", &*word),
            ("orders", "e"),
            ("act", "migrate"),
            ("to_workflow", "w"),
            ("to_version", newer.hash.as_str()),
            ("by", "ann"),
            ("why", "the newer one is right"),
            ("do", button),
        ];
        let said = send_form(&world, "/console/act", &cookie, &form).await;
        let said = text(&said);
        assert!(said.contains(says), "{said}");
        let moved = world.stored("e").await.workflow == identity(&newer);
        assert_eq!(moved, is_moved, "{button}");
    }
}
