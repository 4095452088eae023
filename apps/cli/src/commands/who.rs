//! The operator's name, which is stored with each act.

use triad_bootstrap::environment;

use crate::output::Usage;

/// The name of the operator: the value of `--by`, else the variable `USER`, else `LOGNAME`; without blanks at either
/// end.
///
/// # Errors
/// [`Usage`] if all of them are empty.
pub fn operator_name(by: Option<&str>) -> Result<String, Usage> {
    let by = by.map(str::to_owned);
    let by = by.or_else(|| environment("USER").or_else(|| environment("LOGNAME")));
    let by = by.map(|name| name.trim().to_owned());
    by.filter(|name| !name.is_empty()).ok_or_else(|| {
        let text = "the operator's name is unknown: give --by NAME (its default is the variable USER or LOGNAME, and neither is set)";
        Usage(text.into())
    })
}
