//! Every page: foreign text is escaped, all resources are local, and hidden fields are hidden.

use serde_json::{Value, json};
use triad_console::{Hidden, Settings};
use triad_core::breaker::Breaker;
use triad_core::children::Parent;
use triad_core::downstream::Downstream;
use triad_core::message::{Alert, AlertKind};
use triad_core::order::{Hold, OperatorAct};
use triad_core::outbox::Emission;
use triad_core::{
    Attempt, Direction, Failure, FailureKind, Order, Priority, ProcessState, Timestamp,
};
use triad_runtime::pressure::{self, Pressure, Report};
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, Clock, ControlStore, ControlWrite, StateStore, Written};
use triad_workflow::{AgentName, Millis};

use crate::common::{World, error, publish, publish_definition, text};

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
        "/alerts",
        "/no-such-page/%3Cscript%3E",
    ]
    .into_iter()
    .map(|path| format!("/console{path}"))
    .collect()
}

/// The page of an order that runs others, and those of its workflow and of one of the others.
#[tokio::test]
async fn parent_and_child_orders_are_linked_and_drawn() {
    let mut world = World::start().await;
    let definition = json!({"workflow": "w", "steps": [{"id": "ship", "for_each": "details.lines",
        "agent": "bank", "action": "go", "compensation": "none"}]});
    world.workflow = publish_definition(&world.store, definition).await;
    let children = json!({"since": 7, "all": "ppfr"});
    let parent = world.order("a", |order| {
        order.steps[0].children = serde_json::from_value(children).unwrap();
    });
    let parent = parent.await;
    let step = parent.steps[0].step.clone();
    let child = world.order("a:ship:2", |order| {
        order.parent = Some(Box::new(Parent {
            order_id: parent.id.clone(),
            step,
            number: 2,
            attempt: 0,
            depth: 1,
        }));
    });
    child.await;
    let page = text(&world.get("/console/orders/a").await);
    for shown in [
        "ship: 4 child orders: 2 Processed, 1 failed, 1 under way",
        "failed: <a href=\"/console/orders/a%3Aship%3A2\">a:ship:2</a>",
        "href=\"/console/orders?parent=a\"",
        ", 2/4</text>",
    ] {
        assert!(page.contains(shown), "{shown} in {page}");
    }
    let page = text(&world.get("/console/orders/a%3Aship%3A2").await);
    let link = "<a href=\"/console/orders/a\">a</a>, step ship, number 2";
    assert!(page.contains(link), "{page}");
    let page = text(&world.get("/console/orders?parent=a").await);
    assert!(
        page.contains("a:ship:2</a>") && !page.contains(">a</a>"),
        "{page}"
    );
    let path = format!("/console/workflows/w/{}", world.workflow.hash);
    let page = text(&world.get(&path).await);
    assert!(
        page.contains("runs child orders</text>") && !page.contains(">waits<"),
        "{page}"
    );
}

#[tokio::test]
async fn what_became_of_a_downstream_is_told_the_newest_first() {
    let world = world().await;
    for (act, why) in [("pause", "it is <slow>"), ("resume", "it is well")] {
        let body =
            json!({"act": act, "downstream": "bank", "why": why, "by": "ann", "dry_run": false});
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

/// Orders need two services, of which one is down.
#[tokio::test]
async fn an_outage_is_the_first_thing_on_the_overview() {
    let world = world().await;
    let now = SystemClock.now();
    assert!(!text(&world.get("/console/").await).contains("is down"));
    let open = Breaker::Open {
        opens: 3,
        until: now.plus(Millis(60_000)),
    };
    let began = now.minus(Millis(300_000));
    let down = Downstream::default().with_breaker(open, "5 of 5 calls <failed>", began);
    let record = ControlWrite {
        key: "downstream/bank".to_owned(),
        value: serde_json::to_value(down).unwrap(),
        expected: None,
        expires: None,
        token: 1,
    };
    assert_eq!(world.store.write(record).await, Ok(Written::Written));
    let waits = |agent: &str, shut_until: Timestamp| Pressure {
        agent: Some(AgentName::new(agent).unwrap()),
        lane: Priority::Normal,
        under_way: 0,
        bound: 16,
        waited: Millis(0),
        shut_until,
        waiting: 1_593,
        oldest: Some(began),
    };
    let report = Report {
        at: now,
        downstreams: vec![
            waits("bank", now.plus(Millis(60_000))),
            waits("stock", Timestamp(0)),
        ],
    };
    pressure::report(&world.store, 0, &report, 2).await.unwrap();
    let page = text(&world.get("/console/").await);
    let top = page.split_once("<h1>Overview</h1>").expect("a title").1;
    let (top, rest) = top.split_once("<ul").expect("figures");
    for told in [
        "bank</a> is down",
        "for 5 min",
        "Why: 5 of 5 calls &lt;failed&gt;",
        "1593 orders wait</a> for it",
        "In the last minute",
        "Triad calls it again at",
    ] {
        assert!(top.contains(told), "{told} in {top}");
    }
    assert!(!top.contains("stock"), "{top}");
    assert_eq!(rest.matches("1593 wait").count(), 1, "{rest}");
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
    let mut told = [
        alert("older", hour),
        alert("e<script>", Millis(0)),
        alert("second", hour),
        alert("long ago", Millis(25 * 3_600_000)),
    ];
    told[0].cause = "another".to_owned();
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
    assert!(alerts.contains("<td class=\"number\">3</td>"), "{alerts}");
    assert_eq!(of("second"), None, "it is one with the newest");

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
        // The only script is a file of this server; the page has no inline script.
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
    assert_eq!(
        world.get("/console/assets/../..%2Fsecret").await.status,
        404
    );
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
        // Every input field has a label.
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
    assert!(page.contains("not noted as acknowledged: 2"), "{page}");
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
    // Records of the same millisecond are in no fixed order, so each gets another time.
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

/// All orders, as the test computes every figure from them.
struct Listed(Vec<Order>);

impl Listed {
    async fn of(world: &World) -> Self {
        let (mut orders, mut page) = (Vec::new(), None);
        loop {
            let got = world.store.list(None, page).await.unwrap();
            orders.extend(got.orders);
            page = match got.next {
                Some(next) => Some(next),
                None => return Self(orders),
            };
        }
    }

    fn count(&self, is: impl Fn(&Order) -> bool) -> u64 {
        self.0.iter().filter(|order| is(order)).count() as u64
    }

    /// The number of orders in a state as lists show them, which omit closed orders.
    fn in_state(&self, name: &str) -> u64 {
        self.count(|order| order.state.name() == name && order.closed.is_none())
    }
}

/// Compares each figure of the console and of its API with the list of all orders.
async fn figures_are_those_of_the_list(world: &World) {
    let (all, now) = (Listed::of(world).await, world.clock.now());
    let closed = all.count(|order| order.closed.is_some());
    let under_way = all.count(|order| !order.state.is_finished());
    let paused = all.count(|order| order.paused.is_some());
    let within = |at: Timestamp| now.since(at).0 < 60_000;
    let finished = all.count(|order| order.state.finished_at().is_some_and(within));
    let submitted = all.count(|order| within(order.submitted_at));

    let counts = world.get("/v1/operate/counts").await.json();
    for name in ProcessState::NAMES {
        assert_eq!(counts["orders"][name], all.in_state(name), "{name}");
        let list = format!("/v1/operate/orders?state={name}&limit=500");
        let list = world.get(&list).await.json();
        let shown = list["orders"].as_array().unwrap().len() as u64;
        assert_eq!(shown, all.in_state(name).min(500), "{name}");
    }
    assert_eq!(counts["orders"]["closed"], closed);
    assert_eq!(counts["under_way"]["orders"], under_way);
    let needing = [
        all.in_state("Error"),
        all.in_state("CompensationFailed"),
        paused,
    ];
    for (at, orders) in needing.iter().enumerate() {
        assert_eq!(counts["needing"][at]["orders"], *orders);
        assert_eq!(counts["needing"][at]["more"], false);
    }
    let minute = &counts["rates"][0];
    let by_state = minute["finished"].as_object().unwrap().values();
    let sum: u64 = by_state.map(|n| n.as_u64().unwrap()).sum();
    assert_eq!((sum, &minute["submitted"]), (finished, &json!(submitted)));

    let causes = world.get("/v1/operate/causes").await.json();
    let groups = causes["causes"].as_array().unwrap().iter();
    let sum: u64 = groups.map(|group| group["orders"].as_u64().unwrap()).sum();
    assert_eq!(sum, needing[0] + needing[1]);

    let page = text(&world.get("/console/").await);
    let tile = |label: &str| {
        let (before, _) = page
            .split_once(&format!(">{label}</span>"))
            .expect("a tile");
        let (_, figure) = before.rsplit_once("<span class=\"figure\">").unwrap();
        figure.split_once('<').unwrap().0.parse::<u64>().unwrap()
    };
    assert_eq!(tile("under way"), under_way);
    assert_eq!(tile("finished in the last minute"), finished);
    assert_eq!(tile("closed by an operator"), closed);
    for name in ProcessState::NAMES {
        let link = format!("href=\"/console/orders?state={name}\"><span class=\"figure\">");
        let tiles = page.split(&link);
        let figures: Vec<&str> = tiles
            .skip(1)
            .map(|t| t.split_once('<').unwrap().0)
            .collect();
        assert!(!figures.is_empty());
        for figure in figures {
            let orders = if name == "Processing" && figure == under_way.to_string() {
                under_way
            } else {
                all.in_state(name)
            };
            assert_eq!(
                figure,
                orders.to_string(),
                "{name}: one number for one thing"
            );
        }
    }
    let stored = format!("{} orders are stored.", all.0.len());
    assert!(page.contains(&stored), "{stored}");

    let versions = world.get("/v1/operate/workflows").await.json();
    let workflows = text(&world.get("/console/workflows").await);
    for version in versions["versions"].as_array().unwrap() {
        let hash = version["version"].as_str().unwrap();
        let of = |order: &Order| order.workflow.hash.as_str() == hash;
        let here = all.count(|order| of(order) && !order.state.is_finished());
        let ended = all.count(|order| of(order) && order.state.is_finished());
        assert_eq!(version["under_way"], here, "{hash}");
        assert_eq!(version["finished"], ended, "{hash}");
        let cells = format!("<td class=\"number\">{here}</td><td class=\"number\">{ended}</td>");
        assert!(workflows.contains(&cells), "{cells}");
    }
}

#[tokio::test]
async fn every_figure_is_what_is_stored_also_a_minute_later_and_beyond_a_thousand_orders() {
    let mut world = World::start().await;
    let now = SystemClock.now();
    let ago = |seconds: u64| now.minus(Millis(seconds * 1_000));
    let processed = |submitted: Timestamp, at: Timestamp| {
        move |order: &mut Order| {
            order.submitted_at = submitted;
            order.state = ProcessState::Processed { at };
        }
    };
    // Old orders, which finished quickly.
    let old = (0..1_500).map(|n| (format!("old-{n}"), processed(ago(2_700), ago(2_697))));
    world.orders(old.collect()).await;
    // Recent orders on a newer version, which take longer.
    world.workflow = publish(&world.store, "w", "other").await;
    let new = (0..40).map(|n| (format!("new-{n}"), processed(ago(25), ago(3))));
    world.orders(new.collect()).await;
    let hold = || Hold {
        at: SystemClock.now(),
        act: OperatorAct::new("ann", "by hand"),
    };
    for n in 0..9 {
        let state = error("x");
        let is_closed = n < 4;
        let failed = |order: &mut Order| {
            order.state = state;
            order.closed = is_closed.then(hold);
        };
        world.order(&format!("failed-{n}"), failed).await;
    }
    for n in 0..5 {
        let paused = (n < 2).then(hold);
        world
            .order(&format!("alive-{n}"), |order| order.paused = paused)
            .await;
    }
    figures_are_those_of_the_list(&world).await;
    let counts = world.get("/v1/operate/counts").await.json();
    assert_eq!(
        counts["rates"][0]["finished"],
        json!({"Error": 9, "Processed": 40})
    );
    assert_eq!(counts["rates"][0]["p50_ms"], 22_000);
    assert_eq!(counts["rates"][2]["p50_ms"], 3_000);
    assert_eq!(counts["orders"]["Processed"], 1_540);

    world.clock.by(Millis(61_000));
    figures_are_those_of_the_list(&world).await;
    let counts = world.get("/v1/operate/counts").await.json();
    let minute = &counts["rates"][0];
    assert_eq!(
        (&minute["finished"], &minute["p50_ms"]),
        (&json!({}), &Value::Null)
    );
}
