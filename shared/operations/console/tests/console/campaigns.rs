//! Campaigns on the pages and in the API: roles, content, hidden fields.

use serde_json::json;
use triad_console::Hidden;
use triad_console::tokens::{NewToken, Role};

use crate::common::{World, cookie, csrf_token, send_form, text};

const ROOT: &str = "/v1/operate/campaigns";

#[tokio::test]
async fn who_may_look_alone_starts_stops_and_resumes_none() {
    let reader = NewToken::make("reader", &[Role::Read]).unwrap();
    let world = World::with(triad_console::Settings::default(), Some(&reader.line)).await;
    let token = format!("Bearer {}", reader.token);
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &*token),
    ];
    let start = json!({"act": "close", "filter": {"state": "Error"}, "why": "w"}).to_string();
    let change = json!({"why": "w"}).to_string();
    for (path, body) in [
        (ROOT.to_owned(), &start),
        (format!("{ROOT}/c-0000000000000000/stop"), &change),
        (format!("{ROOT}/c-0000000000000000/resume"), &change),
    ] {
        let said = world
            .client
            .send("POST", &path, &headers, body.as_bytes())
            .await;
        assert_eq!(said.status, 403, "{path}: {said:?}");
    }
    let said = world.client.send("GET", ROOT, &headers, b"").await;
    assert_eq!(said.json()["campaigns"], json!([]));
}

#[tokio::test]
async fn a_corrected_value_that_is_hidden_is_shown_to_nobody() {
    let settings = triad_console::Settings {
        hidden: Hidden::of(["card".to_owned()]),
        ..triad_console::Settings::default()
    };
    let world = World::with(settings, None).await;
    let wanted = json!({"act": "resubmit", "filter": {"state": "Error"}, "step": "pay",
        "set": ["card=4711", "amount=7"], "why": "w", "by": "ann", "dry_run": false});
    let started = world.act(ROOT, &wanted).await.json();
    let set = &started["correction"]["set"];
    assert_eq!(set, &json!(["card=\"(hidden)\"", "amount=7"]), "{started}");
    let page = format!("/console/campaigns/{}", started["id"].as_str().unwrap());
    let page = text(&world.get(&page).await);
    assert!(
        !page.contains("4711") && page.contains("amount=7"),
        "{page}"
    );
}

#[tokio::test]
async fn a_campaign_is_started_from_a_list_of_orders_and_its_page_says_what_came_of_each() {
    let world = World::start().await;
    for n in 0..3 {
        world.failed(&format!("a-{n}"), "x").await;
    }
    let list = world.get("/console/orders?state=Error").await;
    let (cookie, word) = (cookie(&list), csrf_token(&text(&list)));
    let form = [
        ("word", &*word),
        ("filter_state", "Error"),
        // The campaign acts on all matching orders; the orders chosen on the page are not sent.
        ("scope", "chosen"),
        ("orders", "a-0"),
        ("act", "close"),
        ("by", "ann"),
        ("why", "by hand"),
        ("do", "campaign"),
        ("stop_share", "50"),
    ];
    let said = send_form(&world, "/console/act", &cookie, &form).await;
    assert_eq!(said.status, 303, "{said:?}");
    world.carry_on().await;
    let list = world.get(ROOT).await.json();
    let campaign = &list["campaigns"][0];
    // The answer redirects to the campaign's page, which can be reloaded.
    let page = format!("/console/campaigns/{}", campaign["id"].as_str().unwrap());
    assert_eq!(said.header("location"), Some(&*page));
    assert_eq!(
        (&campaign["end"], &campaign["orders"]["done"]),
        (&json!("finished"), &json!(3)),
        "{campaign}"
    );
    assert_eq!(campaign["stop_share"], 50);
    let page = format!(
        "/console/campaigns/{}?batch=1",
        campaign["id"].as_str().unwrap()
    );
    let page = text(&world.get(&page).await);
    for part in ["finished", "by hand", "/console/orders/a-0"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[tokio::test]
async fn whoever_listens_to_a_campaign_or_to_all_is_told_its_end() {
    let world = World::start().await;
    world.failed("a-0", "x").await;
    let wanted = json!({"act": "close", "filter": {"state": "Error"}, "why": "w", "by": "ann",
        "dry_run": false});
    let started = world.act(ROOT, &wanted).await.json();
    let id = started["id"].as_str().unwrap();
    let listen = async |query: &str| {
        let path = format!("/v1/operate/events?{query}");
        world.client.listen(&path).await
    };
    let mut one = listen(&format!("campaign={id}")).await;
    let mut all = listen("campaigns=true").await;
    let first = one.until(Some("event: campaign\n")).await;
    assert!(first.contains("\"end\":null"), "{first}");
    let first = all.until(Some("event: campaigns\n")).await;
    assert!(first.contains(&format!("\"id\":\"{id}\"")), "{first}");
    world.carry_on().await;
    one.until(Some("\"end\":\"finished\"")).await;
    let last = all.until(Some("\"end\":\"finished\"")).await;
    assert!(
        !last.contains("event: campaign\n"),
        "nobody asked for one: {last}"
    );
}
