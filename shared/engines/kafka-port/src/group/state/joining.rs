//! Joining: admission, and the rebalance that makes a new generation.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

use super::{Group, Member, PendingRequest, Phase};
use crate::group::messages::{GroupAnswer, GroupAnswers, Join, Joined, Millis, Ticket};

impl Group {
    pub(super) fn check_protocols(&self, request: &Join) -> Result<(), ResponseError> {
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

    pub(super) fn admit(
        &mut self,
        id: String,
        request: Join,
        ticket: Ticket,
        now: Millis,
        out: &mut GroupAnswers,
    ) {
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
            waiting: PendingRequest::Join(ticket),
            session_ends: now + request.session_ms,
        };
        self.members.insert(id, member);
        self.rebalance(now, out);
    }

    /// Ensures that a rebalance is under way, and completes it if all members have joined.
    pub(super) fn rebalance(&mut self, now: Millis, out: &mut GroupAnswers) {
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
                    if let PendingRequest::Sync(ticket) = member.waiting {
                        member.waiting = PendingRequest::No;
                        member.session_ends = now + member.session_ms;
                        out.push((
                            ticket,
                            GroupAnswer::SyncFailed(ResponseError::RebalanceInProgress),
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

    pub(super) fn complete_join_if_all_are_there(&mut self, now: Millis, out: &mut GroupAnswers) {
        let joined = self
            .members
            .values()
            .all(|m| matches!(m.waiting, PendingRequest::Join(_)));
        if matches!(self.phase, Phase::Preparing { first: false, .. })
            && joined
            && self.expected.is_empty()
        {
            self.complete_join(now, out);
        }
    }

    pub(super) fn complete_join(&mut self, now: Millis, out: &mut GroupAnswers) {
        self.members
            .retain(|_, m| matches!(m.waiting, PendingRequest::Join(_)));
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
            if let PendingRequest::Join(ticket) =
                std::mem::replace(&mut member.waiting, PendingRequest::No)
            {
                out.push((ticket, GroupAnswer::Joined(joined)));
            }
        }
    }

    /// Each member votes for its most preferred protocol that all members support; the most votes win.
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

    pub(super) fn joined(&self, id: &str) -> Joined {
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
}
