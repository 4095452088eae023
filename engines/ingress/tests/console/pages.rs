//! Every page: what others wrote is text in it, nothing comes from elsewhere, hidden fields are hidden.

use serde_json::json;
use triad_console::{Hidden, Settings};
use triad_core::message::{Alert, AlertKind};
use triad_core::order::{Hold, OperatorAct};
use triad_core::outbox::Emission;
use triad_core::{Attempt, Direction, Failure, FailureKind, ProcessState};
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, Clock};
use triad_workflow::Millis;

use crate::common::{World, publish, text};

const SCRIPT: &str = "<script>alert(1)</script>";

async fn world() -> World {
    let world = World::start().await;
    world.failed("e<script>", "x").await;
    world
        .order("p", |order| {
            order.paused = Some(Hold {
                at: SystemClock.now(),
                act: OperatorAct::new(SCRIPT, SCRIPT),
            });
        })
        .await;
    world.letter(0, SCRIPT).await;
    world
}

fn paths(world: &World) -> Vec<String> {
    let hash = world.workflow.hash.to_string();
    [
        "",
        "/causes",
        "/orders",
        "/orders?state=Error&cause=%3Cscript%3E&id=%22%3E%3Cscript%3E",
        "/orders?state=Error",
        "/orders/e%3Cscript%3E",
        "/orders/p",
        "/orders/%3Cscript%3Ealert(1)%3C%252Fscript%3E",
        "/workflows",
        &format!("/workflows/w/{hash}?against={hash}"),
        "/downstreams",
        "/dead-letters?cause=%22%3E%3Cscript%3E",
        "/dead-letters",
        "/dead-letters/orders/3/0",
        "/no-such-page/%3Cscript%3E",
    ]
    .into_iter()
    .map(|path| format!("/console{path}"))
    .collect()
}

#[tokio::test]
async fn what_became_of_a_downstream_is_told_the_newest_first() {
    let world = world().await;
    for (act, why) in [("pause", "it is <slow>"), ("resume", "it is well")] {
        let body = json!({"act": act, "downstream": "bank", "why": why, "by": "ann"});
        let done = world.act("/v1/operate/downstreams/acts", &body).await;
        assert_eq!(done.status, 200, "{done:?}");
    }
    let page = text(&world.get("/console/downstreams").await);
    let history = page.split_once("History").expect("a history").1;
    let (paused, resumed) = (
        history.find("it is &lt;slow&gt; (ann)"),
        history.find("it is well (ann)"),
    );
    assert!(paused.is_some() && resumed < paused, "{history}");
}

#[tokio::test]
async fn the_overview_tells_alerts_dead_letters_and_what_has_been_due_longest() {
    let world = world().await;
    let hour = Millis(3_600_000);
    for (id, late) in [("b", Millis(1)), ("c", hour)] {
        let due = SystemClock.now().minus(late);
        world.order(id, |order| order.due = Some(due)).await;
    }
    let alert = |order: &str, late: Millis| Alert {
        alert_id: format!("{order}/Error/1"),
        kind: AlertKind::OrderError,
        order_id: Some(order.to_owned()),
        cause: SCRIPT.to_owned(),
        at: SystemClock.now().minus(late),
    };
    let told = [
        alert("older", hour),
        alert("e<script>", Millis(0)),
        alert("long ago", Millis(25 * 3_600_000)),
    ];
    let told = told.iter().map(|alert| alert.message("k", None)).collect();
    world.heard.publish(told).await;

    let page = text(&world.get("/console/").await);
    assert!(page.contains("the oldest for 1 h 0 min"), "{page}");
    let letters = page.split_once("dead letters in a day").expect("a tile").0;
    assert!(
        letters.ends_with(r#"<span class="figure">1</span><span class="label">"#),
        "{letters}"
    );
    let alerts = page.split_once("Alerts of the last day").expect("a list").1;
    let of = |order: &str| alerts.find(&format!("href=\"/console/orders/{order}\""));
    let newest = of("e%3Cscript%3E");
    assert!(newest.is_some() && newest < of("older"), "{alerts}");

    let said = world
        .get("/v1/operate/alerts?since=2h&limit=1")
        .await
        .json();
    let alert = &said["alerts"][0];
    assert_eq!(
        (&alert["about"], &alert["page"]),
        (
            &json!("order-error"),
            &json!("/console/orders/e%3Cscript%3E")
        )
    );
    assert_eq!(said["more"], true);
    let counts = world.get("/v1/operate/counts").await.json();
    let due = counts["under_way"]["oldest_due"]
        .as_str()
        .expect("a moment");
    assert!(due.ends_with('Z'), "{due}");
}

#[tokio::test]
async fn what_others_wrote_is_text_on_every_page() {
    let world = world().await;
    for path in paths(&world) {
        let said = world.get(&path).await;
        assert!(matches!(said.status, 200 | 404), "{path}: {}", said.status);
        let page = text(&said);
        // The one script of a page is the file of this server, and nothing in a page runs.
        assert_eq!(page.matches("<script").count(), 1, "{path}");
        assert!(
            page.contains("<script src=\"/console/assets/console.js\""),
            "{path}"
        );
        assert!(
            !page.contains("javascript:")
                && !page.contains(" onclick")
                && !page.contains(" style=")
        );
        assert!(
            !page.contains("http://") || page.contains("www.w3.org"),
            "nothing from elsewhere: {path}"
        );
    }
    let page = text(&world.get("/console/orders/p").await);
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{page}"
    );
}

#[tokio::test]
async fn every_answer_has_the_headers_that_keep_a_browser_from_harm() {
    let world = world().await;
    let mut paths = paths(&world);
    paths.push("/console/assets/console.js".to_owned());
    for path in paths {
        let said = world.get(&path).await;
        let policy = said.header("content-security-policy").expect(&path);
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"));
        assert_eq!(said.header("x-frame-options"), Some("DENY"));
        assert_eq!(said.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(said.header("cache-control"), Some("no-store"));
    }
    assert_eq!(world.get("/console/assets/..%2Fsecret").await.status, 404);
    assert_eq!(world.get("/").await.header("location"), Some("/console/"));
}

#[tokio::test]
async fn a_page_is_for_everybody_to_read() {
    let world = world().await;
    for path in paths(&world) {
        let page = text(&world.get(&path).await);
        assert!(
            page.contains("<html lang=\"en\">") && page.contains("<main id=\"main\">"),
            "{path}"
        );
        assert_eq!(page.matches("<h1").count(), 1, "{path}");
        let svg = page.matches("<svg").count();
        let named = ["img", "group"].map(|role| format!("<svg role=\"{role}\" aria-label="));
        let named = named
            .iter()
            .map(|begin| page.matches(begin.as_str()).count());
        assert_eq!(named.sum::<usize>(), svg, "{path}");
        // What is typed into has a name.
        for field in page
            .split("<input")
            .skip(1)
            .chain(page.split("<select").skip(1))
        {
            let tag = field.split('>').next().unwrap();
            let at = page.find(tag).unwrap();
            let labelled = page[..at]
                .rfind("<label")
                .is_some_and(|l| !page[l..at].contains("</label>"));
            let is_named =
                tag.contains("aria-label=") || tag.contains("type=\"hidden\"") || labelled;
            assert!(is_named, "{path}: {tag}");
        }
    }
}

#[tokio::test]
async fn hidden_fields_are_on_no_page_and_in_no_answer() {
    let settings = Settings {
        hidden: Hidden::of(["card".to_owned()]),
        ..Settings::default()
    };
    let world = World::with(settings, None).await;
    world.failed("e", "x").await;
    world.letter(0, "{\"card\": \"4711\"}").await;
    for path in [
        "/console/orders/e",
        "/v1/operate/orders/e?inputs=true",
        "/console/dead-letters/orders/3/0",
        "/v1/operate/dead-letters/orders/3/0",
    ] {
        let said = world.get(path).await;
        assert_eq!(said.status, 200, "{path}");
        let page = text(&said);
        assert!(
            !page.contains("4711") && page.contains("(hidden)"),
            "{path}: {page}"
        );
    }
    let open = World::start().await;
    open.failed("e", "x").await;
    assert!(text(&open.get("/v1/operate/orders/e?inputs=true").await).contains("4711"));
}

#[tokio::test]
async fn what_an_order_has_to_send_is_told_with_its_keys_on_its_page_and_by_the_api() {
    let world = World::start().await;
    world
        .order("o", |order| {
            let (step, at) = (order.steps[0].step.clone(), SystemClock.now());
            order.steps[0].key = 1;
            order.outbox.entries = vec![
                Emission::Request {
                    step,
                    direction: Direction::Forward,
                    attempt: Attempt(2),
                },
                Emission::Alert {
                    kind: AlertKind::OrderLate,
                    at,
                    cause: Failure::new(FailureKind::TimedOut, "late", SCRIPT),
                },
            ];
        })
        .await;
    let said = world.get("/v1/operate/orders/o").await.json();
    let request = json!({"send": "request", "step": "pay", "direction": "forward", "attempt": 2,
        "message_id": "o/pay/forward/1/forward/2", "idempotency_key": "o/pay/forward/1"});
    assert_eq!(said["messages"][0], request);
    let alert = &said["messages"][1];
    assert_eq!(
        (&alert["kind"], &alert["topic"]),
        (&json!("order-late"), &json!("alerts"))
    );
    let page = text(&world.get("/console/orders/o").await);
    assert!(page.contains("not known to be sent: 2"), "{page}");
    for part in [
        "request for pay, action, attempt 2",
        "o/pay/forward/1/forward/2",
        alert["message_id"].as_str().expect("an id"),
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let list = world.get("/v1/operate/orders").await.json();
    assert_eq!(list["orders"][0]["messages"], said["messages"]);
}

#[tokio::test]
async fn from_the_list_of_versions_each_leads_to_what_it_changed() {
    let world = World::start().await;
    // In one millisecond nobody can tell which one is newer.
    let at = SystemClock.now();
    while SystemClock.now() <= at {
        tokio::task::yield_now().await;
    }
    let newer = publish(&world.store, "w", "other").await;
    let page = text(&world.get("/console/workflows").await);
    let (newer, older) = (&newer.hash, &world.workflow.hash);
    let link = format!("/console/workflows/w/{newer}?against={older}");
    let links = page.matches("?against=").count();
    assert_eq!(links, 1, "the first one changed nothing: {page}");
    assert!(page.contains(&link), "{page}");
    let compared = text(&world.get(&link).await);
    let change = "<code>changed  step pay: action</code>";
    assert!(compared.contains(change), "{compared}");
}

#[tokio::test]
async fn what_a_service_has_said_is_shown_and_obeyed_by_no_browser() {
    let world = World::start().await;
    let said = "a\u{202e}b\u{2066}c\u{1b}[2J\u{200b}";
    let at = SystemClock.now();
    let cause = Failure::new(FailureKind::Permanent, "x", said);
    world
        .order("o", |order| order.state = ProcessState::Error { at, cause })
        .await;
    for path in ["/console/orders/o", "/console/orders", "/console/"] {
        let page = text(&world.get(path).await);
        let obeyed = page
            .chars()
            .find(|c| said.contains(*c) && !" abc[2J".contains(*c));
        assert_eq!(obeyed, None, "{path}");
    }
    let page = text(&world.get("/console/orders/o").await);
    let shown = r"a\u202eb\u2066c\u001b[2J\u200b";
    assert!(page.contains(shown), "{page}");
}
