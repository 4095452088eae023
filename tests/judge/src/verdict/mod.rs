//! Decides on histories, object by object, with stateright's linearizability tester.
//!
//! The tester looks for an order of the operations, each between its beginning and its end, in which every answer is
//! that of [`Object`]. An operation without an answer may come anywhere after its beginning, or nowhere.
//!
//! The search grows with the overlap, so a history is cut where no operation is under way. Each part begins with
//! every state that the part before may have left, because several orders may explain a part and end differently. So
//! explaining the parts one after the other explains the whole, and an unexplained part is a conviction. There is no
//! cut after an operation without an answer. Operations whose answers follow from others are left out. A part beyond
//! a bound is undecided, which is not an acquittal.

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

/// Steps of all searches for one object: half a minute in a build without optimisation.
const STEPS: u64 = 3_000_000;
/// Most end states of one part.
const ENDS: usize = 32;
/// Most operations of one search.
const LONGEST: usize = 1_000;
/// Most operations without an answer in one search.
const UNANSWERED: usize = 8;
/// Lines of a file in memory: objects are judged in several rounds to stay within it, if they are of similar size.
const LINES: usize = 200_000;
/// The tester uses one stack frame for each operation.
const STACK: usize = 64 << 20;
/// Most objects of each kind of finding in the report.
const EXAMPLES: usize = 3;
/// Threads of unanswered operations are numbered from here, so that they are tried last.
const OPEN: usize = 1 << 20;

/// Numbers of a judgement, and its findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Judged {
    /// Objects with at least one operation that was answered.
    pub objects: usize,
    /// Judged operations of the store.
    pub operations: usize,
    /// Of these, writes that took effect.
    pub writes: usize,
    /// Of these, writes that were refused for their condition.
    pub refused: usize,
    /// Operations without an answer, among those judged.
    pub unanswered: usize,
    /// Operations without effect for a reason outside of the object: they prove nothing.
    pub failed: usize,
    /// Requests, replies and effects that were compared with the writes.
    pub seen: usize,
    /// Most operations in one search.
    pub longest: usize,
    /// Objects whose answers no order of operations explains; how many, and examples.
    pub unexplained: FindingGroup,
    /// Objects with a request, reply or effect that no write before it had put in force.
    pub unfounded: FindingGroup,
    /// Objects that are undecided, with the bound or the reason.
    pub undecided: FindingGroup,
}

/// Findings of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FindingGroup {
    /// Number of objects.
    pub objects: usize,
    /// The first of them.
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

/// Judges a file.
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

/// Judges operations in memory.
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
    // An unanswered read proves and changes nothing.
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
    // Without the evidence: distinguishes a fault of the store's history from one of its consequences.
    let seen = |o: &Operation| matches!(o.asked, ClientOperation::Seen(_));
    let stored: Vec<Operation> = all.iter().filter(|o| !seen(o)).cloned().collect();
    match history(&stored, &Budget::of(STEPS), &mut judged.longest) {
        SearchEnd::Explained => judged.unfounded.add(object, || culprit(&all)),
        SearchEnd::Unexplained => judged.unexplained.add(object, || culprit(&stored)),
        SearchEnd::Undecided(why) => judged.undecided.add(object, || why),
    }
}

/// Decides on a whole history, sorted by beginning, part by part.
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

/// The states that an explained part may have left. Every write that took effect is in every explanation, but the
/// last write to a cell may differ: each candidate is tried, with reads behind the part.
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

/// The ends of parts: behind an operation after which nothing is under way.
fn cuts(all: &[Operation]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut busy_until = None;
    for (at, operation) in all.iter().enumerate() {
        if at > 0 && busy_until.is_some_and(|until| until < operation.began) {
            cuts.push(at);
        }
        if operation.answer == Answer::Unknown {
            // It is under way for ever.
            break;
        }
        busy_until = busy_until.max(Some(operation.ended));
    }
    cuts.push(all.len());
    cuts.retain(|at| *at > 0);
    cuts
}

/// One search.
fn search(object: &Object, all: &[Operation], budget: &Budget) -> SearchEnd {
    match explain(object, all, budget) {
        Ok(Some(_)) => SearchEnd::Explained,
        Ok(None) => SearchEnd::Unexplained,
        Err(why) => SearchEnd::Undecided(why),
    }
}

/// The state that an explanation leaves; `None` if there is no explanation.
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
        // One or two steps for each operation.
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

/// The tester with a history in it: each operation on the first free thread.
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
    // At one moment beginnings come first: then the two overlap, which permits more.
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

/// The operation with whose answer a history stops being explainable.
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
                // It is still under way.
                false => Operation {
                    answer: Answer::Unknown,
                    ..o.clone()
                },
            })
            .collect();
        matches!(history(&begun, &budget, &mut 0), SearchEnd::Explained)
    };
    // An explanation of a history explains its beginnings, too.
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
