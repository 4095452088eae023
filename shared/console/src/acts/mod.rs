//! What operators do: requests as programs and forms make them, carried out by the functions that the
//! command line uses.
//!
//! One request acts on [`MAX_AT_ONCE`](crate::settings::MAX_AT_ONCE) orders at most, for 20 s at most; what
//! is left is told, and the same request made again goes on with it.

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

/// Who acts, and why: the caller's own name, or what an unnamed one says.
fn act(caller: &Caller, by: Option<&str>, why: &str) -> Result<OperatorAct, Problem> {
    let by = by.map(str::trim).filter(|by| !by.is_empty());
    let by = match (&caller.name, by) {
        (Some(name), None) => name,
        (Some(name), Some(by)) if name == by => name,
        (Some(_), Some(_)) => {
            let text = "who acts is known from the token or the proxy: leave `by` out";
            return Err(Problem::bad("bad-by", text));
        }
        (None, Some(by)) => by,
        (None, None) => {
            let text = "who does this is not known: say so in `by`";
            return Err(Problem::bad("bad-by", text));
        }
    };
    match why.trim() {
        "" => Err(Problem::bad("bad-why", "say why this is done, in `why`")),
        why => Ok(OperatorAct::new(by, why)),
    }
}

/// What `dry_run` is in a request that does not say it: nobody acts by leaving a word out.
const fn only_tried() -> bool {
    true
}

fn rate(rate: Option<u32>) -> Result<Rate, Problem> {
    Rate::new(rate.unwrap_or(RATE)).map_err(|e| Problem::bad("bad-rate", e.to_string()))
}

/// One place at which inputs differ, without what is hidden.
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
