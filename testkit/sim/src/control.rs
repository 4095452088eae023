//! The simulated control store: small records, each written on the condition of its version.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use triad_core::breaker::Breaker;
use triad_core::downstream::{self, Downstream};
use triad_core::rate::Granted;
use triad_runtime::{ControlRecord, ControlWrite, Written};
use triad_workflow::AgentName;

use crate::world::{InstanceId, State};

#[derive(Debug, Clone)]
struct Stored {
    version: u64,
    value: Value,
    token: u64,
    expires: Option<u64>,
}

/// What the control store holds, and what the checker remembers of it.
#[derive(Debug, Default)]
pub(crate) struct ControlState {
    records: BTreeMap<String, Stored>,
    /// Changes of downstreams that somebody has tried to write down.
    pub decided: BTreeSet<String>,
}

impl State {
    /// One read, consistent.
    pub(crate) fn control_read(&mut self, key: &str) -> Option<ControlRecord> {
        let now = self.now;
        let found = self.control.records.get(key)?;
        let expired = found.expires.is_some_and(|at| at <= now);
        (!expired).then(|| ControlRecord {
            version: found.version,
            value: found.value.clone(),
        })
    }

    /// Remembers that a write was wanted, whatever becomes of it.
    pub(crate) fn control_wanted(&mut self, write: &ControlWrite) {
        if let Some(agent) = write.key.strip_prefix("downstream/")
            && let Ok(record) = serde_json::from_value::<Downstream>(write.value.clone())
        {
            let id = format!("downstream/{agent}/{}", record.last.at.0);
            self.control.decided.insert(id);
        }
    }

    /// One conditional write.
    pub(crate) fn control_write(&mut self, who: InstanceId, write: &ControlWrite) -> Written {
        let standing = self.control.records.get(&write.key);
        if standing.is_some_and(|s| s.token == write.token) {
            return Written::Written;
        }
        let now = self.now;
        let version = standing
            .filter(|s| s.expires.is_none_or(|at| at > now))
            .map(|s| s.version);
        if version != write.expected {
            self.note(who, || format!("control: {} conflict", write.key));
            return Written::Conflict;
        }
        let before = standing.map(|s| s.value.clone());
        self.note(who, || format!("control: {} {}", write.key, write.value));
        self.check_control(before.as_ref(), write);
        let stored = Stored {
            version: version.unwrap_or(0) + 1,
            value: write.value.clone(),
            token: write.token,
            expires: write.expires.map(|at| at.0),
        };
        self.control.records.insert(write.key.clone(), stored);
        Written::Written
    }

    /// A downstream's record as it stands.
    pub(crate) fn downstream(&self, service: &str) -> Option<Downstream> {
        let name = AgentName::new(service).ok()?;
        let found = self.control.records.get(&downstream::key(&name))?;
        serde_json::from_value(found.value.clone()).ok()
    }

    /// What must hold of every record of the control store.
    fn check_control(&mut self, before: Option<&Value>, write: &ControlWrite) {
        if let Some(agent) = write.key.strip_prefix("downstream/") {
            let read = |v: &Value| serde_json::from_value::<Downstream>(v.clone()).ok();
            let (was, is) = (before.and_then(read), read(&write.value));
            match is {
                Some(is) => self.check_breaker(agent, &was.unwrap_or_default(), &is),
                None => self.breach("a-downstreams-record-is-readable", write.value.to_string()),
            }
        } else if let Some(agent) = write.key.strip_prefix("rate/") {
            let granted = serde_json::from_value::<Granted>(write.value.clone());
            let limit = self.setup.limits(agent).rate_per_second.unwrap_or(u32::MAX);
            if granted.is_ok_and(|g| g.calls > limit) {
                let seen = format!("{} of {limit}", write.value);
                self.breach("rate-within-its-limit", seen);
            }
            self.coverage.reach("saw: rate granted");
        } else {
            self.coverage.reach("saw: calls claimed in the ledger");
        }
    }

    fn check_breaker(&mut self, agent: &str, was: &Downstream, is: &Downstream) {
        let settings = self.setup.limits(agent).breaker;
        self.coverage.reach(match is.breaker.name() {
            "closed" => "breaker: closed",
            "open" => "breaker: open",
            _ => "breaker: half-open",
        });
        if is.forced.is_some() {
            self.coverage.reach("breaker: forced");
        }
        if !is.paused.is_empty() {
            self.coverage.reach("breaker: step paused");
        }
        if let Breaker::HalfOpen { out, .. } = is.breaker
            && out > settings.probes
        {
            let seen = format!("{agent}: {out} probes are out");
            self.breach("a-half-open-breaker-lets-out-few", seen);
        }
        // Open for less than was asked is caught here; the clocks may differ by the skew.
        if let (Breaker::Open { until, .. }, Breaker::HalfOpen { .. }) = (was.breaker, is.breaker)
            && !self.setup.wild_clocks
            && self.now + crate::definitions::TIMING.skew.0 < until.0
        {
            let seen = format!("{agent}: probed at {}, open until {}", self.now, until.0);
            self.breach("an-open-breaker-makes-no-call", seen);
        }
        if is.last.told && !was.last.told && was.last.at == is.last.at {
            self.coverage.reach("breaker: its change was told");
        }
    }
}
