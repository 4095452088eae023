//! One object of the store as a sequential program: the answer of each operation if the operations were carried out
//! one after the other.
//!
//! A write that took effect must meet two requirements. Its own condition was true, as the store promises. And a
//! process record follows the rules of the pattern: it is created Pending, unlocked and without failures; every write
//! raises its version by one; a claim is taken only if there is none, and may be kept or released; an ended order
//! keeps its end state. The second requirement finds writers that send no condition, or a wrong one.
//!
//! An item past its `ExpiresAt` may vanish at any time, as the service documents.

use std::cell::Cell as Count;
use std::collections::BTreeSet;
use std::rc::Rc;

use stateright::semantics::SequentialSpec;

use super::condition::{Term, Unjudged};
use super::history::{Answer, Cell, ClientOperation, ConditionHeld, Item, Operation, Put, Scalar};

/// The states in which an order has ended.
const ENDS: [&str; 4] = ["Processed", "Error", "Compensated", "CompensationFailed"];

/// An operation with parsed conditions.
#[derive(Debug)]
pub struct Call {
    asked: ClientOperation,
    /// The condition of each put.
    terms: Vec<Option<Term>>,
    /// The latest second at which the operation can have taken effect.
    until_s: u64,
}

impl Call {
    /// Parses the conditions of an operation.
    ///
    /// # Errors
    /// [`Unjudged`] if a condition cannot be parsed.
    pub fn of(operation: &Operation) -> Result<Rc<Self>, Unjudged> {
        let puts = match &operation.asked {
            ClientOperation::Put { puts, .. } => puts.as_slice(),
            ClientOperation::Read(_) | ClientOperation::Seen(_) | ClientOperation::Other(_) => &[],
        };
        let term = |put: &Put| put.condition.as_ref().map(Term::read).transpose();
        Ok(Rc::new(Self {
            asked: operation.asked.clone(),
            terms: puts.iter().map(term).collect::<Result<_, _>>()?,
            until_s: match operation.answer {
                Answer::Unknown => u64::MAX,
                _ => operation.ended.at_us / 1_000_000,
            },
        }))
    }
}

/// The state of an object at one point of the sequence.
#[derive(Debug, Clone)]
pub struct Object {
    cells: [Option<Rc<Item>>; 3],
    /// Every attempt that a write has started.
    in_force: Rc<BTreeSet<String>>,
    /// Tokens of the transactions that have taken effect.
    tokens: Rc<BTreeSet<String>>,
    budget: Budget,
}

/// The steps that are left to the searches that share this budget. When none is left, the next step unwinds with
/// [`Spent`] through the tester, which has no other way to stop.
#[derive(Debug, Clone)]
pub struct Budget(Rc<Count<u64>>);

/// The panic payload that ends a search without steps left.
#[derive(Debug)]
pub struct Spent;

impl Budget {
    /// A budget of this many steps.
    #[must_use]
    pub fn of(steps: u64) -> Self {
        Self(Rc::new(Count::new(steps)))
    }

    fn spend(&self) {
        match self.0.get().checked_sub(1) {
            Some(left) => self.0.set(left),
            None => std::panic::resume_unwind(Box::new(Spent)),
        }
    }
}

impl Object {
    /// An object whose items have never been written.
    #[must_use]
    pub fn absent(budget: Budget) -> Self {
        Self {
            cells: [None, None, None],
            in_force: Rc::default(),
            tokens: Rc::default(),
            budget,
        }
    }

    /// The same object with this budget.
    #[must_use]
    pub fn within(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    fn at(&self, cell: Cell) -> Option<&Item> {
        self.cells[cell as usize].as_deref()
    }

    /// Whether this answer is possible in the current state; applies the operation if it is.
    fn fits(&mut self, call: &Call, answer: &Answer) -> bool {
        match (&call.asked, answer) {
            (ClientOperation::Read(cell), Answer::Found(item)) => self.at(*cell) == item.as_ref(),
            (ClientOperation::Put { puts, token }, Answer::Done) => {
                let is_known = |token: &String| self.tokens.contains(token);
                token.as_ref().is_some_and(is_known) || self.put(call, puts, token.as_deref())
            }
            (ClientOperation::Put { puts, .. }, Answer::Refused(held)) => {
                let fits = |((put, term), held): ((&Put, &Option<Term>), &ConditionHeld)| {
                    let standing = self.at(put.cell);
                    let holds = term.as_ref().is_none_or(|t| t.holds(standing));
                    match held {
                        ConditionHeld::Yes => holds,
                        ConditionHeld::No(told) => {
                            !holds && told.as_ref().is_none_or(|t| Some(t) == standing)
                        }
                    }
                };
                held.len() == puts.len()
                    && held.iter().any(|h| matches!(h, ConditionHeld::No(_)))
                    && puts.iter().zip(&call.terms).zip(held).all(fits)
            }
            (ClientOperation::Seen(all), Answer::Done) => {
                all.iter().all(|s| self.in_force.contains(&s.attempt))
            }
            _ => false,
        }
    }

    /// Applies the puts if every condition is true and every rule permits them.
    fn put(&mut self, call: &Call, puts: &[Put], token: Option<&str>) -> bool {
        let permits = |(put, term): (&Put, &Option<Term>)| {
            let standing = self.at(put.cell);
            let holds = term.as_ref().is_none_or(|t| t.holds(standing));
            holds && (put.cell != Cell::Record || is_permitted(standing, &put.item))
        };
        if !puts.iter().zip(&call.terms).all(permits) {
            return false;
        }
        for put in puts {
            let fresh = put.item.out.iter().filter(|a| !self.in_force.contains(*a));
            let fresh: Vec<String> = fresh.cloned().collect();
            if !fresh.is_empty() {
                Rc::make_mut(&mut self.in_force).extend(fresh);
            }
            self.cells[put.cell as usize] = Some(Rc::new(put.item.clone()));
        }
        if let Some(token) = token {
            Rc::make_mut(&mut self.tokens).insert(token.to_owned());
        }
        true
    }

    /// The object without the items that may have expired by then; `None` if there are no such items.
    fn expired(&self, until_s: u64) -> Option<Self> {
        let is_over = |cell: &Option<Rc<Item>>| {
            let at = cell.as_ref().and_then(|i| i.attributes.get("ExpiresAt"));
            matches!(at, Some(Scalar::Number(at)) if *at <= until_s)
        };
        self.cells.iter().any(is_over).then(|| {
            let mut without = self.clone();
            for cell in &mut without.cells {
                if is_over(cell) {
                    *cell = None;
                }
            }
            without
        })
    }
}

/// Whether the rules of the pattern permit this write of a process record.
fn is_permitted(before: Option<&Item>, after: &Item) -> bool {
    fn get<'a>(item: &'a Item, name: &str) -> Option<&'a Scalar> {
        item.attributes.get(name)
    }
    let version = |item: &Item| match get(item, "Version") {
        Some(Scalar::Number(n)) => Some(*n),
        _ => None,
    };
    let state = |item: &Item| get(item, "ProcessState").cloned();
    let Some(before) = before else {
        return version(after) == Some(1)
            && state(after) == Some(Scalar::Text("Pending".into()))
            && get(after, "LockedBy") == Some(&Scalar::Null)
            && get(after, "CompleteBy") == Some(&Scalar::Null)
            && get(after, "FailureCount") == Some(&Scalar::Number(0));
    };
    let is_next = version(before)
        .zip(version(after))
        .is_some_and(|(b, a)| b.checked_add(1) == Some(a));
    let claims = (get(before, "LockedBy"), get(after, "LockedBy"));
    let is_unclaimed = |claim: Option<&Scalar>| claim == Some(&Scalar::Null);
    let may_lock = is_unclaimed(claims.0) || is_unclaimed(claims.1) || claims.0 == claims.1;
    let has_ended = matches!(state(before), Some(Scalar::Text(s)) if ENDS.contains(&s.as_str()));
    is_next && may_lock && (!has_ended || state(before) == state(after))
}

impl SequentialSpec for Object {
    type Op = Rc<Call>;
    type Ret = Rc<Answer>;

    /// Applies an operation without an answer; it has no effect if its conditions are false.
    fn invoke(&mut self, call: &Self::Op) -> Self::Ret {
        self.budget.spend();
        let is_done = match &call.asked {
            ClientOperation::Put { puts, token } => self.put(call, puts, token.as_deref()),
            ClientOperation::Read(_) | ClientOperation::Seen(_) | ClientOperation::Other(_) => {
                false
            }
        };
        Rc::new(if is_done {
            Answer::Done
        } else {
            Answer::Unknown
        })
    }

    fn is_valid_step(&mut self, call: &Self::Op, answer: &Self::Ret) -> bool {
        self.budget.spend();
        if self.fits(call, answer) {
            return true;
        }
        let Some(mut without) = self.expired(call.until_s) else {
            return false;
        };
        let fits = without.fits(call, answer);
        if fits {
            *self = without;
        }
        fits
    }
}
