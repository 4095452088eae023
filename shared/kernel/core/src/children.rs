//! Child orders: orders that a step of another order, their parent, has started.
//!
//! Each is an order like any other, with a record of its own. The parent's record keeps of each where it is, in a
//! character or two; the child's record keeps whose child it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use triad_workflow::{DefinitionHash, Millis, Run, Started, StepId, WorkflowName};

use crate::failure::Failure;
use crate::ids::{MAX_ORDER_ID_BYTES, OrderId, Timestamp};
use crate::output::{Output, OutputDigest};

/// Most orders above an order, each the parent of the next, inclusive.
pub const MAX_DEPTH: u32 = 4;
/// Largest output of a child order that lies in its parent's record until the others have ended too, in bytes of
/// compact JSON, inclusive.
const MAX_INLINE_BYTES: usize = 64;
/// Largest list of what the child orders of one step bring, as JSON, in bytes, inclusive: 256 KiB. What one of them
/// brings beyond that is left out: its place has null.
pub const MAX_JOINED_BYTES: usize = 256 * 1024;

/// Shortest time until a step asks again for child orders whose end has not come. It doubles with each time.
pub(crate) const ASK_AGAIN: Millis = Millis(60_000);

/// The step of another order that has started an order: the order's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent order.
    pub order_id: OrderId,
    /// Its step.
    pub step: StepId,
    /// Which of the step's child orders this is, from 0.
    pub number: u32,
    /// How often an order was started in this place before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// How many orders are above this one, from 1 to [`MAX_DEPTH`].
    pub depth: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The message by which a parent starts a child order, or has it compensated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildOrder {
    /// Id of the child order.
    pub order_id: OrderId,
    /// Whose child it is.
    pub parent: Parent,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// The version of the workflow; absent: the one that is published now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<DefinitionHash>,
    /// Its details; empty if it is to be compensated.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// Longest time from its start to its end; absent: that of its workflow, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_timeout: Option<Millis>,
    /// Some: it is to be compensated. Absent: it is to be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Compensate>,
}

/// What a parent knows of a child order that is to be compensated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compensate {
    /// Whether it was Processed. If it is not stored any more, it cannot be compensated; otherwise one that is not
    /// stored ends without ever having begun.
    pub was_processed: bool,
}

impl Parent {
    /// Digest of the place: 32 hexadecimal digits. A child order is known by its place, however its details are made
    /// again; an order of an application never has this digest.
    #[must_use]
    pub fn digest(&self) -> String {
        let place = format!(
            "child of {} {} {} {}",
            self.order_id, self.step, self.number, self.attempt
        );
        hex(&Sha256::digest(place)[..16])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// How a child order has ended, as it tells its parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum ChildEnd {
    /// It is Processed.
    Processed {
        /// What it brings: at most [`MAX_OUTPUT_BYTES`](crate::message::MAX_OUTPUT_BYTES).
        #[serde(default, skip_serializing_if = "Value::is_null")]
        output: Value,
    },
    /// It has no effect: it is Compensated, was never accepted, or was closed by an operator.
    NoEffect {
        /// Why.
        cause: Failure,
    },
    /// It cannot be compensated any more: it has passed its point of no return, or its record has expired.
    Kept {
        /// Why.
        cause: Failure,
    },
}

impl ChildEnd {
    /// Its name, as in the message.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Processed { .. } => "processed",
            Self::NoEffect { .. } => "no-effect",
            Self::Kept { .. } => "kept",
        }
    }
}

/// A child order's message to its parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildEnded {
    /// Id of the parent order.
    pub order_id: OrderId,
    /// Whose child it is.
    pub parent: Parent,
    /// Id of the child order.
    pub child: OrderId,
    /// How it has ended.
    pub end: ChildEnd,
}

/// Where a child order is, as far as its parent knows.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildState {
    /// It has not been started.
    Waiting,
    /// It was started, and its end has not come.
    Running,
    /// It is Processed, and this is what it brings; null once the outputs of all are joined.
    Processed(Output),
    /// It has failed: it is Compensated.
    Failed,
    /// It is to be compensated, and its end has not come.
    Compensating {
        /// Whether it was Processed: then it has been stored, even if its record should have expired.
        was_processed: bool,
    },
    /// It is compensated.
    Compensated,
    /// It cannot be compensated.
    Kept,
}

impl ChildState {
    /// The letter of the state in the stored form. It stays.
    fn letter(&self) -> char {
        match self {
            Self::Waiting => 'w',
            Self::Running => 'r',
            Self::Processed(_) => 'p',
            Self::Failed => 'f',
            Self::Compensating {
                was_processed: false,
            } => 'c',
            Self::Compensating {
                was_processed: true,
            } => 'd',
            Self::Compensated => 'u',
            Self::Kept => 'k',
        }
    }

    /// Whether it is to be compensated, and its end has not come.
    #[must_use]
    pub fn is_compensating(&self) -> bool {
        matches!(self, Self::Compensating { .. })
    }

    /// Whether it has an effect, or may have one.
    #[must_use]
    pub fn may_have_effect(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Failed | Self::Compensated)
    }
}

/// One child order in its parent's record.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// Where it is.
    pub state: ChildState,
    /// How often an order was started in this place before: part of its id.
    pub attempt: u32,
}

/// The child orders of one step, in the order of the list that they are made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredChildren", into = "StoredChildren")]
pub struct Children {
    /// When the first was started, or compensated.
    pub since: Timestamp,
    /// The highest [attempt](Child::attempt) that any of them has had, also in a place that there is no more.
    pub newest: u32,
    /// Whether there is one for each element of a list, and not one alone: their ids then have numbers.
    pub is_list: bool,
    /// Which way to do the work of the step is tried, from 0, if they are tried one after another.
    pub way: u32,
    /// Of a step that is completed and has [let ways go](Self::lets_go): when it asks them again. `None`: with the next
    /// claim, or it has let none go.
    pub asks_again: Option<Timestamp>,
    /// The child orders, at most [`MAX_INSTANCES`](triad_workflow::check::MAX_INSTANCES).
    pub all: Vec<Child>,
}

impl Children {
    /// Puts another child order in the place of the one that a step runs alone: the next way to do its work.
    pub(crate) fn take_next_way(&mut self) {
        self.way += 1;
        self.newest += 1;
        self.all = vec![Child {
            state: ChildState::Waiting,
            attempt: self.newest,
        }];
    }

    /// Puts another child order in the place of each that is Processed and is to be done again.
    pub(crate) fn begin_anew(&mut self) {
        let attempt = self.newest + 1;
        for child in &mut self.all {
            if matches!(child.state, ChildState::Processed(_)) {
                let state = ChildState::Waiting;
                (*child, self.newest) = (Child { state, attempt }, attempt);
            }
        }
    }

    /// What is started as the child order of this number.
    pub(crate) fn started<'r>(&self, run: &'r Run, number: u32) -> &'r Started {
        run.way(if run.is_race { number } else { self.way })
    }

    /// Whether some are being compensated.
    #[must_use]
    pub fn lets_go(&self) -> bool {
        self.count(ChildState::is_compensating) > 0
    }

    /// How many are in a state.
    #[must_use]
    pub fn count(&self, is: impl Fn(&ChildState) -> bool) -> usize {
        self.all.iter().filter(|child| is(&child.state)).count()
    }

    /// Whether one of them has an effect, or may have one.
    #[must_use]
    pub fn may_have_effect(&self) -> bool {
        self.all.iter().any(|child| child.state.may_have_effect())
    }

    /// The ids of those in a state, in their order, for the parent order and its step.
    pub fn ids<'a>(
        &'a self,
        parent: &'a OrderId,
        step: &'a StepId,
        is: impl Fn(&ChildState) -> bool + 'a,
    ) -> impl Iterator<Item = OrderId> + 'a {
        let numbered = (0..).zip(&self.all);
        numbered
            .filter(move |(_, child)| is(&child.state))
            .map(move |(number, child)| {
                let number = self.is_list.then_some(number);
                child_id(parent, step, number, child.attempt)
            })
    }

    /// What they have brought, in their order.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.all.iter().filter_map(|child| match &child.state {
            ChildState::Processed(output) => Some(output),
            _ => None,
        })
    }

    pub(crate) fn outputs_mut(&mut self) -> impl Iterator<Item = &mut Output> {
        self.all
            .iter_mut()
            .filter_map(|child| match &mut child.state {
                ChildState::Processed(output) => Some(output),
                _ => None,
            })
    }
}

/// The output of a child order, in the parent's record if it is small.
pub(crate) fn output(value: Value) -> Output {
    Output::within(value, MAX_INLINE_BYTES)
}

/// The id of a child order: `<parent>:<step>`, with `:<number>` if it is one of several, and `~<attempt>` from the second
/// one in its place on. If that is too long, the parent's id is cut, and a digest tells it apart.
#[must_use]
pub fn child_id(parent: &OrderId, step: &StepId, number: Option<u32>, attempt: u32) -> OrderId {
    let number = number.map_or_else(String::new, |number| format!(":{number}"));
    let attempt = match attempt {
        0 => String::new(),
        attempt => format!("~{attempt}"),
    };
    let tail = format!(":{step}{number}{attempt}");
    OrderId::new(format!("{parent}{tail}")).unwrap_or_else(|_| {
        let digest = Sha256::digest(format!("{parent}{tail}"));
        let mark = format!("~{}", hex(&digest[..8]));
        let room = MAX_ORDER_ID_BYTES.saturating_sub(mark.len() + tail.len());
        let cut = crate::failure::cut(parent.as_str(), room);
        let id = crate::failure::cut(&format!("{cut}{mark}{tail}"), MAX_ORDER_ID_BYTES);
        OrderId::new(id).unwrap_or_else(|_| parent.clone())
    })
}

/// The stored form: of each child order its letter, and its attempt if that is not 0, such as `ppr2w`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredChildren {
    since: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    newest: u32,
    /// Whether it is one alone, and not one for each element of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    alone: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    way: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asks_again: Option<Timestamp>,
    all: String,
    /// Outputs in the record, by the number of the child order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    outputs: BTreeMap<u32, Value>,
    /// Digests of outputs beside the record, by the number of the child order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    digests: BTreeMap<u32, OutputDigest>,
}

impl From<Children> for StoredChildren {
    fn from(children: Children) -> Self {
        let mut stored = Self {
            since: children.since,
            newest: children.newest,
            alone: !children.is_list,
            way: children.way,
            asks_again: children.asks_again,
            all: String::new(),
            outputs: BTreeMap::new(),
            digests: BTreeMap::new(),
        };
        for (number, child) in (0..).zip(children.all) {
            stored.all.push(child.state.letter());
            if child.attempt > 0 {
                stored.all.push_str(&child.attempt.to_string());
            }
            if let ChildState::Processed(output) = child.state {
                let (value, digest) = output.stored();
                stored
                    .outputs
                    .extend(value.filter(|v| !v.is_null()).map(|v| (number, v)));
                stored.digests.extend(digest.map(|d| (number, d)));
            }
        }
        stored
    }
}

/// A text that is not the stored form of child orders.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} does not say where child orders are")]
struct NotChildren(String);

impl TryFrom<StoredChildren> for Children {
    type Error = NotChildren;

    fn try_from(stored: StoredChildren) -> Result<Self, NotChildren> {
        let StoredChildren {
            since,
            newest,
            alone,
            way,
            asks_again,
            all: letters,
            mut outputs,
            mut digests,
        } = stored;
        let wrong = || NotChildren(letters.clone());
        let mut all: Vec<Child> = Vec::new();
        for letter in letters.chars() {
            if let (Some(digit), Some(last)) = (letter.to_digit(10), all.last_mut()) {
                let more = last
                    .attempt
                    .checked_mul(10)
                    .and_then(|n| n.checked_add(digit));
                last.attempt = more.ok_or_else(wrong)?;
                continue;
            }
            let number = u32::try_from(all.len()).map_err(|_| wrong())?;
            let state = match letter {
                'w' => ChildState::Waiting,
                'r' => ChildState::Running,
                'p' => ChildState::Processed(match digests.remove(&number) {
                    Some(digest) => Output::unread(digest),
                    None => Output::inline(outputs.remove(&number).unwrap_or_default()),
                }),
                'f' => ChildState::Failed,
                'c' | 'd' => ChildState::Compensating {
                    was_processed: letter == 'd',
                },
                'u' => ChildState::Compensated,
                'k' => ChildState::Kept,
                _ => return Err(wrong()),
            };
            all.push(Child { state, attempt: 0 });
        }
        Ok(Self {
            since,
            newest,
            is_list: !alone,
            way,
            asks_again,
            all,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(name: &str) -> StepId {
        StepId::new(name).expect("a name")
    }

    #[test]
    fn a_child_order_has_the_same_id_whenever_it_is_made_and_no_two_have_the_same() {
        let parent = OrderId::new("o-1").expect("an id");
        let id = |number, attempt| child_id(&parent, &step("ship"), number, attempt).to_string();
        assert_eq!(id(None, 0), "o-1:ship");
        assert_eq!(id(Some(17), 0), "o-1:ship:17");
        assert_eq!(id(Some(17), 2), "o-1:ship:17~2");
        let long = |last: char| OrderId::new(format!("{}{last}", "x".repeat(127))).expect("an id");
        let of = |parent: &OrderId, number| child_id(parent, &step("ship"), Some(number), 0);
        let ids = [of(&long('a'), 1), of(&long('a'), 2), of(&long('b'), 1)];
        for (nth, id) in ids.iter().enumerate() {
            assert_eq!(id.as_str().len(), MAX_ORDER_ID_BYTES);
            assert!(id.check_portable().is_ok());
            assert!(!ids[nth + 1..].contains(id), "{id}");
        }
    }

    #[test]
    fn the_stored_form_is_short_and_says_all() {
        let child = |state, attempt| Child { state, attempt };
        let large = json!("x".repeat(MAX_INLINE_BYTES));
        let children = Children {
            since: Timestamp(7),
            newest: 12,
            is_list: true,
            asks_again: Some(Timestamp(9)),
            way: 0,
            all: vec![
                child(ChildState::Processed(output(json!({"b": 1}))), 0),
                child(ChildState::Processed(output(large)), 12),
                child(ChildState::Running, 3),
                child(ChildState::Waiting, 0),
                child(ChildState::Failed, 0),
                child(
                    ChildState::Compensating {
                        was_processed: false,
                    },
                    0,
                ),
                child(
                    ChildState::Compensating {
                        was_processed: true,
                    },
                    0,
                ),
                child(ChildState::Compensated, 0),
                child(ChildState::Kept, 0),
            ],
        };
        let stored = serde_json::to_value(&children).expect("JSON");
        assert_eq!(stored["all"], "pp12r3wfcduk");
        assert_eq!(stored["outputs"], json!({"0": {"b": 1}}));
        let read: Children = serde_json::from_value(stored).expect("children");
        assert_eq!(read, children);
        let ids = |children: &Children, parent: &str| -> Vec<String> {
            let parent = OrderId::new(parent).expect("an id");
            let step = step("ship");
            let ids = children.ids(&parent, &step, |is| *is == ChildState::Running);
            ids.map(|id| id.to_string()).collect()
        };
        assert_eq!(ids(&read, "o-1"), ["o-1:ship:2~3"]);
        let alone = json!({"since": 7, "alone": true, "way": 2, "all": "r"});
        let read: Children = serde_json::from_value(alone.clone()).expect("children");
        assert_eq!(ids(&read, "o-1"), ["o-1:ship"]);
        assert_eq!(serde_json::to_value(&read).expect("JSON"), alone);
        for bad in ["x", "1w", "w99999999999"] {
            let stored = json!({"since": 7, "all": bad});
            assert!(serde_json::from_value::<Children>(stored).is_err(), "{bad}");
        }
    }
}
