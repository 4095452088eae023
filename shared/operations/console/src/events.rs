//! Changes as server-sent events. All listeners share one look at the installation every two seconds; without a
//! listener there is none.
//!
//! Where an answer cannot be streamed, it holds the current events and ends. The browser reconnects after the `retry`
//! time with the last event's id, and unchanged events are not sent again.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, watch};
use triad_core::{CampaignId, OrderId, Timestamp};
use triad_operator::campaign::View;
use triad_operator::json as form;
use triad_operator::operations::{
    Asked, Caller, GetCampaign, GetCounts, GetOrder, ListCampaigns, ListDownstreams, Problem, ask,
};

use crate::answer::{self, Answer, EVENTS, events};
use crate::desk::{CachedText, Desk};
use crate::settings::{ASK_AGAIN, LISTEN_FOR, LOOK_EVERY, QUIET};

/// An event's name, and its data.
type Event = (&'static str, String);

/// The latest look, at most [`LOOK_EVERY`] old. The first caller after that looks; concurrent callers wait for its
/// result.
async fn recent(
    desk: &Desk,
    last: &CachedText,
    look: impl Future<Output = Result<Value, Problem>>,
) -> Result<Arc<str>, Problem> {
    let mut last = last.lock().await;
    let now = desk.operations.now();
    if let Some((at, seen)) = &*last
        && now.since(*at) < LOOK_EVERY
    {
        return Ok(Arc::clone(seen));
    }
    let seen: Arc<str> = look.await?.to_string().into();
    *last = Some((now, Arc::clone(&seen)));
    Ok(seen)
}

/// Counts and breakers.
async fn overview_counts(desk: &Desk, caller: &Caller) -> Result<Value, Problem> {
    let counts = executed(desk, caller, GetCounts::default()).await?.counts;
    let downstreams = executed(desk, caller, ListDownstreams::default())
        .await?
        .downstreams;
    let breakers = downstreams.iter().map(|one| {
        let state = one.record.breaker.name();
        (one.downstream.to_string(), state.into())
    });
    let mut seen = form::line("counts", &counts)?;
    seen["breakers"] = Value::Object(breakers.collect());
    Ok(seen)
}

async fn executed<Q: Asked>(desk: &Desk, caller: &Caller, asked: Q) -> Result<Q::Answer, Problem> {
    ask(&*desk.operations, caller, asked).await
}

/// State of the newest campaigns.
async fn look_at_campaigns(desk: &Desk, caller: &Caller) -> Result<Value, Problem> {
    let found = executed(desk, caller, ListCampaigns::default())
        .await?
        .campaigns;
    let all = found.iter().map(|view| {
        let mut stands = campaign_state(view);
        stands["id"] = json!(view.id);
        stands
    });
    Ok(all.collect())
}

/// State of a campaign.
fn campaign_state(view: &View) -> Value {
    json!({"phase": view.phase, "batch": view.batch, "orders": view.orders, "end": view.end})
}

/// The subjects that a listener follows beside the installation: the fields of the query.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Of {
    /// The id of the order to follow.
    order: Option<String>,
    /// The id of the campaign to follow.
    campaign: Option<String>,
    /// Whether to follow all campaigns.
    campaigns: bool,
}

impl Of {
    fn check(&self) -> Result<(), Problem> {
        if let Some(id) = &self.order {
            OrderId::new(id.as_str()).map_err(|e| Problem::bad("bad-order-id", e.to_string()))?;
        }
        if let Some(id) = &self.campaign {
            let read = id.parse::<CampaignId>();
            read.map_err(|e| Problem::bad("bad-campaign-id", e.to_string()))?;
        }
        Ok(())
    }
}

/// One listener.
struct Listener {
    desk: Arc<Desk>,
    caller: Caller,
    of: Of,
    /// Last data sent: of the installation, of the order, of the campaign, and of all campaigns.
    told: [String; 4],
    /// Events that are not sent yet.
    waiting: Vec<Bytes>,
    began: Timestamp,
    spoke: Timestamp,
    is_first: bool,
    stopping: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

/// Streams changes: counts and breakers and, if the listener follows them, the version of an order and the state of
/// one campaign or all. The headers may hold the last event's id.
pub(crate) async fn listen(
    desk: &Arc<Desk>,
    caller: Caller,
    of: Of,
    headers: &HeaderMap,
) -> Result<Answer, Problem> {
    of.check()?;
    let mut listener = Listener::new(desk, caller, of)?;
    if desk.settings.whole_answers {
        listener.look().await;
        return Ok(once(&listener.waiting, headers));
    }
    let said = stream::unfold(listener, |mut listener| async move {
        let next = listener.next().await?;
        Some((next, listener))
    });
    Ok(events(said))
}

/// The events of one look; only the `retry` time if the caller has them already.
fn once(said: &[Bytes], headers: &HeaderMap) -> Answer {
    let said = said.concat();
    let id = Sha256::digest(&said);
    let id: String = id.iter().take(8).map(|b| format!("{b:02x}")).collect();
    let retry = format!("retry: {}\nid: {id}\n", ASK_AGAIN.0);
    let is_known = headers.get("last-event-id").is_some_and(|last| *last == id);
    let body = match is_known {
        true => format!("{retry}\n").into_bytes(),
        false => [retry.as_bytes(), &said].concat(),
    };
    answer::of(StatusCode::OK, EVENTS, body)
}

/// The version of an order's record; `None` if no order is followed or none can be read.
async fn of_order(desk: &Desk, caller: &Caller, id: Option<&String>) -> Option<Event> {
    let asked = GetOrder {
        id: id?.clone(),
        inputs: false,
    };
    let version = match executed(desk, caller, asked).await {
        Ok(found) => Some(found.order.version),
        Err(problem) if problem.status == 404 => None,
        Err(problem) if problem.status == 503 => return Some(unavailable()),
        Err(_) => return None,
    };
    Some(("order", json!({"version": version}).to_string()))
}

/// State of a campaign; `None` if no campaign is followed or none can be read.
async fn of_campaign(desk: &Desk, caller: &Caller, id: Option<&String>) -> Option<Event> {
    match executed(desk, caller, GetCampaign { id: id?.clone() }).await {
        Ok(found) => Some(("campaign", campaign_state(&found.0).to_string())),
        Err(problem) if problem.status == 503 => Some(unavailable()),
        Err(_) => None,
    }
}

fn event(name: &'static str, seen: Result<Arc<str>, Problem>) -> Event {
    match seen {
        Ok(seen) => (name, seen.to_string()),
        Err(problem) => ("fault", json!({"code": problem.code}).to_string()),
    }
}

fn unavailable() -> Event {
    ("fault", json!({"code": "store-unavailable"}).to_string())
}

impl Listener {
    fn new(desk: &Arc<Desk>, caller: Caller, of: Of) -> Result<Self, Problem> {
        let place = Arc::clone(&desk.listeners).try_acquire_owned();
        let text = "as many listen as may";
        let place = place.map_err(|_| Problem::later("too-many-listeners", text, 10))?;
        let now = desk.operations.now();
        Ok(Self {
            desk: Arc::clone(desk),
            caller,
            of,
            told: Default::default(),
            waiting: Vec::new(),
            began: now,
            spoke: now,
            is_first: true,
            stopping: desk.stopping.subscribe(),
            _place: place,
        })
    }

    /// The next event; `None` when the listener's time is over or the server stops.
    async fn next(&mut self) -> Option<Bytes> {
        // The loop ends after the longest time that a listener may have.
        loop {
            if !self.waiting.is_empty() {
                self.spoke = self.desk.operations.now();
                return Some(self.waiting.remove(0));
            }
            if *self.stopping.borrow() || self.desk.operations.now().since(self.began) >= LISTEN_FOR
            {
                return None;
            }
            if !std::mem::replace(&mut self.is_first, false) {
                let desk = Arc::clone(&self.desk);
                tokio::select! {
                    () = desk.operations.sleep(LOOK_EVERY) => {}
                    changed = self.stopping.changed() => if changed.is_err() { return None },
                }
            }
            self.look().await;
            if self.waiting.is_empty() && self.desk.operations.now().since(self.spoke) >= QUIET {
                self.waiting
                    .push(Bytes::from_static(b": nothing has changed\n\n"));
            }
        }
    }

    async fn look(&mut self) {
        let (desk, caller) = (Arc::clone(&self.desk), self.caller.clone());
        let seen = recent(&desk, &desk.seen, overview_counts(&desk, &caller)).await;
        self.tell(0, event("counts", seen));
        if let Some(order) = of_order(&desk, &caller, self.of.order.as_ref()).await {
            self.tell(1, order);
        }
        if let Some(campaign) = of_campaign(&desk, &caller, self.of.campaign.as_ref()).await {
            self.tell(2, campaign);
        }
        if self.of.campaigns {
            let seen = recent(
                &desk,
                &desk.seen_campaigns,
                look_at_campaigns(&desk, &caller),
            )
            .await;
            self.tell(3, event("campaigns", seen));
        }
    }

    fn tell(&mut self, which: usize, (event, data): Event) {
        let said = format!("event: {event}\ndata: {data}\n\n");
        if self.told[which] != said {
            self.told[which].clone_from(&said);
            self.waiting.push(said.into());
        }
    }
}
