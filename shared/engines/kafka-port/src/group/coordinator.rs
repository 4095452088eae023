//! The table of groups: admission, tickets, and the earliest deadline of all groups.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;

use super::messages::{Caller, GroupAnswers, Join, Millis, Sync, Ticket};
use super::state::Group;
use crate::config::BrokerConfig;
use triad_sqlite::topics::fresh_id;

/// All groups that have members or had some since the broker started.
#[derive(Debug)]
pub(crate) struct Coordinator {
    groups: BTreeMap<String, Group>,
    next_ticket: u64,
    initial_delay: Millis,
    session: (Millis, Millis),
    max_groups: usize,
    max_members: usize,
}

fn millis(duration: std::time::Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

impl Coordinator {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        Self {
            groups: BTreeMap::new(),
            next_ticket: 0,
            initial_delay: millis(config.group_initial_delay),
            session: (
                millis(config.group_session.0),
                millis(config.group_session.1),
            ),
            max_groups: config.max_groups,
            max_members: config.max_group_members,
        }
    }

    /// A ticket for a request that may have to wait.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// A unique id for a new member, with its client id as a prefix.
    pub(crate) fn fresh_member_id(client_id: &str) -> String {
        let shown: String = client_id.chars().take(64).collect();
        format!("{shown}-{}", fresh_id())
    }

    pub(crate) fn join(
        &mut self,
        group: &str,
        request: Join,
        ticket: Ticket,
        now: Millis,
        out: &mut GroupAnswers,
    ) -> Result<(), ResponseError> {
        if group.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        if !(self.session.0..=self.session.1).contains(&request.session_ms) {
            return Err(ResponseError::InvalidSessionTimeout);
        }
        if !self.groups.contains_key(group) {
            if self.groups.len() >= self.max_groups {
                self.groups.retain(|_, g| !g.is_vacant());
            }
            if self.groups.len() >= self.max_groups {
                return Err(ResponseError::CoordinatorLoadInProgress);
            }
            self.groups
                .insert(group.to_owned(), Group::new(self.initial_delay));
        }
        let Some(state) = self.groups.get_mut(group) else {
            return Err(ResponseError::UnknownServerError);
        };
        if request.member.is_empty() && state.size() >= self.max_members {
            return Err(ResponseError::GroupMaxSizeReached);
        }
        state.join(request, ticket, now, out);
        Ok(())
    }

    pub(crate) fn sync(
        &mut self,
        group: &str,
        request: Sync,
        ticket: Ticket,
        now: Millis,
        out: &mut GroupAnswers,
    ) -> Result<(), ResponseError> {
        self.group_mut(group)?.sync(request, ticket, now, out);
        Ok(())
    }

    fn group_mut(&mut self, group: &str) -> Result<&mut Group, ResponseError> {
        self.groups
            .get_mut(group)
            .ok_or(ResponseError::UnknownMemberId)
    }

    pub(crate) fn heartbeat(
        &mut self,
        group: &str,
        caller: &Caller,
        now: Millis,
    ) -> Result<(), ResponseError> {
        self.group_mut(group)?.heartbeat(caller, now)
    }

    pub(crate) fn leave(
        &mut self,
        group: &str,
        member: &str,
        instance: Option<&str>,
        now: Millis,
        out: &mut GroupAnswers,
    ) -> Result<(), ResponseError> {
        self.group_mut(group)?.leave(member, instance, now, out)
    }

    /// Whether offsets may be committed. A group that only commits needs no entry here.
    pub(crate) fn may_commit(
        &mut self,
        group: &str,
        caller: &Caller,
        now: Millis,
    ) -> Result<(), ResponseError> {
        match self.groups.get_mut(group) {
            Some(state) => state.may_commit(caller, now),
            None if caller.generation < 0 => Ok(()),
            // After a restart the members are unknown and join again.
            None => Err(ResponseError::UnknownMemberId),
        }
    }

    pub(crate) fn get(&self, group: &str) -> Option<&Group> {
        self.groups.get(group)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.groups.iter()
    }

    /// Deletes a group without members; false if it has some.
    pub(crate) fn delete(&mut self, group: &str) -> bool {
        let vacant = self.groups.get(group).is_none_or(Group::is_vacant);
        if vacant {
            self.groups.remove(group);
        }
        vacant
    }

    pub(crate) fn tick(&mut self, now: Millis, out: &mut GroupAnswers) {
        for group in self.groups.values_mut() {
            if group.next_deadline().is_some_and(|d| d <= now) {
                group.tick(now, out);
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.groups.values().filter_map(Group::next_deadline).min()
    }
}
