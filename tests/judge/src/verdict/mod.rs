//! Decides on histories, object by object, with stateright's linearizability tester.
//!
//! The tester looks for an order of the operations in which each takes effect between its beginning and its end, and
//! every answer is the one that [`Object`] gives. An operation without an answer may take effect at any time after
//! its beginning, or never.
//!
//! The search grows with the overlap, so a history is cut where no operation is under way. Several orders may explain
//! a part and leave different states, so the next part is searched from each of these states. Thus if all parts are
//! explained one after the other, the whole is explained, and if one part is not, the object is unexplained. No cut
//! is made after an operation without an answer. Operations whose answers follow from others are left out. A part
//! that exceeds a limit is undecided, which does not mean correct.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use serde::Serialize;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::history::{Answer, Cell, ClientOperation, Item, Moment, Operation};
use super::object::{Budget, Call, Object, Spent};
use super::recorder::read;
use super::relevant_operations::telling;

/// Limit on the steps of all searches for one object; they take half a minute in an unoptimised build.
const STEPS: u64 = 3_000_000;
/// Limit on the states that one part may leave.
const ENDS: usize = 32;
/// Limit on the operations of one search.
const LONGEST: usize = 1_000;
/// Limit on the operations without an answer in one search.
const UNANSWERED: usize = 8;
/// Lines of a file that are kept in memory. A longer history is judged in rounds, each with a share of the objects.
const LINES: usize = 200_000;
/// Stack of the judge's thread: the tester recurses once for each operation.
const STACK: usize = 64 << 20;
/// Most objects that the report names for each kind of finding.
const EXAMPLES: usize = 3;
/// First thread number for operations without an answer; with high numbers the tester tries them last.
const OPEN: usize = 1 << 20;

/// The counts of a judgement, and its findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Judged {
    /// Objects with at least one answered operation.
    pub objects: usize,
    /// Operations on the store that were judged.
    pub operations: usize,
    /// Of these, the writes that took effect.
    pub writes: usize,
    /// Of these, the writes that were refused because of their condition.
    pub refused: usize,
    /// Of these, the operations without an answer.
    pub unanswered: usize,
    /// Operations without effect for a reason that does not concern the object; they are not judged.
    pub failed: usize,
    /// Requests, replies and effects that were compared with the writes.
    pub seen: usize,
    /// The most operations in one search.
    pub longest: usize,
    /// Objects whose answers no order of the operations explains.
    pub unexplained: FindingGroup,
    /// Objects with a request, reply or effect of an attempt that no earlier write had started.
    pub unfounded: FindingGroup,
    /// Objects that are undecided, with the limit or the reason.
    pub undecided: FindingGroup,
}

/// Findings of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FindingGroup {
    /// Number of objects.
    pub objects: usize,
    /// The first of these objects, each with an explanation.
    pub examples: Vec<String>,
}

impl FindingGroup {
    fn add(&mut self, object: &str, why: impl FnOnce() -> String) {
        self.objects += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{object}: {}", why()));
        }
    }
}

/// Result of a search.
enum SearchEnd {
    Explained,
    Unexplained,
    Undecided(String),
}

/// Judges the history in a file.
///
/// # Errors
/// If it cannot be read.
pub fn judge(path: &Path) -> Result<Judged> {
    let work = |path: &Path| -> Result<Judged> {
        let rounds = read(path)?.count().div_ceil(LINES).max(1);
        let mut judged = Judged::default();
        for round in 0..rounds {
            let mut objects: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
            for operation in read(path)? {
                let operation = operation?;
                if share(&operation.object, rounds) == round {
                    let all = objects.entry(operation.object.clone()).or_default();
                    all.push(operation);
                }
            }
            for (object, operations) in objects {
                judge_object(&object, operations, &mut judged);
            }
        }
        Ok(judged)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let judging = thread.spawn_scoped(scope, || work(path))?;
        let judged = judging.join();
        judged.unwrap_or_else(|_| Err(anyhow::anyhow!("the judge panicked")))
    })
    .context("judging a history")
}

/// Judges a history in memory.
#[must_use]
pub fn judge_all(operations: Vec<Operation>) -> Judged {
    let mut objects: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
    for operation in operations {
        let all = objects.entry(operation.object.clone()).or_default();
        all.push(operation);
    }
    let mut judged = Judged::default();
    for (object, operations) in objects {
        judge_object(&object, operations, &mut judged);
    }
    judged
}

/// The round in which an object is judged.
fn share(object: &str, rounds: usize) -> usize {
    let sum = object.bytes().fold(0_usize, |sum, b| {
        sum.wrapping_mul(31).wrapping_add(b.into())
    });
    sum % rounds
}

fn judge_object(object: &str, mut all: Vec<Operation>, judged: &mut Judged) {
    let before = all.len();
    all.retain(|o| !matches!(o.answer, Answer::Failed(_)));
    judged.failed += before - all.len();
    // A read without an answer has no effect and shows nothing.
    all.retain(|o| !(o.answer == Answer::Unknown && matches!(o.asked, ClientOperation::Read(_))));
    if all.is_empty() {
        return;
    }
    all.sort_by_key(|o| o.began);
    for operation in &all {
        let is_write = matches!(operation.asked, ClientOperation::Put { .. });
        match (&operation.asked, &operation.answer) {
            (ClientOperation::Seen(all), _) => judged.seen += all.len(),
            (_, answer) => {
                judged.operations += 1;
                judged.writes += usize::from(is_write && *answer == Answer::Done);
                judged.refused += usize::from(matches!(answer, Answer::Refused(_)));
                judged.unanswered += usize::from(*answer == Answer::Unknown);
            }
        }
    }
    judged.objects += 1;
    match history(&all, &Budget::of(STEPS), &mut judged.longest) {
        SearchEnd::Explained => return,
        SearchEnd::Undecided(why) => return judged.undecided.add(object, || why),
        SearchEnd::Unexplained => {}
    }
    // Judges the store's operations alone: if they are explained, only the evidence outside of the store is wrong.
    let seen = |o: &Operation| matches!(o.asked, ClientOperation::Seen(_));
    let stored: Vec<Operation> = all.iter().filter(|o| !seen(o)).cloned().collect();
    match history(&stored, &Budget::of(STEPS), &mut judged.longest) {
        SearchEnd::Explained => judged.unfounded.add(object, || culprit(&all)),
        SearchEnd::Unexplained => judged.unexplained.add(object, || culprit(&stored)),
        SearchEnd::Undecided(why) => judged.undecided.add(object, || why),
    }
}

/// Decides on a whole history, sorted by beginning, one part after the other.
fn history(all: &[Operation], budget: &Budget, longest: &mut usize) -> SearchEnd {
    let all = &telling(all);
    let mut states = vec![Object::absent(budget.clone())];
    let mut from = 0;
    for to in cuts(all) {
        let part = &all[from..to];
        *longest = (*longest).max(part.len());
        let (mut after, mut undecided) = (Vec::new(), None);
        for before in &states {
            match search(before, part, budget) {
                SearchEnd::Explained if to == all.len() => return SearchEnd::Explained,
                SearchEnd::Explained => match end_states(before, part, budget) {
                    Ok(ends) => after.extend(ends),
                    Err(why) => undecided = Some(why),
                },
                SearchEnd::Unexplained => {}
                SearchEnd::Undecided(why) => undecided = Some(why),
            }
        }
        match (after.is_empty(), undecided) {
            (_, Some(why)) => return SearchEnd::Undecided(why),
            (true, None) => return SearchEnd::Unexplained,
            (false, None) => states = after,
        }
        from = to;
    }
    SearchEnd::Explained
}

/// The states that an explained part may leave. Every explanation contains every write that took effect, but the last
/// write to an item may differ. So each candidate is tried, by adding reads that find it after the part.
fn end_states(before: &Object, part: &[Operation], budget: &Budget) -> Result<Vec<Object>, String> {
    let puts = || {
        let done = part.iter().filter(|o| o.answer == Answer::Done);
        done.filter_map(|o| match &o.asked {
            ClientOperation::Put { puts, .. } => Some(puts),
            _ => None,
        })
        .flatten()
    };
    let mut reads: Vec<Vec<(Cell, Item)>> = vec![Vec::new()];
    for cell in [Cell::Details, Cell::Record, Cell::Control] {
        let mut items: Vec<&Item> = Vec::new();
        for put in puts().filter(|p| p.cell == cell) {
            if !items.contains(&&put.item) {
                items.push(&put.item);
            }
        }
        if items.len() > 1 {
            let with = |read: &Vec<(Cell, Item)>| {
                let one = |item: &&Item| [&read[..], &[(cell, (*item).clone())]].concat();
                items.iter().map(one).collect::<Vec<_>>()
            };
            reads = reads.iter().flat_map(with).collect();
        }
    }
    if reads.len() > ENDS {
        return Err(format!("{} ends of a part are possible", reads.len()));
    }
    let last = part.iter().map(|o| o.ended).max();
    let mut found = Vec::new();
    for read in reads {
        let mut longer = part.to_vec();
        for (number, (cell, item)) in (1..).zip(read) {
            let at = last.map_or(0, |l| l.at_us) + number;
            let moment = Moment {
                at_us: at,
                event: u64::MAX,
            };
            longer.push(Operation {
                object: String::new(),
                began: moment,
                ended: moment,
                asked: ClientOperation::Read(cell),
                answer: Answer::Found(Some(item)),
            });
        }
        match explain(before, &longer, budget) {
            Ok(Some(end)) => found.push(end),
            Ok(None) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(found)
}

/// The ends of the parts: the places at which no operation is under way.
fn cuts(all: &[Operation]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut busy_until = None;
    for (at, operation) in all.iter().enumerate() {
        if at > 0 && busy_until.is_some_and(|until| until < operation.began) {
            cuts.push(at);
        }
        if operation.answer == Answer::Unknown {
            // It may take effect at any later time, so no further cut is possible.
            break;
        }
        busy_until = busy_until.max(Some(operation.ended));
    }
    cuts.push(all.len());
    cuts.retain(|at| *at > 0);
    cuts
}

/// Searches for an explanation of one part.
fn search(object: &Object, all: &[Operation], budget: &Budget) -> SearchEnd {
    match explain(object, all, budget) {
        Ok(Some(_)) => SearchEnd::Explained,
        Ok(None) => SearchEnd::Unexplained,
        Err(why) => SearchEnd::Undecided(why),
    }
}

/// The state after the operations if they can be explained; `None` if not.
fn explain(before: &Object, all: &[Operation], budget: &Budget) -> Result<Option<Object>, String> {
    let unanswered = all.iter().filter(|o| o.answer == Answer::Unknown).count();
    if all.len() > LONGEST || unanswered > UNANSWERED {
        let many = all.len();
        return Err(format!("{many} operations, {unanswered} without an answer"));
    }
    let tester = tester(&before.clone().within(budget.clone()), all)?;
    let order = match catch_unwind(AssertUnwindSafe(|| tester.serialized_history())) {
        Ok(order) => order,
        Err(thrown) if thrown.is::<Spent>() => {
            let many = all.len();
            return Err(format!("{many} operations, not decided in {STEPS} steps"));
        }
        Err(thrown) => resume_unwind(thrown),
    };
    Ok(order.map(|order| {
        // A new budget: the replay takes one or two steps for each operation.
        let mut after = before.clone().within(Budget::of(STEPS));
        for (call, answer) in order {
            if *answer == Answer::Unknown || !after.is_valid_step(&call, &answer) {
                after.invoke(&call);
            }
        }
        after
    }))
}

type Tester = LinearizabilityTester<usize, Object>;

/// The tester, filled with a history: each operation on the first thread that is free.
fn tester(object: &Object, all: &[Operation]) -> Result<Tester, String> {
    let mut events = Vec::with_capacity(all.len() * 2);
    for (number, operation) in all.iter().enumerate() {
        if let ClientOperation::Other(what) = &operation.asked {
            return Err(format!("{what} is not judged"));
        }
        events.push((operation.began, false, number));
        if operation.answer != Answer::Unknown {
            events.push((operation.ended, true, number));
        }
    }
    // Of equal times, beginnings sort before ends: the two operations then overlap, which permits more orders.
    events.sort_unstable();
    let mut tester = Tester::new(object.clone());
    let mut free: BTreeSet<usize> = (0..all.len()).collect();
    let mut threads = BTreeMap::new();
    for (_, is_end, number) in events {
        let operation = &all[number];
        if is_end {
            let thread: usize = threads.remove(&number).unwrap_or(OPEN + number);
            tester.on_return(thread, Rc::new(operation.answer.clone()))?;
            free.insert(thread);
        } else {
            let call = Call::of(operation).map_err(|e| e.to_string())?;
            let thread = match operation.answer {
                Answer::Unknown => OPEN + number,
                _ => free.pop_first().unwrap_or(OPEN + number),
            };
            threads.insert(number, thread);
            tester.on_invoke(thread, call)?;
        }
    }
    Ok(tester)
}

/// Describes the operation whose answer is the first that cannot be explained.
fn culprit(all: &[Operation]) -> String {
    let budget = Budget::of(STEPS);
    let mut ends: Vec<&Operation> = all.iter().filter(|o| o.answer != Answer::Unknown).collect();
    ends.sort_by_key(|o| o.ended);
    let is_explained = |until: usize| {
        let last = ends[until].ended;
        let begun = all.iter().filter(|o| o.began <= last);
        let begun: Vec<Operation> = begun
            .map(|o| match o.ended <= last {
                true => o.clone(),
                // The operation is still under way at that time.
                false => Operation {
                    answer: Answer::Unknown,
                    ..o.clone()
                },
            })
            .collect();
        matches!(history(&begun, &budget, &mut 0), SearchEnd::Explained)
    };
    // A binary search, because if a history is explained, each of its beginnings is.
    let (mut low, mut high) = (0, ends.len().saturating_sub(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if is_explained(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let Some(found) = ends.get(low) else {
        return "nothing was answered".into();
    };
    let told = format!("{:?} was answered {:?}", found.asked, found.answer);
    format!(
        "of {} operations, not explained from event {} on: {told}",
        all.len(),
        found.ended.event
    )
}

#[cfg(test)]
mod tests;
