//! The group state machine, without IO: time and tickets are numbers.

use bytes::Bytes;
use kafka_protocol::error::ResponseError::{
    self, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol, RebalanceInProgress,
    UnknownMemberId,
};

use super::messages::{Caller, GroupAnswer, GroupAnswers, Join, Joined, Sync, Ticket};
use super::state::{Group, Phase};

const SESSION: u64 = 1_000;
const REBALANCE: u64 = 5_000;

/// A group with a clock and a ticket counter.
struct World {
    group: Group,
    now: u64,
    tickets: u64,
    answers: GroupAnswers,
}

fn world() -> World {
    World {
        group: Group::new(0),
        now: 0,
        tickets: 0,
        answers: GroupAnswers::new(),
    }
}

fn request(member: &str) -> Join {
    Join {
        member: member.into(),
        instance: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_ms: SESSION,
        rebalance_ms: REBALANCE,
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), Bytes::from_static(b"topics"))],
        needs_id_first: false,
        fresh_id: String::new(),
    }
}

impl World {
    fn join(&mut self, request: Join) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.group
            .join(request, ticket, self.now, &mut self.answers);
        ticket
    }

    /// Joins a new member, which gets this id at once.
    fn enter(&mut self, id: &str) -> Ticket {
        self.join(Join {
            fresh_id: id.into(),
            ..request("")
        })
    }

    fn rejoin(&mut self, id: &str) -> Ticket {
        self.join(request(id))
    }

    fn sync(&mut self, id: &str, generation: i32, shares: &[(&str, &'static [u8])]) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let sync = Sync {
            caller: caller(id, generation),
            protocol_type: Some("consumer".into()),
            protocol: Some("range".into()),
            assignments: shares
                .iter()
                .map(|(m, s)| ((*m).into(), Bytes::from_static(s)))
                .collect(),
        };
        self.group.sync(sync, ticket, self.now, &mut self.answers);
        ticket
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
        self.group.tick(self.now, &mut self.answers);
    }

    /// Takes the answer to a ticket.
    fn answer(&mut self, ticket: Ticket) -> Option<GroupAnswer> {
        let at = self.answers.iter().position(|(t, _)| *t == ticket)?;
        Some(self.answers.remove(at).1)
    }

    fn joined(&mut self, ticket: Ticket) -> Joined {
        match self.answer(ticket) {
            Some(GroupAnswer::Joined(joined)) => joined,
            other => panic!("{other:?}"),
        }
    }

    fn share(&mut self, ticket: Ticket) -> Bytes {
        match self.answer(ticket) {
            Some(GroupAnswer::Synced(synced)) => synced.assignment,
            other => panic!("{other:?}"),
        }
    }

    fn heartbeat(&mut self, id: &str, generation: i32) -> Result<(), ResponseError> {
        self.group.heartbeat(&caller(id, generation), self.now)
    }
}

fn caller(id: &str, generation: i32) -> Caller {
    Caller {
        member: id.into(),
        instance: None,
        generation,
    }
}

/// Two members in generation 2, `a` leading, both with an assignment.
fn stable() -> World {
    let mut w = world();
    w.enter("a");
    w.enter("b");
    w.rejoin("a");
    assert!(matches!(w.group.phase, Phase::Completing { .. }));
    w.sync("b", 2, &[]);
    w.sync("a", 2, &[("a", b"1"), ("b", b"2")]);
    assert_eq!(w.group.phase, Phase::Stable);
    w.answers.clear();
    w
}

#[test]
fn the_first_member_leads_and_gets_the_list() {
    let mut w = world();
    let ticket = w.enter("a");
    let joined = w.joined(ticket);
    assert_eq!(
        (
            joined.generation,
            joined.leader.as_str(),
            joined.members.len()
        ),
        (1, "a", 1)
    );
    let ticket = w.sync("a", 1, &[("a", b"all")]);
    assert_eq!(w.share(ticket), "all");
    assert_eq!(w.group.phase, Phase::Stable);
}

#[test]
fn a_newcomer_is_given_an_id_and_comes_again_with_it() {
    let mut w = world();
    let ticket = w.join(Join {
        needs_id_first: true,
        fresh_id: "a".into(),
        ..request("")
    });
    assert_eq!(
        w.answer(ticket),
        Some(GroupAnswer::MemberIdRequired("a".into()))
    );
    assert_eq!(w.group.phase, Phase::Empty);
    let ticket = w.rejoin("a");
    assert_eq!(w.joined(ticket).member, "a");
}

#[test]
fn an_id_that_was_never_given_out_is_unknown() {
    let mut w = world();
    let ticket = w.rejoin("stranger");
    assert_eq!(
        w.answer(ticket),
        Some(GroupAnswer::JoinFailed(UnknownMemberId))
    );
}

#[test]
fn the_initial_delay_gathers_members_into_one_generation() {
    let mut w = World {
        group: Group::new(50),
        ..world()
    };
    let first = w.enter("a");
    w.pass(20);
    let second = w.enter("b");
    assert!(w.answers.is_empty());
    assert_eq!(w.group.next_deadline(), Some(50));
    w.pass(30);
    assert_eq!(w.joined(first).members.len(), 2);
    assert_eq!(w.joined(second).generation, 1);
}

#[test]
fn a_second_member_waits_until_the_first_has_joined_again() {
    let mut w = world();
    w.enter("a");
    w.sync("a", 1, &[]);
    let second = w.enter("b");
    assert_eq!(w.answer(second), None);
    assert_eq!(w.heartbeat("a", 1), Err(RebalanceInProgress));
    let first = w.rejoin("a");
    let (first, second) = (w.joined(first), w.joined(second));
    assert_eq!((first.generation, second.generation), (2, 2));
    assert_eq!((first.members.len(), second.members.len()), (2, 0));
}

#[test]
fn shares_reach_those_who_synced_before_the_leader_and_after_it() {
    let mut w = world();
    w.enter("a");
    w.enter("b");
    w.rejoin("a");
    let early = w.sync("b", 2, &[]);
    assert_eq!(w.answer(early), None);
    let leader = w.sync("a", 2, &[("a", b"1"), ("b", b"2")]);
    assert_eq!(
        (w.share(leader), w.share(early)),
        (Bytes::from("1"), Bytes::from("2"))
    );
    let again = w.sync("b", 2, &[]);
    assert_eq!(w.share(again), "2");
}

#[test]
fn a_silent_member_is_removed_and_the_others_rebalance() {
    let mut w = stable();
    w.pass(SESSION - 1);
    assert_eq!(w.heartbeat("a", 2), Ok(()));
    w.pass(1);
    assert_eq!(w.heartbeat("b", 2), Err(UnknownMemberId));
    assert_eq!(w.heartbeat("a", 2), Err(RebalanceInProgress));
    let ticket = w.rejoin("a");
    let joined = w.joined(ticket);
    assert_eq!((joined.generation, joined.members.len()), (3, 1));
}

#[test]
fn who_does_not_rejoin_in_time_is_left_behind() {
    let mut w = stable();
    let third = w.enter("c");
    w.rejoin("a");
    for _ in 0..REBALANCE / 500 {
        let _ = w.heartbeat("b", 2);
        w.pass(500);
    }
    assert_eq!(w.joined(third).generation, 3);
    assert_eq!(w.heartbeat("b", 3), Err(UnknownMemberId));
}

#[test]
fn a_leader_that_never_assigns_is_removed() {
    let mut w = world();
    w.enter("a");
    w.enter("b");
    w.rejoin("a");
    let waiting = w.sync("b", 2, &[]);
    w.pass(REBALANCE);
    assert_eq!(
        w.answer(waiting),
        Some(GroupAnswer::SyncFailed(RebalanceInProgress))
    );
    let ticket = w.rejoin("b");
    let joined = w.joined(ticket);
    assert_eq!((joined.leader.as_str(), joined.members.len()), ("b", 1));
}

#[test]
fn leaving_rebalances_at_once_and_the_last_one_empties_the_group() {
    let mut w = stable();
    w.group.leave("b", None, w.now, &mut w.answers).unwrap();
    assert_eq!(w.heartbeat("a", 2), Err(RebalanceInProgress));
    w.rejoin("a");
    w.group.leave("a", None, w.now, &mut w.answers).unwrap();
    assert_eq!(w.group.phase, Phase::Empty);
    assert!(w.group.is_vacant());
    assert_eq!(
        w.group.leave("a", None, w.now, &mut w.answers),
        Err(UnknownMemberId)
    );
}

#[test]
fn a_static_member_that_returns_fences_its_former_self() {
    let mut w = world();
    let fixed = |id: &str| Join {
        instance: Some("i".into()),
        fresh_id: id.into(),
        ..request("")
    };
    w.join(fixed("old"));
    w.sync("old", 1, &[]);
    let ticket = w.join(fixed("new"));
    assert_eq!(w.joined(ticket).members.len(), 1);
    let former = Caller {
        instance: Some("i".into()),
        ..caller("old", 1)
    };
    assert_eq!(w.group.heartbeat(&former, w.now), Err(FencedInstanceId));
}

#[test]
fn no_common_protocol_is_refused_and_votes_decide_between_common_ones() {
    let mut w = world();
    let with = |id: &str, names: &[&str]| Join {
        fresh_id: id.into(),
        protocols: names.iter().map(|n| ((*n).into(), Bytes::new())).collect(),
        ..request("")
    };
    w.join(with("a", &["range", "sticky"]));
    w.sync("a", 1, &[]);
    let ticket = w.join(with("x", &["other"]));
    assert_eq!(
        w.answer(ticket),
        Some(GroupAnswer::JoinFailed(InconsistentGroupProtocol))
    );
    let ticket = w.join(with("b", &["sticky"]));
    w.join(Join {
        member: "a".into(),
        ..with("", &["range", "sticky"])
    });
    assert_eq!(w.joined(ticket).protocol, "sticky");
}

#[test]
fn commits_need_the_generation_unless_the_group_is_empty() {
    let mut w = world();
    assert_eq!(w.group.may_commit(&caller("", -1), 0), Ok(()));
    w.enter("a");
    assert_eq!(w.group.may_commit(&caller("", -1), 0), Err(UnknownMemberId));
    assert_eq!(
        w.group.may_commit(&caller("a", 1), 0),
        Err(RebalanceInProgress)
    );
    w.sync("a", 1, &[]);
    assert_eq!(w.group.may_commit(&caller("a", 1), 0), Ok(()));
    assert_eq!(
        w.group.may_commit(&caller("a", 0), 0),
        Err(IllegalGeneration)
    );
}

/// Creates a group in some phase.
type Given = fn() -> World;

/// An action on a group in some phase, and its error.
type Deed = fn(&mut World) -> Option<ResponseError>;

#[test]
fn every_deed_in_every_phase() {
    fn failure(answer: Option<GroupAnswer>) -> Option<ResponseError> {
        match answer {
            Some(GroupAnswer::JoinFailed(e) | GroupAnswer::SyncFailed(e)) => Some(e),
            _ => None,
        }
    }
    // Member `a` exists in all phases but the first; its generation is 1.
    let phases: [(&str, Given); 4] = [
        ("Empty", world),
        ("PreparingRebalance", || {
            let mut w = world();
            w.enter("a");
            w.sync("a", 1, &[]);
            w.enter("b");
            w
        }),
        ("CompletingRebalance", || {
            let mut w = world();
            w.enter("a");
            w
        }),
        ("Stable", || {
            let mut w = world();
            w.enter("a");
            w.sync("a", 1, &[]);
            w
        }),
    ];
    let deeds: [(&str, Deed, [Option<ResponseError>; 4]); 7] = [
        (
            "a newcomer joins",
            |w| {
                let ticket = w.enter("n");
                failure(w.answer(ticket))
            },
            [None; 4],
        ),
        (
            "a member joins again",
            |w| {
                let ticket = w.rejoin("a");
                failure(w.answer(ticket))
            },
            [Some(UnknownMemberId), None, None, None],
        ),
        (
            "a member syncs",
            |w| {
                let ticket = w.sync("a", 1, &[]);
                failure(w.answer(ticket))
            },
            [Some(UnknownMemberId), Some(RebalanceInProgress), None, None],
        ),
        (
            "a member syncs with an old generation",
            |w| {
                let ticket = w.sync("a", 0, &[]);
                failure(w.answer(ticket))
            },
            [
                Some(UnknownMemberId),
                Some(IllegalGeneration),
                Some(IllegalGeneration),
                Some(IllegalGeneration),
            ],
        ),
        (
            "a heartbeat",
            |w| w.heartbeat("a", 1).err(),
            [Some(UnknownMemberId), Some(RebalanceInProgress), None, None],
        ),
        (
            "a commit",
            |w| w.group.may_commit(&caller("a", 1), 0).err(),
            [Some(UnknownMemberId), None, Some(RebalanceInProgress), None],
        ),
        (
            "a member leaves",
            |w| w.group.leave("a", None, 0, &mut w.answers).err(),
            [Some(UnknownMemberId), None, None, None],
        ),
    ];
    for (what, deed, expected) in deeds {
        for ((phase, given), expected) in phases.iter().zip(expected) {
            let mut w = given();
            assert_eq!(w.group.phase.name(), *phase);
            assert_eq!(deed(&mut w), expected, "{what} in {phase}");
        }
    }
}
