//! Removes operations whose answers follow from other operations, because the search grows with their number.

use std::collections::BTreeSet;

use super::condition::Term;
use super::history::{Answer, Cell, ClientOperation, ConditionHeld, Item, Operation};

/// The operations without those whose answers follow from others.
///
/// An item that is put once is present for one period. An operation that found it, as a read or as a refused write,
/// shows that this period overlaps the operation's time. Of all operations that found it, two imply the others: the
/// first to be answered, and the last to be sent.
pub(super) fn telling(all: &[Operation]) -> Vec<Operation> {
    let mut items: Vec<Finders<'_>> = Vec::new();
    for (at, operation) in all.iter().enumerate() {
        let Some(found) = found(operation) else {
            continue;
        };
        match items.iter_mut().find(|known| known.found == found) {
            None => items.push(Finders::new(found, at)),
            Some(known) => {
                known.all.push(at);
                if operation.ended < all[known.first].ended {
                    known.first = at;
                }
                if operation.began > all[known.last].began {
                    known.last = at;
                }
            }
        }
    }
    let is_put_once = |(cell, item): (Cell, &Item)| {
        let puts = all.iter().flat_map(|o| match &o.asked {
            ClientOperation::Put { puts, .. } => puts.as_slice(),
            _ => &[],
        });
        let same = puts.filter(|put| put.cell == cell && put.item == *item);
        same.take(2).count() < 2
    };
    let of_one_period = items.iter().filter(|known| is_put_once(known.found));
    let implied: BTreeSet<usize> = of_one_period
        .flat_map(|known| {
            let others = known.all.iter().copied();
            others.filter(|at| *at != known.first && *at != known.last)
        })
        .collect();
    let kept = all.iter().enumerate();
    let kept = kept.filter(|(at, _)| !implied.contains(at));
    kept.map(|(_, operation)| operation.clone()).collect()
}

/// The operations that found one item.
struct Finders<'a> {
    found: (Cell, &'a Item),
    all: Vec<usize>,
    /// The operation that was answered first.
    first: usize,
    /// The operation that was sent last.
    last: usize,
}

impl<'a> Finders<'a> {
    fn new(found: (Cell, &'a Item), at: usize) -> Self {
        Self {
            found,
            all: vec![at],
            first: at,
            last: at,
        }
    }
}

/// The item that an operation found and did not change: the result of a read, or of a refused single put whose
/// condition is really false for the item. `None` for other operations.
fn found(operation: &Operation) -> Option<(Cell, &Item)> {
    match (&operation.asked, &operation.answer) {
        (ClientOperation::Read(cell), Answer::Found(Some(item))) => Some((*cell, item)),
        (ClientOperation::Put { puts, .. }, Answer::Refused(held)) => {
            match (&puts[..], &held[..]) {
                ([put], [ConditionHeld::No(Some(item))]) => {
                    let term = Term::read(put.condition.as_ref()?).ok()?;
                    (!term.holds(Some(item))).then_some((put.cell, item))
                }
                _ => None,
            }
        }
        _ => None,
    }
}
