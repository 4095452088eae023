//! An order's trace on its page: the id, the link if a trace viewer is configured, and whether the trace is complete.

use serde_json::json;
use triad_console::Settings;

use crate::common::{World, text};

const ID: &str = "00000000000000000000000000004711";

/// Three orders: one in a sampled trace, one in a trace that is not sampled, and one without a trace.
async fn world(trace_url: Option<&str>) -> World {
    let settings = Settings {
        trace_url: trace_url.map(|url| url.parse().unwrap()),
        ..Settings::default()
    };
    let world = World::with(settings, None).await;
    for (id, flags) in [("kept", "01"), ("failed", "00")] {
        let context = format!("00-{ID}-b7ad6b7169203331-{flags}");
        world
            .order(id, |order| order.traceparent = Some(context))
            .await;
    }
    world.order("none", |_| {}).await;
    world
}

#[tokio::test]
async fn an_order_leads_to_its_trace_where_it_is_known_where_that_is() {
    let world = world(Some("https://traces.example/?id={trace}&x=\"1\"")).await;
    let link = format!(
        "<a href=\"https://traces.example/?id={ID}&amp;x=&quot;1&quot;\" target=\"_blank\""
    );
    for (id, is_whole) in [("kept", true), ("failed", false)] {
        let page = text(&world.get(&format!("/console/orders/{id}")).await);
        assert!(page.contains(&link), "{id}: {page}");
        assert_eq!(!page.contains("not sampled"), is_whole, "{id}");
        let order = world.get(&format!("/v1/operate/orders/{id}")).await.json();
        let url = format!("https://traces.example/?id={ID}&x=\"1\"");
        let trace = json!({"trace_id": ID, "sampled": is_whole, "url": url});
        assert_eq!(order["trace"], trace, "{id}");
    }
}

#[tokio::test]
async fn without_a_place_for_traces_the_id_is_shown_and_without_a_trace_nothing() {
    let world = world(None).await;
    let page = text(&world.get("/console/orders/kept").await);
    assert!(page.contains(ID) && !page.contains("https://"), "{page}");
    let order = world.get("/v1/operate/orders/kept").await.json();
    assert_eq!(order["trace"], json!({"trace_id": ID, "sampled": true}));
    let page = text(&world.get("/console/orders/none").await);
    assert!(!page.contains("id=\"trace\""), "{page}");
    let order = world.get("/v1/operate/orders/none").await.json();
    assert!(order.get("trace").is_none(), "{order}");
}
