//! Consumer groups: translates between the protocol and the state machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{
    ApiKey, DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, GroupId, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest,
    ListGroupsResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Notify;

use super::{Reply, code};
use crate::core::{Core, error_of};
use crate::group::coordinator::Coordinator;
use crate::group::messages::{Caller, GroupAnswer, GroupAnswers, Join, Millis, Sync, Ticket};
use crate::group::state::Group;
use crate::wire::frame::Header;

const UNKNOWN_OPERATIONS: i32 = i32::MIN;

/// A copy: a slice would keep the whole receive buffer alive for as long as the member lives.
fn copied(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn text(s: String) -> StrBytes {
    StrBytes::from_string(s)
}

fn millis(ms: i32) -> Millis {
    Millis::try_from(ms).unwrap_or(0)
}

pub(crate) fn join(
    core: &mut Core,
    signal: &Arc<Notify>,
    peer: SocketAddr,
    header: &Header,
    request: JoinGroupRequest,
) -> Reply {
    let session_ms = millis(request.session_timeout_ms);
    let protocols = request
        .protocols
        .iter()
        .map(|p| (p.name.to_string(), copied(&p.metadata)));
    let join = Join {
        member: request.member_id.to_string(),
        instance: request.group_instance_id.map(|i| i.to_string()),
        client_id: header.client_id.clone(),
        client_host: format!("/{}", peer.ip()),
        session_ms,
        // Version 0 has no rebalance timeout.
        rebalance_ms: if header.version == 0 {
            session_ms
        } else {
            millis(request.rebalance_timeout_ms)
        },
        protocol_type: request.protocol_type.to_string(),
        protocols: protocols.collect(),
        needs_id_first: header.version >= 4,
        fresh_id: Coordinator::fresh_member_id(&header.client_id),
    };
    let now = core.now();
    let ticket = core.open_ticket(signal);
    let mut answers = GroupAnswers::new();
    let begun = core
        .groups
        .join(&request.group_id, join, ticket, now, &mut answers);
    waiting(
        core,
        ticket,
        begun.map_err(GroupAnswer::JoinFailed),
        answers,
    )
}

fn waiting(
    core: &mut Core,
    ticket: Ticket,
    begun: Result<(), GroupAnswer>,
    mut answers: GroupAnswers,
) -> Reply {
    if let Err(refused) = begun {
        answers.push((ticket, refused));
    }
    core.deliver(answers);
    Reply::Group(ticket)
}

pub(crate) fn sync(
    core: &mut Core,
    signal: &Arc<Notify>,
    header: &Header,
    request: SyncGroupRequest,
) -> Reply {
    let assignments = request
        .assignments
        .iter()
        .map(|a| (a.member_id.to_string(), copied(&a.assignment)));
    let named =
        |name: Option<StrBytes>| name.filter(|_| header.version >= 5).map(|n| n.to_string());
    let sync = Sync {
        caller: Caller {
            member: request.member_id.to_string(),
            instance: request.group_instance_id.map(|i| i.to_string()),
            generation: request.generation_id,
        },
        assignments: assignments.collect(),
        protocol_type: named(request.protocol_type),
        protocol: named(request.protocol_name),
    };
    let now = core.now();
    let ticket = core.open_ticket(signal);
    let mut answers = GroupAnswers::new();
    let begun = core
        .groups
        .sync(&request.group_id, sync, ticket, now, &mut answers);
    waiting(
        core,
        ticket,
        begun.map_err(GroupAnswer::SyncFailed),
        answers,
    )
}

/// The response frame for an answer of the state machine.
pub(crate) fn answer(header: &Header, answer: GroupAnswer) -> Vec<u8> {
    match (header.api.key, answer) {
        (ApiKey::JoinGroup, answer) => header.encode(&join_response(answer)),
        (_, GroupAnswer::Synced(share)) => header.encode(
            &SyncGroupResponse::default()
                .with_protocol_type(Some(text(share.protocol_type)))
                .with_protocol_name(Some(text(share.protocol)))
                .with_assignment(share.assignment),
        ),
        (_, GroupAnswer::SyncFailed(error) | GroupAnswer::JoinFailed(error)) => {
            header.encode(&SyncGroupResponse::default().with_error_code(error.code()))
        }
        (_, GroupAnswer::Joined(_) | GroupAnswer::MemberIdRequired(_)) => {
            let error = ResponseError::UnknownServerError.code();
            header.encode(&SyncGroupResponse::default().with_error_code(error))
        }
    }
}

fn join_response(answer: GroupAnswer) -> JoinGroupResponse {
    // The field is not nullable before version 7, so it is never null.
    let response = JoinGroupResponse::default()
        .with_generation_id(-1)
        .with_protocol_name(Some(StrBytes::new()));
    match answer {
        GroupAnswer::Joined(joined) => {
            let members = joined.members.into_iter().map(|(id, instance, metadata)| {
                JoinGroupResponseMember::default()
                    .with_member_id(text(id))
                    .with_group_instance_id(instance.map(text))
                    .with_metadata(metadata)
            });
            response
                .with_generation_id(joined.generation)
                .with_protocol_type(Some(text(joined.protocol_type)))
                .with_protocol_name(Some(text(joined.protocol)))
                .with_leader(text(joined.leader))
                .with_member_id(text(joined.member))
                .with_members(members.collect())
        }
        GroupAnswer::MemberIdRequired(id) => response
            .with_error_code(ResponseError::MemberIdRequired.code())
            .with_member_id(text(id)),
        GroupAnswer::JoinFailed(error) | GroupAnswer::SyncFailed(error) => {
            response.with_error_code(error.code())
        }
        GroupAnswer::Synced(_) => {
            response.with_error_code(ResponseError::UnknownServerError.code())
        }
    }
}

pub(crate) fn heartbeat(core: &mut Core, header: &Header, request: &HeartbeatRequest) -> Reply {
    let caller = Caller {
        member: request.member_id.to_string(),
        instance: request.group_instance_id.as_ref().map(ToString::to_string),
        generation: request.generation_id,
    };
    let now = core.now();
    let alive = core.groups.heartbeat(&request.group_id, &caller, now);
    Reply::Ready(header.encode(&HeartbeatResponse::default().with_error_code(code(alive))))
}

pub(crate) fn leave(core: &mut Core, header: &Header, request: LeaveGroupRequest) -> Reply {
    let now = core.now();
    let group = request.group_id.as_str();
    let mut answers = GroupAnswers::new();
    let response = LeaveGroupResponse::default();
    let response = if header.version < 3 {
        let left = core
            .groups
            .leave(group, &request.member_id, None, now, &mut answers);
        response.with_error_code(code(left))
    } else {
        let members = request.members.into_iter().map(|member| {
            let instance = member.group_instance_id.as_deref();
            let left = core
                .groups
                .leave(group, &member.member_id, instance, now, &mut answers);
            MemberResponse::default()
                .with_error_code(code(left))
                .with_group_instance_id(member.group_instance_id)
                .with_member_id(member.member_id)
        });
        response.with_members(members.collect())
    };
    core.deliver(answers);
    Reply::Ready(header.encode(&response))
}

/// Lists groups with members, and those with only offsets.
pub(crate) fn list(core: &Core, header: &Header, request: &ListGroupsRequest) -> Reply {
    let mut shown: BTreeMap<String, (String, &'static str)> = BTreeMap::new();
    for group in core.topics.attended().into_keys() {
        shown.insert(group, ("consumer".to_owned(), "Stable"));
    }
    for group in core.topics.groups() {
        shown
            .entry(group)
            .or_insert_with(|| ("consumer".to_owned(), "Empty"));
    }
    for (id, group) in core.groups.iter() {
        if !group.is_vacant() || core.topics.has_group(id) {
            let state = (group.protocol_type().to_owned(), group.phase.name());
            shown.insert(id.clone(), state);
        }
    }
    let wanted = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|f| f.eq_ignore_ascii_case(value))
    };
    let groups = shown
        .into_iter()
        .filter(|(_, (_, state))| wanted(&request.states_filter, state))
        .filter(|_| wanted(&request.types_filter, "classic"))
        .map(|(id, (protocol_type, state))| {
            ListedGroup::default()
                .with_group_id(GroupId(text(id)))
                .with_protocol_type(text(protocol_type))
                .with_group_state(StrBytes::from_static_str(state))
                .with_group_type(StrBytes::from_static_str("classic"))
        });
    let response = ListGroupsResponse::default().with_groups(groups.collect());
    Reply::Ready(header.encode(&response))
}

pub(crate) fn describe(core: &Core, header: &Header, request: DescribeGroupsRequest) -> Reply {
    let attended = core.topics.attended();
    let groups = request.groups.into_iter().map(|id| {
        let described = DescribedGroup::default().with_authorized_operations(UNKNOWN_OPERATIONS);
        let described = match core.groups.get(&id) {
            Some(group) => describe_one(described, group),
            None if core.topics.has_group(&id) => described
                .with_group_state(StrBytes::from_static_str("Empty"))
                .with_protocol_type(StrBytes::from_static_str("consumer")),
            None => described.with_group_state(StrBytes::from_static_str("Dead")),
        };
        let attendants = attended.get(id.as_str()).copied().unwrap_or(0);
        with_attendants(described, attendants).with_group_id(id)
    });
    let response = DescribeGroupsResponse::default().with_groups(groups.collect());
    Reply::Ready(header.encode(&response))
}

/// A group as shown, with the readers of this process that attend it.
fn with_attendants(mut described: DescribedGroup, count: usize) -> DescribedGroup {
    if count == 0 {
        return described;
    }
    if described.members.is_empty() {
        described.group_state = StrBytes::from_static_str("Stable");
        described.protocol_type = StrBytes::from_static_str("consumer");
    }
    let one = |number| {
        DescribedGroupMember::default()
            .with_member_id(text(format!("within-the-broker-{number}")))
            .with_client_id(StrBytes::from_static_str("within-the-broker"))
            .with_client_host(StrBytes::from_static_str("/127.0.0.1"))
    };
    described.members.extend((1..=count).map(one));
    described
}

fn describe_one(described: DescribedGroup, group: &Group) -> DescribedGroup {
    let members = group.members.iter().map(|(id, member)| {
        DescribedGroupMember::default()
            .with_member_id(text(id.clone()))
            .with_group_instance_id(member.instance.clone().map(text))
            .with_client_id(text(member.client_id.clone()))
            .with_client_host(text(member.client_host.clone()))
            .with_member_metadata(group.metadata(member))
            .with_member_assignment(member.assignment.clone())
    });
    described
        .with_group_state(StrBytes::from_static_str(group.phase.name()))
        .with_protocol_type(text(group.protocol_type().to_owned()))
        .with_protocol_data(text(group.protocol().to_owned()))
        .with_members(members.collect())
}

pub(crate) fn delete(core: &mut Core, header: &Header, request: DeleteGroupsRequest) -> Reply {
    let attended = core.topics.attended();
    let begun = request.groups_names.into_iter().map(|id| {
        let known = core.groups.get(&id).is_some() || core.topics.has_group(&id);
        let deleting = if !known {
            Err(ResponseError::GroupIdNotFound)
        } else if attended.contains_key(id.as_str()) || !core.groups.delete(&id) {
            Err(ResponseError::NonEmptyGroup)
        } else {
            Ok(core.topics.forget(&id, None))
        };
        (id, deleting)
    });
    let begun: Vec<_> = begun.collect();
    let header = header.clone();
    Reply::later(async move {
        let mut results = Vec::with_capacity(begun.len());
        for (id, deleting) in begun {
            let deleted = match deleting {
                Ok(deleting) => deleting.await.map_err(|e| error_of(&e)),
                Err(error) => Err(error),
            };
            let result = DeletableGroupResult::default().with_group_id(id);
            results.push(result.with_error_code(code(deleted)));
        }
        header.encode(&DeleteGroupsResponse::default().with_results(results))
    })
}
