//! One group's phases: Empty, PreparingRebalance, CompletingRebalance, Stable.
//!
//! Architecture invariant: no IO, no clock, no random source. Time, new member ids and the requests' tickets are
//! arguments; answers are returned as plain data.
//!
//! The rules are those of Kafka's classic group protocol (KIP-62, KIP-394, KIP-345), with one simplification: a
//! static member that returns always starts a rebalance.

mod joining;

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

use super::messages::{Caller, GroupAnswer, GroupAnswers, Join, Millis, Sync, Synced, Ticket};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingRequest {
    No,
    Join(Ticket),
    Sync(Ticket),
}

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    session_ms: Millis,
    rebalance_ms: Millis,
    protocols: Vec<(String, Bytes)>,
    pub(crate) assignment: Bytes,
    waiting: PendingRequest,
    session_ends: Millis,
}

impl Member {
    fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(n, _)| n == protocol)
            .map_or_else(Bytes::new, |(_, m)| m.clone())
    }
}

/// Phase of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No members.
    Empty,
    /// Waiting for the members to join, until the deadline. The first rebalance of an empty group always waits until
    /// the deadline, because more members may come.
    Preparing { deadline: Millis, first: bool },
    /// Waiting for the leader's assignment, until the deadline.
    Completing { deadline: Millis },
    /// All members have an assignment.
    Stable,
}

impl Phase {
    /// Kafka's name of the phase.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Preparing { .. } => "PreparingRebalance",
            Self::Completing { .. } => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) phase: Phase,
    generation: i32,
    protocol_type: String,
    protocol: String,
    leader: String,
    /// The members by id. The coordinator limits their number.
    pub(crate) members: BTreeMap<String, Member>,
    /// Ids given to new members that have not joined again yet, with the deadline for it.
    expected: BTreeMap<String, Millis>,
    initial_delay: Millis,
}

impl Group {
    pub(crate) fn new(initial_delay: Millis) -> Self {
        Self {
            phase: Phase::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
            expected: BTreeMap::new(),
            initial_delay,
        }
    }

    pub(crate) fn protocol_type(&self) -> &str {
        &self.protocol_type
    }

    /// The chosen protocol, if any.
    pub(crate) fn protocol(&self) -> &str {
        match self.phase {
            Phase::Stable | Phase::Completing { .. } => &self.protocol,
            Phase::Empty | Phase::Preparing { .. } => "",
        }
    }

    /// A member's metadata under the chosen protocol.
    pub(crate) fn metadata(&self, member: &Member) -> Bytes {
        member.metadata(self.protocol())
    }

    /// Number of members and expected members, which is bounded.
    pub(crate) fn size(&self) -> usize {
        self.members.len() + self.expected.len()
    }

    /// Whether there are no members and no expected ones.
    pub(crate) fn is_vacant(&self) -> bool {
        self.members.is_empty() && self.expected.is_empty()
    }

    fn static_member(&self, instance: &str) -> Option<String> {
        let held = |m: &Member| m.instance.as_deref() == Some(instance);
        self.members
            .iter()
            .find(|(_, m)| held(m))
            .map(|(id, _)| id.clone())
    }

    /// A join request; answered now or when the rebalance is complete.
    pub(crate) fn join(
        &mut self,
        request: Join,
        ticket: Ticket,
        now: Millis,
        out: &mut GroupAnswers,
    ) {
        if let Err(error) = self.try_join(request, ticket, now, out) {
            out.push((ticket, GroupAnswer::JoinFailed(error)));
        }
    }

    fn try_join(
        &mut self,
        request: Join,
        ticket: Ticket,
        now: Millis,
        out: &mut GroupAnswers,
    ) -> Result<(), ResponseError> {
        self.check_protocols(&request)?;
        if request.member.is_empty() {
            let returning = request
                .instance
                .as_deref()
                .and_then(|i| self.static_member(i));
            if let Some(old) = returning {
                self.remove(&old, ResponseError::FencedInstanceId, out);
            } else if request.needs_id_first && request.instance.is_none() {
                self.expected
                    .insert(request.fresh_id.clone(), now + request.session_ms);
                out.push((ticket, GroupAnswer::MemberIdRequired(request.fresh_id)));
                return Ok(());
            }
            let id = request.fresh_id.clone();
            self.admit(id, request, ticket, now, out);
            return Ok(());
        }
        let id = request.member.clone();
        if self.expected.remove(&id).is_some() {
            self.admit(id, request, ticket, now, out);
            return Ok(());
        }
        self.identify(&id, request.instance.as_deref())?;
        let Some(member) = self.members.get_mut(&id) else {
            return Err(ResponseError::UnknownMemberId);
        };
        let unchanged = member.protocols == request.protocols;
        let rejoin = match self.phase {
            Phase::Empty => return Err(ResponseError::UnknownMemberId),
            Phase::Preparing { .. } => true,
            // The answer was lost, so it is repeated.
            Phase::Completing { .. } => !unchanged,
            // The leader requests a rebalance by joining; so does a member with a changed subscription.
            Phase::Stable => !unchanged || self.leader == id,
        };
        if !rejoin {
            let joined = self.joined(&id);
            out.push((ticket, GroupAnswer::Joined(joined)));
            return Ok(());
        }
        if let PendingRequest::Join(earlier) =
            std::mem::replace(&mut member.waiting, PendingRequest::Join(ticket))
        {
            out.push((
                earlier,
                GroupAnswer::JoinFailed(ResponseError::RebalanceInProgress),
            ));
        }
        member.protocols = request.protocols;
        member.session_ms = request.session_ms;
        member.rebalance_ms = request.rebalance_ms;
        self.rebalance(now, out);
        Ok(())
    }

    /// Refuses a static member whose place was taken.
    fn identify(&self, id: &str, instance: Option<&str>) -> Result<(), ResponseError> {
        let Some(instance) = instance else {
            return Ok(());
        };
        match self.static_member(instance) {
            None => Err(ResponseError::UnknownMemberId),
            Some(holder) if holder != id => Err(ResponseError::FencedInstanceId),
            Some(_) => Ok(()),
        }
    }

    fn member_of(&mut self, caller: &Caller) -> Result<&mut Member, ResponseError> {
        self.identify(&caller.member, caller.instance.as_deref())?;
        let generation = self.generation;
        let member = self
            .members
            .get_mut(&caller.member)
            .ok_or(ResponseError::UnknownMemberId)?;
        if caller.generation == generation {
            Ok(member)
        } else {
            Err(ResponseError::IllegalGeneration)
        }
    }

    /// A request for an assignment; the leader's request has all assignments.
    pub(crate) fn sync(
        &mut self,
        request: Sync,
        ticket: Ticket,
        now: Millis,
        out: &mut GroupAnswers,
    ) {
        if let Err(error) = self.try_sync(request, ticket, now, out) {
            out.push((ticket, GroupAnswer::SyncFailed(error)));
        }
    }

    fn try_sync(
        &mut self,
        request: Sync,
        ticket: Ticket,
        now: Millis,
        out: &mut GroupAnswers,
    ) -> Result<(), ResponseError> {
        self.member_of(&request.caller)?;
        let differs = |said: &Option<String>, is: &str| said.as_deref().is_some_and(|s| s != is);
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol, &self.protocol)
        {
            return Err(ResponseError::InconsistentGroupProtocol);
        }
        let is_leader = self.leader == request.caller.member;
        let member = self.member_of(&request.caller)?;
        member.session_ends = now + member.session_ms;
        match self.phase {
            Phase::Empty => Err(ResponseError::UnknownMemberId),
            Phase::Preparing { .. } => Err(ResponseError::RebalanceInProgress),
            Phase::Completing { .. } => {
                let member = self.member_of(&request.caller)?;
                if let PendingRequest::Sync(earlier) =
                    std::mem::replace(&mut member.waiting, PendingRequest::Sync(ticket))
                {
                    out.push((
                        earlier,
                        GroupAnswer::SyncFailed(ResponseError::RebalanceInProgress),
                    ));
                }
                if is_leader {
                    self.distribute(request.assignments, now, out);
                }
                Ok(())
            }
            Phase::Stable => {
                let share = self.synced(&self.members[&request.caller.member]);
                out.push((ticket, GroupAnswer::Synced(share)));
                Ok(())
            }
        }
    }

    fn synced(&self, member: &Member) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: member.assignment.clone(),
        }
    }

    fn distribute(
        &mut self,
        assignments: Vec<(String, Bytes)>,
        now: Millis,
        out: &mut GroupAnswers,
    ) {
        for (id, share) in assignments {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment = share;
            }
        }
        self.phase = Phase::Stable;
        for member in self.members.values() {
            if let PendingRequest::Sync(ticket) = member.waiting {
                out.push((ticket, GroupAnswer::Synced(self.synced(member))));
            }
        }
        for member in self.members.values_mut() {
            if matches!(member.waiting, PendingRequest::Sync(_)) {
                member.waiting = PendingRequest::No;
                member.session_ends = now + member.session_ms;
            }
        }
    }

    /// A heartbeat.
    pub(crate) fn heartbeat(&mut self, caller: &Caller, now: Millis) -> Result<(), ResponseError> {
        let phase = self.phase;
        let member = self.member_of(caller)?;
        member.session_ends = now + member.session_ms;
        match phase {
            Phase::Preparing { .. } => Err(ResponseError::RebalanceInProgress),
            Phase::Empty | Phase::Completing { .. } | Phase::Stable => Ok(()),
        }
    }

    /// Whether the caller may commit offsets now; counts as a heartbeat.
    ///
    /// A caller without a generation is a consumer that assigns its partitions itself, which is allowed as long as
    /// the group has no members.
    pub(crate) fn may_commit(&mut self, caller: &Caller, now: Millis) -> Result<(), ResponseError> {
        if caller.generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        let phase = self.phase;
        let member = self.member_of(caller)?;
        member.session_ends = now + member.session_ms;
        match phase {
            Phase::Completing { .. } => Err(ResponseError::RebalanceInProgress),
            Phase::Empty | Phase::Preparing { .. } | Phase::Stable => Ok(()),
        }
    }

    /// A member leaves; a static one may be named by its instance alone.
    pub(crate) fn leave(
        &mut self,
        member: &str,
        instance: Option<&str>,
        now: Millis,
        out: &mut GroupAnswers,
    ) -> Result<(), ResponseError> {
        let id = match instance {
            Some(instance) if member.is_empty() => self
                .static_member(instance)
                .ok_or(ResponseError::UnknownMemberId)?,
            _ => member.to_owned(),
        };
        if self.expected.remove(&id).is_none() {
            self.identify(&id, instance)?;
            if !self.members.contains_key(&id) {
                return Err(ResponseError::UnknownMemberId);
            }
            self.remove(&id, ResponseError::UnknownMemberId, out);
        }
        self.after_departure(now, out);
        Ok(())
    }

    fn remove(&mut self, id: &str, why: ResponseError, out: &mut GroupAnswers) {
        match self.members.remove(id).map(|m| m.waiting) {
            Some(PendingRequest::Join(ticket)) => out.push((ticket, GroupAnswer::JoinFailed(why))),
            Some(PendingRequest::Sync(ticket)) => out.push((ticket, GroupAnswer::SyncFailed(why))),
            Some(PendingRequest::No) | None => {}
        }
    }

    fn after_departure(&mut self, now: Millis, out: &mut GroupAnswers) {
        match self.phase {
            Phase::Empty => {}
            Phase::Preparing { .. } => self.complete_join_if_all_are_there(now, out),
            Phase::Completing { .. } | Phase::Stable => self.rebalance(now, out),
        }
    }

    /// Expires members and deadlines as time passes.
    pub(crate) fn tick(&mut self, now: Millis, out: &mut GroupAnswers) {
        self.expected.retain(|_, until| *until > now);
        let silent = |m: &Member| m.waiting == PendingRequest::No && m.session_ends <= now;
        let unsynced = |m: &Member| {
            matches!(self.phase, Phase::Completing { deadline } if deadline <= now)
                && !matches!(m.waiting, PendingRequest::Sync(_))
        };
        let gone: Vec<_> = self
            .members
            .iter()
            .filter(|(_, m)| silent(m) || unsynced(m))
            .map(|(id, _)| id.clone())
            .collect();
        for id in &gone {
            self.remove(id, ResponseError::UnknownMemberId, out);
        }
        if !gone.is_empty() {
            self.after_departure(now, out);
        }
        if let Phase::Preparing { deadline, .. } = self.phase {
            if deadline <= now {
                self.complete_join(now, out);
            } else {
                self.complete_join_if_all_are_there(now, out);
            }
        }
    }

    /// When [`Group::tick`] has something to do, if nothing else happens before.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let phase = match self.phase {
            Phase::Preparing { deadline, .. } | Phase::Completing { deadline } => Some(deadline),
            Phase::Empty | Phase::Stable => None,
        };
        let listening = self
            .members
            .values()
            .filter(|m| m.waiting == PendingRequest::No);
        let sessions = listening.map(|m| m.session_ends);
        sessions
            .chain(self.expected.values().copied())
            .chain(phase)
            .min()
    }
}
