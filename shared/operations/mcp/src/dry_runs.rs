//! Dry runs, kept in memory: each permits its caller one act, for five minutes.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use triad_core::Timestamp;
use triad_operator::operations::{Caller, Route};
use triad_workflow::Millis;

/// How long a dry run permits its act: five minutes, inclusive.
pub const VALID_FOR: Millis = Millis(300_000);
/// Most dry runs that are kept, used ones included. Beyond it the oldest is dropped, and its act is then refused.
pub const MAX_TRIED: usize = 256;

/// A request that was tried in a dry run: as it is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    /// The request's type.
    pub(crate) route: &'static Route,
    /// Its fields.
    pub(crate) fields: Map<String, Value>,
}

impl PartialEq for Tried {
    fn eq(&self, other: &Self) -> bool {
        self.route.name == other.route.name && self.fields == other.fields
    }
}

/// Why a dry run does not permit an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotPermitted {
    #[error(
        "there is no such dry run: it was forgotten, or made before the server started; make one with `dry_run`"
    )]
    Unknown,
    #[error("this dry run belongs to another caller: make your own with `dry_run`")]
    Foreign,
    #[error(
        "this dry run was used already, and permits only one act: check its result, or make another with `dry_run`"
    )]
    Used,
    #[error(
        "this dry run is older than five minutes: what it showed may not hold any more; make another with `dry_run`"
    )]
    Old,
}

impl NotPermitted {
    /// A stable code for programs.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Unknown => "no-such-dry-run",
            Self::Foreign => "dry-run-of-another",
            Self::Used => "dry-run-used",
            Self::Old => "dry-run-too-old",
        }
    }
}

/// The dry runs, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct DryRuns(VecDeque<TriedAct>);

#[derive(Debug)]
struct TriedAct {
    id: String,
    of: Caller,
    at: Timestamp,
    request: Tried,
    is_used: bool,
}

impl DryRuns {
    /// Stores a dry run under a new id.
    pub(crate) fn keep(&mut self, id: String, of: Caller, at: Timestamp, request: Tried) {
        if self.0.len() >= MAX_TRIED {
            self.0.pop_front();
        }
        self.0.push_back(TriedAct {
            id,
            of,
            at,
            request,
            is_used: false,
        });
    }

    /// The request of a dry run; each can be taken once.
    pub(crate) fn take(
        &mut self,
        id: &str,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Tried, NotPermitted> {
        let found = self.0.iter_mut().find(|one| one.id == id);
        let one = found.ok_or(NotPermitted::Unknown)?;
        if one.of != *caller {
            return Err(NotPermitted::Foreign);
        }
        if one.is_used {
            return Err(NotPermitted::Used);
        }
        if now.since(one.at) > VALID_FOR {
            return Err(NotPermitted::Old);
        }
        one.is_used = true;
        Ok(one.request.clone())
    }
}

#[cfg(test)]
mod tests {
    use triad_operator::operations::{ROUTES, Role};

    use super::*;

    fn who(name: &str) -> Caller {
        Caller {
            name: Some(name.to_owned()),
            role: Role::Operate,
        }
    }

    fn request() -> Tried {
        Tried {
            route: &ROUTES[0],
            fields: Map::new(),
        }
    }

    fn kept() -> DryRuns {
        let mut tried = DryRuns::default();
        tried.keep("a".into(), who("ann"), Timestamp(1_000), request());
        tried
    }

    #[test]
    fn a_dry_run_permits_one_act() {
        let mut tried = kept();
        let now = Timestamp(2_000);
        assert_eq!(tried.take("a", &who("ann"), now), Ok(request()));
        assert_eq!(tried.take("a", &who("ann"), now), Err(NotPermitted::Used));
        assert_eq!(
            tried.take("b", &who("ann"), now),
            Err(NotPermitted::Unknown)
        );
    }

    #[test]
    fn a_dry_run_permits_its_act_for_five_minutes() {
        let at = Timestamp(1_000 + 300_000);
        assert_eq!(kept().take("a", &who("ann"), at), Ok(request()));
        let late = Timestamp(at.0 + 1);
        assert_eq!(kept().take("a", &who("ann"), late), Err(NotPermitted::Old));
    }

    #[test]
    fn a_dry_run_permits_nothing_to_somebody_else() {
        let now = Timestamp(2_000);
        let mut tried = kept();
        assert_eq!(
            tried.take("a", &who("bob"), now),
            Err(NotPermitted::Foreign)
        );
        assert_eq!(tried.take("a", &who("ann"), now), Ok(request()));
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let mut tried = kept();
        for n in 1..=MAX_TRIED {
            assert_eq!(tried.0.len(), n.min(MAX_TRIED));
            tried.keep(n.to_string(), who("ann"), Timestamp(1_000), request());
        }
        let now = Timestamp(2_000);
        assert_eq!(
            tried.take("a", &who("ann"), now),
            Err(NotPermitted::Unknown)
        );
        assert_eq!(tried.take("1", &who("ann"), now), Ok(request()));
    }
}
