//! Acts of operators: requests from programs and forms, carried out by the functions that the command line uses.
//!
//! One request acts on at most [`MAX_AT_ONCE`](crate::settings::MAX_AT_ONCE) orders, for at most 20 s. The answer
//! says how many are left; the same request sent again continues with those.

pub(crate) mod campaigns;
pub(crate) mod downstreams;
pub(crate) mod letters;
pub(crate) mod orders;

use serde_json::{Value, json};
use triad_core::OperatorAct;
use triad_operator::Rate;
use triad_operator::correction::Difference;

use crate::caller::Caller;
use crate::hidden::{Hidden, SHOWN};
use crate::problem::Problem;
use crate::settings::RATE;

/// Who acts and why. The name is the caller's; a caller without a name gives it in `by`.
fn act(caller: &Caller, by: Option<&str>, why: &str) -> Result<OperatorAct, Problem> {
    let by = by.map(str::trim).filter(|by| !by.is_empty());
    let by = match (&caller.name, by) {
        (Some(name), None) => name,
        (Some(name), Some(by)) if name == by => name,
        (Some(_), Some(_)) => {
            let text = "the operator's name comes from the token or the proxy: leave `by` out";
            return Err(Problem::bad("bad-by", text));
        }
        (None, Some(by)) => by,
        (None, None) => {
            let text = "the operator's name is unknown: give it in `by`";
            return Err(Problem::bad("bad-by", text));
        }
    };
    match why.trim() {
        "" => Err(Problem::bad("bad-why", "say why this is done, in `why`")),
        why => Ok(OperatorAct::new(by, why)),
    }
}

/// Default of `dry_run`: true, so that a request that omits it changes nothing.
const fn only_tried() -> bool {
    true
}

fn rate(rate: Option<u32>) -> Result<Rate, Problem> {
    Rate::new(rate.unwrap_or(RATE)).map_err(|e| Problem::bad("bad-rate", e.to_string()))
}

/// One difference between two inputs, without hidden fields.
pub(crate) fn difference(one: &Difference, hidden: &Hidden) -> Value {
    let shown = |value: &Option<Value>| {
        let mut value = value.clone().unwrap_or_default();
        hidden.mask(&mut value);
        match hidden.hides_place(&one.path) && !value.is_null() {
            true => SHOWN.into(),
            false => value,
        }
    };
    json!({"path": one.path, "before": shown(&one.before), "after": shown(&one.after)})
}
