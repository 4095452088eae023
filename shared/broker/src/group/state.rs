//! One group's life: Empty, PreparingRebalance, CompletingRebalance, Stable.
//!
//! Architecture invariant: no IO, no clock, no random source. Time, fresh member ids and the
//! requests' tickets are arguments; what is to be answered comes back as plain data.
//!
//! Rules are those of Kafka's classic group protocol (KIP-62, KIP-394, KIP-345), with one
//! simplification: a static member that comes back always starts a rebalance.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

/// Milliseconds since some fixed moment.
pub(crate) type Millis = u64;

/// Stands for a request that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// The answer to a waiting request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Joined(Joined),
    /// `MEMBER_ID_REQUIRED`: come again with this id.
    MemberIdRequired(String),
    JoinFailed(ResponseError),
    Synced(Synced),
    SyncFailed(ResponseError),
}

/// A member's view of a completed join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    pub(crate) member: String,
    /// Member id, instance id and metadata of all, for the leader only.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
}

/// A member's share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) assignment: Bytes,
}

/// Answers, in the order in which they came about.
pub(crate) type Answers = Vec<(Ticket, Answer)>;

/// A request to join.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    /// Empty for a newcomer.
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_ms: Millis,
    pub(crate) rebalance_ms: Millis,
    pub(crate) protocol_type: String,
    /// Name and metadata, the preferred one first.
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// Since version 4 a newcomer is first given an id and must come again with it.
    pub(crate) needs_id_first: bool,
    /// The id that a newcomer gets.
    pub(crate) fresh_id: String,
}

/// A request for one's share, with everybody's shares if it comes from the leader.
#[derive(Debug, Clone)]
pub(crate) struct Sync {
    pub(crate) caller: Caller,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: Vec<(String, Bytes)>,
}

/// Who claims to be speaking, in every request but a join.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
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
    waiting: Waiting,
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

/// Where a group is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No members.
    Empty,
    /// Waiting for the members to join, until the deadline. The first rebalance of an empty group
    /// waits to the end, because nobody knows who else will come.
    Preparing { deadline: Millis, first: bool },
    /// Waiting for the leader's assignment, until the deadline.
    Completing { deadline: Millis },
    /// Everybody has an assignment.
    Stable,
}

impl Phase {
    /// Kafka's name for it.
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
    /// By id. Bounded by the coordinator.
    pub(crate) members: BTreeMap<String, Member>,
    /// Ids given out to newcomers who have not come back yet, and until when they may.
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

    /// The chosen protocol, while there is one.
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

    /// Members and those expected: what the bound counts.
    pub(crate) fn size(&self) -> usize {
        self.members.len() + self.expected.len()
    }

    /// Nobody is in it or about to be.
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

    /// Someone wants to join; answered now or when the rebalance is through.
    pub(crate) fn join(&mut self, request: Join, ticket: Ticket, now: Millis, out: &mut Answers) {
        if let Err(error) = self.try_join(request, ticket, now, out) {
            out.push((ticket, Answer::JoinFailed(error)));
        }
    }

    fn try_join(
        &mut self,
        request: Join,
        ticket: Ticket,
        now: Millis,
        out: &mut Answers,
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
                out.push((ticket, Answer::MemberIdRequired(request.fresh_id)));
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
            // The answer got lost on the way: say it again.
            Phase::Completing { .. } => !unchanged,
            // The leader asks for a rebalance by joining; so does who subscribes to something else.
            Phase::Stable => !unchanged || self.leader == id,
        };
        if !rejoin {
            let joined = self.joined(&id);
            out.push((ticket, Answer::Joined(joined)));
            return Ok(());
        }
        if let Waiting::Join(earlier) =
            std::mem::replace(&mut member.waiting, Waiting::Join(ticket))
        {
            out.push((
                earlier,
                Answer::JoinFailed(ResponseError::RebalanceInProgress),
            ));
        }
        member.protocols = request.protocols;
        member.session_ms = request.session_ms;
        member.rebalance_ms = request.rebalance_ms;
        self.rebalance(now, out);
        Ok(())
    }

    fn check_protocols(&self, request: &Join) -> Result<(), ResponseError> {
        let named = !request.protocol_type.is_empty() && !request.protocols.is_empty();
        let others = || self.members.iter().filter(|(id, _)| **id != request.member);
        let same_type = others().next().is_none() || self.protocol_type == request.protocol_type;
        let common = |name: &str| others().all(|(_, m)| m.protocols.iter().any(|(n, _)| n == name));
        if named && same_type && request.protocols.iter().any(|(name, _)| common(name)) {
            Ok(())
        } else {
            Err(ResponseError::InconsistentGroupProtocol)
        }
    }

    fn admit(&mut self, id: String, request: Join, ticket: Ticket, now: Millis, out: &mut Answers) {
        if self.members.is_empty() {
            self.protocol_type = request.protocol_type;
        }
        let member = Member {
            instance: request.instance,
            client_id: request.client_id,
            client_host: request.client_host,
            session_ms: request.session_ms,
            rebalance_ms: request.rebalance_ms,
            protocols: request.protocols,
            assignment: Bytes::new(),
            waiting: Waiting::Join(ticket),
            session_ends: now + request.session_ms,
        };
        self.members.insert(id, member);
        self.rebalance(now, out);
    }

    /// Makes sure that a rebalance is under way, and completes it if everybody is there.
    fn rebalance(&mut self, now: Millis, out: &mut Answers) {
        let longest = self
            .members
            .values()
            .map(|m| m.rebalance_ms)
            .max()
            .unwrap_or(0);
        match self.phase {
            Phase::Empty => {
                let deadline = now + self.initial_delay;
                self.phase = Phase::Preparing {
                    deadline,
                    first: self.initial_delay > 0,
                };
            }
            Phase::Stable | Phase::Completing { .. } => {
                for member in self.members.values_mut() {
                    if let Waiting::Sync(ticket) = member.waiting {
                        member.waiting = Waiting::No;
                        member.session_ends = now + member.session_ms;
                        out.push((
                            ticket,
                            Answer::SyncFailed(ResponseError::RebalanceInProgress),
                        ));
                    }
                }
                self.phase = Phase::Preparing {
                    deadline: now + longest,
                    first: false,
                };
            }
            Phase::Preparing { .. } => {}
        }
        self.complete_join_if_all_are_there(now, out);
    }

    fn complete_join_if_all_are_there(&mut self, now: Millis, out: &mut Answers) {
        let joined = self
            .members
            .values()
            .all(|m| matches!(m.waiting, Waiting::Join(_)));
        if matches!(self.phase, Phase::Preparing { first: false, .. })
            && joined
            && self.expected.is_empty()
        {
            self.complete_join(now, out);
        }
    }

    fn complete_join(&mut self, now: Millis, out: &mut Answers) {
        self.members
            .retain(|_, m| matches!(m.waiting, Waiting::Join(_)));
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return;
        }
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        self.protocol = self.elect_protocol();
        let longest = self
            .members
            .values()
            .map(|m| m.rebalance_ms)
            .max()
            .unwrap_or(0);
        self.phase = Phase::Completing {
            deadline: now + longest,
        };
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let joined = self.joined(&id);
            let Some(member) = self.members.get_mut(&id) else {
                continue;
            };
            member.session_ends = now + member.session_ms;
            member.assignment = Bytes::new();
            if let Waiting::Join(ticket) = std::mem::replace(&mut member.waiting, Waiting::No) {
                out.push((ticket, Answer::Joined(joined)));
            }
        }
    }

    /// Each member votes for its most preferred protocol that all have; most votes win.
    fn elect_protocol(&self) -> String {
        let common = |name: &str| {
            self.members
                .values()
                .all(|m| m.protocols.iter().any(|(n, _)| n == name))
        };
        let mut votes = BTreeMap::<&str, usize>::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| common(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes
            .into_iter()
            .max_by_key(|(_, n)| *n)
            .map_or_else(String::new, |(name, _)| name.to_owned())
    }

    fn joined(&self, id: &str) -> Joined {
        let all = || {
            self.members
                .iter()
                .map(|(id, m)| (id.clone(), m.instance.clone(), m.metadata(&self.protocol)))
        };
        Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            member: id.to_owned(),
            members: if self.leader == id {
                all().collect()
            } else {
                Vec::new()
            },
        }
    }

    /// Refuses someone whose place as a static member was taken.
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

    fn known(&mut self, caller: &Caller) -> Result<&mut Member, ResponseError> {
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

    /// A member wants its share; the leader brings everybody's.
    pub(crate) fn sync(&mut self, request: Sync, ticket: Ticket, now: Millis, out: &mut Answers) {
        if let Err(error) = self.try_sync(request, ticket, now, out) {
            out.push((ticket, Answer::SyncFailed(error)));
        }
    }

    fn try_sync(
        &mut self,
        request: Sync,
        ticket: Ticket,
        now: Millis,
        out: &mut Answers,
    ) -> Result<(), ResponseError> {
        self.known(&request.caller)?;
        let differs = |said: &Option<String>, is: &str| said.as_deref().is_some_and(|s| s != is);
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol, &self.protocol)
        {
            return Err(ResponseError::InconsistentGroupProtocol);
        }
        let is_leader = self.leader == request.caller.member;
        let member = self.known(&request.caller)?;
        member.session_ends = now + member.session_ms;
        match self.phase {
            Phase::Empty => Err(ResponseError::UnknownMemberId),
            Phase::Preparing { .. } => Err(ResponseError::RebalanceInProgress),
            Phase::Completing { .. } => {
                let member = self.known(&request.caller)?;
                if let Waiting::Sync(earlier) =
                    std::mem::replace(&mut member.waiting, Waiting::Sync(ticket))
                {
                    out.push((
                        earlier,
                        Answer::SyncFailed(ResponseError::RebalanceInProgress),
                    ));
                }
                if is_leader {
                    self.settle(request.assignments, now, out);
                }
                Ok(())
            }
            Phase::Stable => {
                let share = self.synced(&self.members[&request.caller.member]);
                out.push((ticket, Answer::Synced(share)));
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

    fn settle(&mut self, assignments: Vec<(String, Bytes)>, now: Millis, out: &mut Answers) {
        for (id, share) in assignments {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment = share;
            }
        }
        self.phase = Phase::Stable;
        for member in self.members.values() {
            if let Waiting::Sync(ticket) = member.waiting {
                out.push((ticket, Answer::Synced(self.synced(member))));
            }
        }
        for member in self.members.values_mut() {
            if matches!(member.waiting, Waiting::Sync(_)) {
                member.waiting = Waiting::No;
                member.session_ends = now + member.session_ms;
            }
        }
    }

    /// A sign of life.
    pub(crate) fn heartbeat(&mut self, caller: &Caller, now: Millis) -> Result<(), ResponseError> {
        let phase = self.phase;
        let member = self.known(caller)?;
        member.session_ends = now + member.session_ms;
        match phase {
            Phase::Preparing { .. } => Err(ResponseError::RebalanceInProgress),
            Phase::Empty | Phase::Completing { .. } | Phase::Stable => Ok(()),
        }
    }

    /// Whether the caller may commit offsets now; counts as a sign of life.
    ///
    /// A caller without a generation is a consumer that assigns its partitions itself, which is
    /// fine as long as the group has no members.
    pub(crate) fn may_commit(&mut self, caller: &Caller, now: Millis) -> Result<(), ResponseError> {
        if caller.generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        let phase = self.phase;
        let member = self.known(caller)?;
        member.session_ends = now + member.session_ms;
        match phase {
            Phase::Completing { .. } => Err(ResponseError::RebalanceInProgress),
            Phase::Empty | Phase::Preparing { .. } | Phase::Stable => Ok(()),
        }
    }

    /// A member goes; a static one may be named by its instance alone.
    pub(crate) fn leave(
        &mut self,
        member: &str,
        instance: Option<&str>,
        now: Millis,
        out: &mut Answers,
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

    fn remove(&mut self, id: &str, why: ResponseError, out: &mut Answers) {
        match self.members.remove(id).map(|m| m.waiting) {
            Some(Waiting::Join(ticket)) => out.push((ticket, Answer::JoinFailed(why))),
            Some(Waiting::Sync(ticket)) => out.push((ticket, Answer::SyncFailed(why))),
            Some(Waiting::No) | None => {}
        }
    }

    fn after_departure(&mut self, now: Millis, out: &mut Answers) {
        match self.phase {
            Phase::Empty => {}
            Phase::Preparing { .. } => self.complete_join_if_all_are_there(now, out),
            Phase::Completing { .. } | Phase::Stable => self.rebalance(now, out),
        }
    }

    /// Time has passed: expire what is overdue.
    pub(crate) fn tick(&mut self, now: Millis, out: &mut Answers) {
        self.expected.retain(|_, until| *until > now);
        let silent = |m: &Member| m.waiting == Waiting::No && m.session_ends <= now;
        let unsynced = |m: &Member| {
            matches!(self.phase, Phase::Completing { deadline } if deadline <= now)
                && !matches!(m.waiting, Waiting::Sync(_))
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
        let listening = self.members.values().filter(|m| m.waiting == Waiting::No);
        let sessions = listening.map(|m| m.session_ends);
        sessions
            .chain(self.expected.values().copied())
            .chain(phase)
            .min()
    }
}
