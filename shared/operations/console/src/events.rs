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
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, watch};
use triad_core::{CampaignId, OrderId, Timestamp};
use triad_operator::campaign::View;
use triad_operator::campaign::commands::{self as campaigns, CampaignError};
use triad_operator::{counts, downstreams, find, json as form};
use triad_runtime::{Clock, StoreError};

use crate::answer::{self, Answer, EVENTS, events};
use crate::installation::Installation;
use crate::problem::Problem;
use crate::settings::{ASK_AGAIN, CAMPAIGNS, LISTEN_FOR, LOOK_EVERY, QUIET};
use crate::shared_state::{CachedText, Desk};

/// An event's name, and its data.
type Event = (&'static str, String);

/// The latest look, at most [`LOOK_EVERY`] old. The first caller after that looks; concurrent callers wait for its
/// result.
async fn recent<I: Installation>(
    desk: &Desk<I>,
    last: &CachedText,
    look: impl Future<Output = Result<Value, Problem>>,
) -> Result<Arc<str>, Problem> {
    let mut last = last.lock().await;
    let now = desk.now();
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
async fn overview_counts<I: Installation>(desk: &Desk<I>) -> Result<Value, Problem> {
    let store = desk.of.store();
    let counts = counts::counts(store, desk.now()).await?;
    let published = downstreams::Published::read(store).await;
    let mut breakers = serde_json::Map::new();
    for agent in published.map_err(problem_of)?.agents() {
        let found = downstreams::view(store, &agent).await?;
        breakers.insert(agent.to_string(), found.record.breaker.name().into());
    }
    let mut seen = form::line("counts", &counts)?;
    seen["breakers"] = Value::Object(breakers);
    Ok(seen)
}

/// State of the newest campaigns.
async fn look_at_campaigns<I: Installation>(desk: &Desk<I>) -> Result<Value, Problem> {
    let found = campaigns::list(desk.of.store(), CAMPAIGNS).await?;
    let all = found.iter().map(|found| {
        let view = View::of(found);
        let mut stands = campaign_state(&view);
        stands["id"] = json!(view.id);
        stands
    });
    Ok(all.collect())
}

/// State of a campaign.
fn campaign_state(view: &View) -> Value {
    json!({"phase": view.phase, "batch": view.batch, "orders": view.orders, "end": view.end})
}

fn problem_of(error: downstreams::DownstreamError) -> Problem {
    match error {
        downstreams::DownstreamError::Store(e) => e.into(),
        other => Problem::internal(other.to_string()),
    }
}

/// The subjects that a listener follows beside the installation.
#[derive(Debug, Default)]
pub(crate) struct Of {
    /// The order to follow.
    pub(crate) order: Option<OrderId>,
    /// The campaign to follow.
    pub(crate) campaign: Option<CampaignId>,
    /// Whether to follow all campaigns.
    pub(crate) campaigns: bool,
}

/// One listener.
struct Listener<I> {
    desk: Arc<Desk<I>>,
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
pub(crate) async fn listen<I: Installation>(
    desk: &Arc<Desk<I>>,
    of: Of,
    headers: &HeaderMap,
) -> Result<Answer, Problem> {
    let mut listener = Listener::new(desk, of)?;
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
async fn of_order<I: Installation>(desk: &Desk<I>, id: Option<&OrderId>) -> Option<Event> {
    match find::by_id(desk.of.store(), id?.clone()).await {
        Ok(found) => {
            let version = found.map(|order| order.version);
            Some(("order", json!({"version": version}).to_string()))
        }
        Err(StoreError::Item(_)) => None,
        Err(_) => Some(unavailable()),
    }
}

/// State of a campaign; `None` if no campaign is followed or none can be read.
async fn of_campaign<I: Installation>(desk: &Desk<I>, id: Option<&CampaignId>) -> Option<Event> {
    match campaigns::by_id(desk.of.store(), id?).await {
        Ok(found) => Some(("campaign", campaign_state(&View::of(&found)).to_string())),
        Err(CampaignError::Store(_)) => Some(unavailable()),
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

impl<I: Installation> Listener<I> {
    fn new(desk: &Arc<Desk<I>>, of: Of) -> Result<Self, Problem> {
        let place = Arc::clone(&desk.listeners).try_acquire_owned();
        let text = "as many listen as may";
        let place = place.map_err(|_| Problem::later("too-many-listeners", text, 10))?;
        let now = desk.now();
        Ok(Self {
            desk: Arc::clone(desk),
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
                self.spoke = self.desk.now();
                return Some(self.waiting.remove(0));
            }
            if *self.stopping.borrow() || self.desk.now().since(self.began) >= LISTEN_FOR {
                return None;
            }
            if !std::mem::replace(&mut self.is_first, false) {
                let desk = Arc::clone(&self.desk);
                tokio::select! {
                    () = desk.of.clock().sleep(LOOK_EVERY) => {}
                    changed = self.stopping.changed() => if changed.is_err() { return None },
                }
            }
            self.look().await;
            if self.waiting.is_empty() && self.desk.now().since(self.spoke) >= QUIET {
                self.waiting
                    .push(Bytes::from_static(b": nothing has changed\n\n"));
            }
        }
    }

    async fn look(&mut self) {
        let desk = Arc::clone(&self.desk);
        let seen = recent(&desk, &desk.seen, overview_counts(&desk)).await;
        self.tell(0, event("counts", seen));
        if let Some(order) = of_order(&desk, self.of.order.as_ref()).await {
            self.tell(1, order);
        }
        if let Some(campaign) = of_campaign(&desk, self.of.campaign.as_ref()).await {
            self.tell(2, campaign);
        }
        if self.of.campaigns {
            let seen = recent(&desk, &desk.seen_campaigns, look_at_campaigns(&desk)).await;
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
