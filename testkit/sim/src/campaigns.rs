//! Campaigns in the world: operators who start, stop and resume them, Supervisors who carry them on, and what
//! must hold of what they leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use triad_core::{CampaignId, OperatorAct, OrderId, Timestamp};
use triad_operator::Rate;
use triad_operator::campaign::desk::{self, CampaignError, Wanted};
use triad_operator::campaign::{
    Batch, Campaign, Campaigns, Counts, Done, End, Entry, Pace, Phase, What,
};
use triad_operator::find::{CausePattern, Filter};
use triad_workflow::Millis;

use crate::checks::Findings;
use crate::kernel::{InstanceId, OUTSIDE, Owner};
use crate::ports::Ports;
use crate::setup::SWEEP_MS;
use crate::world::{State, World};

/// Longest turn at the campaigns.
const TURN: Millis = Millis(5_000);

/// What carries campaigns on.
pub(crate) type Carrier = Campaigns<Ports, Ports, Ports, Ports>;

/// Starts the loop of a Supervisor that carries campaigns on, where the world has any.
pub(crate) fn carry_on(world: &World, who: InstanceId, carrier: Arc<Carrier>) {
    if !world.state().setup.campaigns {
        return;
    }
    let world = world.clone();
    world.clone().spawn(Owner::Instance(who), async move {
        loop {
            let pause = world.state().kernel.rng.between(SWEEP_MS / 4, SWEEP_MS);
            world.sleep(pause).await;
            let report = carrier.carry_on(TURN).await;
            if report.known > 0 {
                let what = "campaign: met an order that it had acted on";
                world.state().kernel.coverage.reach(what);
            }
            if report.alive > 0 {
                world.state().kernel.note(who, || format!("{report:?}"));
            }
        }
    });
}

/// Starts an operator who starts campaigns, stops them and has them go on, until the faults stop.
pub(crate) fn work(world: &World, who: InstanceId) {
    if !world.state().setup.campaigns {
        return;
    }
    let world = world.clone();
    world.clone().spawn(Owner::Instance(who), async move {
        let ports = Ports::new(world.clone(), who);
        // Bounded: the faults stop.
        loop {
            let pause = world.state().kernel.rng.between(1_000, 12_000);
            world.sleep(pause).await;
            let which = {
                let mut state = world.state();
                if state.kernel.calm_since.is_some() || state.kernel.faults_left == 0 {
                    return;
                }
                state.kernel.rng.below(100)
            };
            let came = match which {
                0..60 => start(&world, &ports).await,
                60..75 => change(&world, &ports, false).await,
                _ => change(&world, &ports, true).await,
            };
            if let Some(what) = came {
                world.state().kernel.coverage.reach(what);
            }
        }
    });
}

fn now(world: &World) -> Timestamp {
    Timestamp(world.now())
}

fn act() -> OperatorAct {
    OperatorAct::new("somebody", "many at once")
}

/// Any act on what it is for, and now and then on what it is not for.
fn wanted(state: &mut State) -> Wanted {
    let rng = &mut state.kernel.rng;
    let (what, of) = match rng.below(8) {
        0..4 => (What::Resubmit, "Error"),
        4 => (What::Cancel, "Error"),
        5 => (What::RetryUndo, "CompensationFailed"),
        6 => (What::Close, "CompensationFailed"),
        _ => (What::Resume, "Paused"),
    };
    let of = *rng.pick(&[of, of, of, "Error", "Processing"]);
    let state = Some(of.parse().expect("a state"));
    let filter = match rng.below(4) {
        0 if of == "Error" => Filter {
            cause: Some(CausePattern("*".to_owned())),
            ..Filter::default()
        },
        _ => Filter {
            state,
            ..Filter::default()
        },
    };
    Wanted {
        what,
        filter,
        operator: act(),
        pace: Pace {
            rate: Rate::new(*rng.pick(&[1, 20, 1_000])).expect("a rate"),
            stop_share: *rng.pick(&[1, 20, 50, 100]),
            patience: Millis(*rng.pick(&[1_000, 10_000, 60_000])),
        },
    }
}

async fn start(world: &World, ports: &Ports) -> Option<&'static str> {
    let wanted = wanted(&mut world.state());
    world
        .state()
        .kernel
        .note(OUTSIDE, || format!("wants a campaign: {wanted:?}"));
    match desk::start(ports, ports, wanted, now(world)).await {
        Ok(_) => Some("campaign: started"),
        Err(CampaignError::Same(_)) => Some("campaign: refused, another does the same"),
        Err(_) => None,
    }
}

async fn change(world: &World, ports: &Ports, resumes: bool) -> Option<&'static str> {
    let all = desk::list(ports, usize::MAX).await.ok()?;
    let is_over = |phase: &Phase| matches!(phase, Phase::Ended { .. });
    let ids = all.iter().filter(|c| is_over(&c.campaign.phase) == resumes);
    let ids: Vec<&CampaignId> = ids.map(|c| &c.campaign.id).collect();
    let id = match ids.is_empty() {
        true => return None,
        false => (*world.state().kernel.rng.pick(&ids)).clone(),
    };
    let (at, act) = (now(world), act());
    match resumes {
        true => desk::resume(ports, ports, &id, &act, at)
            .await
            .ok()
            .map(|_| "campaign: resumed"),
        false => desk::stop(ports, ports, &id, &act, at)
            .await
            .ok()
            .map(|_| "campaign: stopped"),
    }
}

/// Stops what is under way, when the faults have stopped: what it has set going must come to rest.
pub(crate) async fn stop_all(world: &World) {
    if !world.state().setup.campaigns {
        return;
    }
    let ports = Ports::new(world.clone(), OUTSIDE);
    let Ok(all) = desk::list(&ports, usize::MAX).await else {
        return;
    };
    for standing in all {
        if !matches!(standing.campaign.phase, Phase::Ended { .. }) {
            let (id, at) = (standing.campaign.id, now(world));
            let _ = desk::stop(&ports, &ports, &id, &act(), at).await;
        }
    }
}

fn read<T: DeserializeOwned>(state: &State, key: &str) -> Option<T> {
    let found = state.control.read(0, key)?;
    serde_json::from_value(found.value).ok()
}

/// What must hold of every campaign at the end of a world.
pub(crate) fn check(state: &State, found: &mut Findings) {
    let mut acted: BTreeMap<CampaignId, Vec<OrderId>> = BTreeMap::new();
    for order in state.store.orders() {
        let acts = order.incidents.iter().filter_map(|line| line.act.as_ref());
        for campaign in acts.filter_map(|act| act.campaign.clone()) {
            acted.entry(campaign).or_default().push(order.id.clone());
        }
    }
    for (id, orders) in acted {
        let campaign: Option<Campaign> = read(state, &format!("campaign/{id}"));
        let batches: Vec<Batch> = (1..)
            .map_while(|n| read(state, &format!("campaign/{id}/{n}")))
            .collect();
        found.check(
            "a-campaign-that-acted-is-stored",
            campaign.is_some(),
            || id.to_string(),
        );
        let Some(campaign) = campaign else {
            continue;
        };
        lists(&campaign, &batches, &orders, found);
        sums(&campaign, &batches, found);
    }
}

/// That operators were told of a campaign that stopped by itself, once the list says that it is over; and of
/// no other.
pub(crate) fn check_alerts(state: &State, told: &BTreeSet<String>, found: &mut Findings) {
    for id in told {
        let has_stopped = state.control.stopped_campaigns.contains(id);
        found.check("an-alert-of-a-campaign-has-its-cause", has_stopped, || {
            id.clone()
        });
    }
    let listed: Vec<Value> = read(state, "campaigns").map_or(Vec::new(), |list: Value| {
        list["campaigns"].as_array().cloned().unwrap_or_default()
    });
    for known in listed.iter().filter(|known| known["is_over"] == true) {
        let id = known["id"].as_str().unwrap_or_default();
        let campaign: Option<Campaign> = read(state, &format!("campaign/{id}"));
        if let Some(Phase::Ended { at, end }) = campaign.map(|c| c.phase)
            && end.is_trouble()
        {
            let is_told = told.contains(&format!("campaign/{id}/{}", at.0));
            found.check("a-campaign-that-stopped-by-itself-is-told", is_told, || {
                id.to_owned()
            });
        }
    }
}

/// Every order that it acted on is in its batches once as one that was acted on; it may have refused before. One
/// that was stopped, or is under way, may not have written the last ones down.
fn lists(campaign: &Campaign, batches: &[Batch], acted: &[OrderId], found: &mut Findings) {
    let finished = matches!(
        campaign.phase,
        Phase::Ended {
            end: End::Finished,
            ..
        }
    );
    for order in acted {
        let entries = batches.iter().flat_map(|b| &b.orders);
        let is_its = |e: &&Entry| {
            &e.order_id == order && !matches!(e.result, Some(Done::Refused | Done::Failed))
        };
        let entries: Vec<_> = entries.filter(is_its).collect();
        let is_listed = match entries.as_slice() {
            [entry] => match entry.result {
                Some(result) => result == Done::Done,
                None => !finished,
            },
            _ => false,
        };
        found.check("a-campaign-lists-what-it-acted-on-once", is_listed, || {
            format!("{}: {order} in {entries:?}", campaign.id)
        });
    }
}

/// Its sums are those of the batches behind it.
fn sums(campaign: &Campaign, batches: &[Batch], found: &mut Findings) {
    let behind = campaign.batch as usize - usize::from(campaign.is_open);
    let batches = batches.iter().take(behind);
    let sums = batches.fold(Counts::default(), |sums, batch| sums.with(batch));
    found.check(
        "a-campaigns-sums-are-those-of-its-batches",
        sums == campaign.counts,
        || format!("{}: {sums:?} are {:?}", campaign.id, campaign.counts),
    );
}

/// How a campaign ended, as coverage has it.
pub(crate) fn reached(end: End) -> &'static str {
    match end {
        End::Finished => "campaign: finished",
        End::Stopped => "campaign: over, an operator stopped it",
        End::FailsAgain { .. } => "campaign: over, its orders failed again",
        End::Stalled { .. } => "campaign: over, nothing came to an end",
    }
}
