//! The simulated control store: small records, each written on the condition that its version is the expected one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use triad_core::breaker::Breaker;
use triad_core::downstream::{self, Downstream};
use triad_core::rate::Granted;
use triad_operator::campaign::{Campaign, CampaignEnd, Phase};
use triad_runtime::{ControlRecord, ControlWrite, Written};
use triad_workflow::AgentName;

use crate::definitions::TIMING;
use crate::kernel::{InstanceId, Kernel};
use crate::setup::Setup;

#[derive(Debug, Clone)]
struct Stored {
    version: u64,
    value: Value,
    token: u64,
    expires: Option<u64>,
}

/// The content of the control store, and what the checker needs to remember.
#[derive(Debug, Default)]
pub(crate) struct ControlState {
    records: BTreeMap<String, Stored>,
    /// Changes of downstreams that instances have tried to write; an alert about any other change is a breach.
    pub decided: BTreeSet<String>,
    /// Campaigns that stopped by themselves, which may have an alert.
    pub stopped_campaigns: BTreeSet<String>,
    /// Whether all reads and writes are denied at present.
    pub is_denied: bool,
}

impl ControlState {
    /// A consistent read at the time `now`.
    pub(crate) fn read(&self, now: u64, key: &str) -> Option<ControlRecord> {
        let found = self.records.get(key)?;
        let expired = found.expires.is_some_and(|at| at <= now);
        (!expired).then(|| ControlRecord {
            version: found.version,
            value: found.value.clone(),
        })
    }

    /// Remembers what an instance has tried to write, whether or not the write succeeds.
    pub(crate) fn wanted(&mut self, write: &ControlWrite) {
        if let Some(agent) = write.key.strip_prefix("downstream/")
            && let Ok(record) = serde_json::from_value::<Downstream>(write.value.clone())
        {
            let id = format!("downstream/{agent}/{}", record.last.at.0);
            self.decided.insert(id);
        }
    }

    /// One conditional write.
    pub(crate) fn write(
        &mut self,
        k: &mut Kernel,
        setup: &Setup,
        who: InstanceId,
        write: &ControlWrite,
    ) -> Written {
        let standing = self.records.get(&write.key);
        if standing.is_some_and(|s| s.token == write.token) {
            return Written::Written;
        }
        let now = k.now;
        let version = standing
            .filter(|s| s.expires.is_none_or(|at| at > now))
            .map(|s| s.version);
        if version != write.expected {
            k.note(who, || format!("control: {} conflict", write.key));
            return Written::Conflict;
        }
        let before = standing.map(|s| s.value.clone());
        k.note(who, || format!("control: {} {}", write.key, write.value));
        check(k, setup, before.as_ref(), write);
        self.note_campaign(k, write);
        let stored = Stored {
            version: version.unwrap_or(0) + 1,
            value: write.value.clone(),
            token: write.token,
            expires: write.expires.map(|at| at.0),
        };
        self.records.insert(write.key.clone(), stored);
        Written::Written
    }

    /// Remembers how a campaign ended.
    fn note_campaign(&mut self, k: &mut Kernel, write: &ControlWrite) {
        let Ok(campaign) = serde_json::from_value::<Campaign>(write.value.clone()) else {
            return;
        };
        if let Phase::Ended { at, end } = campaign.phase {
            k.coverage.reach(reached(end));
            if end.is_trouble() {
                let id = format!("campaign/{}/{}", campaign.id, at.0);
                self.stopped_campaigns.insert(id);
            }
        }
    }

    /// A downstream's stored record.
    pub(crate) fn downstream(&self, service: &str) -> Option<Downstream> {
        let name = AgentName::new(service).ok()?;
        let found = self.records.get(&downstream::key(&name))?;
        serde_json::from_value(found.value.clone()).ok()
    }
}

/// Checks a write to the control store.
fn check(k: &mut Kernel, setup: &Setup, before: Option<&Value>, write: &ControlWrite) {
    if let Some(agent) = write.key.strip_prefix("downstream/") {
        let read = |v: &Value| serde_json::from_value::<Downstream>(v.clone()).ok();
        let (was, is) = (before.and_then(read), read(&write.value));
        k.check("a-downstreams-record-is-readable", is.is_some(), || {
            write.value.to_string()
        });
        if let Some(is) = is {
            check_breaker(k, setup, agent, &was.unwrap_or_default(), &is);
        }
    } else if let Some(agent) = write.key.strip_prefix("rate/") {
        let granted = serde_json::from_value::<Granted>(write.value.clone());
        let limit = setup.limits(agent).rate_per_second.unwrap_or(u32::MAX);
        let holds = granted.is_ok_and(|g| g.calls <= limit);
        k.check("rate-granted-within-its-limit", holds, || {
            format!("{} of {limit}", write.value)
        });
        k.coverage.reach("saw: rate granted");
    } else if !write.key.starts_with("campaign") {
        k.coverage.reach("saw: calls claimed in the ledger");
    }
}

fn check_breaker(k: &mut Kernel, setup: &Setup, agent: &str, was: &Downstream, is: &Downstream) {
    let settings = setup.limits(agent).breaker;
    k.coverage.reach(match is.breaker.name() {
        "closed" => "breaker: closed",
        "open" => "breaker: open",
        _ => "breaker: half-open",
    });
    if is.forced.is_some() {
        k.coverage.reach("breaker: forced");
    }
    if !is.paused.is_empty() {
        k.coverage.reach("breaker: step paused");
    }
    if let Breaker::HalfOpen { out, .. } = is.breaker {
        let are_few = out <= settings.probes;
        k.check("a-half-open-breaker-lets-out-few", are_few, || {
            format!("{agent}: {out} probes are out")
        });
    }
    // Detects a breaker that was open for less time than requested; the clocks may differ by the skew.
    if let (Breaker::Open { until, .. }, Breaker::HalfOpen { .. }) = (was.breaker, is.breaker)
        && !setup.wild_clocks
    {
        let now = k.now;
        let is_over = now + TIMING.skew.0 >= until.0;
        k.check("an-open-breaker-makes-no-call", is_over, || {
            format!("{agent}: probed at {now}, open until {}", until.0)
        });
    }
    let is_new = (is.last.at, &is.last.what) != (was.last.at, &was.last.what);
    if is_new && is.last.operator.is_none() {
        let is_closed = |of: &Downstream| matches!(of.breaker, Breaker::Closed { .. });
        // A write may have several changes, such as an end of an outage and the beginning of the next one.
        let all = std::iter::once(&is.last).chain(&is.earlier);
        let known = (was.last.at, &was.last.what);
        let new = all.take_while(|one| (one.at, &one.what) != known);
        let turns = new.filter(|one| one.operator.is_none()).count();
        let is_a_turn = (turns % 2 == 1) == (is_closed(was) != is_closed(is));
        k.check("an-outage-is-one-change", is_a_turn, || {
            format!("{agent}: {}", is.last.what)
        });
    }
    if is.last.told && !was.last.told && was.last.at == is.last.at {
        k.coverage.reach("breaker: its change was told");
    }
}

/// The name under which the end of a campaign is counted.
fn reached(end: CampaignEnd) -> &'static str {
    match end {
        CampaignEnd::Finished => "campaign: finished",
        CampaignEnd::Stopped => "campaign: over, an operator stopped it",
        CampaignEnd::FailsAgain { .. } => "campaign: over, its orders failed again",
        CampaignEnd::Stalled { .. } => "campaign: over, nothing came to an end",
    }
}
