//! Checks of campaigns at the end of a world.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::Value;
use triad_core::{CampaignId, OrderId};
use triad_operator::campaign::{
    Batch, Campaign, CampaignCounts, CampaignEnd, CampaignOrder, Done, Phase,
};

use super::findings::Findings;
use crate::world::State;

fn read<T: DeserializeOwned>(state: &State, key: &str) -> Option<T> {
    let found = state.control.read(0, key)?;
    serde_json::from_value(found.value).ok()
}

/// Checks every campaign at the end of a world.
pub(super) fn check(state: &State, found: &mut Findings) {
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

/// Each campaign that stopped by itself must have an alert once the list shows it as ended, and no other campaign may
/// have one.
pub(super) fn check_alerts(state: &State, told: &BTreeSet<String>, found: &mut Findings) {
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

/// Each order on which the campaign acted must be in its batches exactly once with this result; an earlier entry may
/// be a refusal. The last entries may be missing if the campaign was stopped or is still running.
fn lists(campaign: &Campaign, batches: &[Batch], acted: &[OrderId], found: &mut Findings) {
    let finished = matches!(
        campaign.phase,
        Phase::Ended {
            end: CampaignEnd::Finished,
            ..
        }
    );
    for order in acted {
        let entries = batches.iter().flat_map(|b| &b.orders);
        let is_its = |e: &&CampaignOrder| {
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

/// The counts of a campaign must be the sums of its batches.
fn sums(campaign: &Campaign, batches: &[Batch], found: &mut Findings) {
    let behind = campaign.batch as usize - usize::from(campaign.is_open);
    let batches = batches.iter().take(behind);
    let sums = batches.fold(CampaignCounts::default(), |sums, batch| sums.with(batch));
    found.check(
        "a-campaigns-sums-are-those-of-its-batches",
        sums == campaign.counts,
        || format!("{}: {sums:?} are {:?}", campaign.id, campaign.counts),
    );
}
