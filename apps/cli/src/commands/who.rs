//! The operator's name and reason, which are stored with each act.

use clap::Args;
use triad_bootstrap::environment;
use triad_operator::operations::Reason;

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

/// Options for the operator's name and reason; both are written into the timeline.
#[derive(Debug, Clone, Args)]
pub struct ActArgs {
    /// The reason, which is written into the timeline
    #[arg(long, value_name = "TEXT")]
    pub why: String,
    /// Name of the operator. Default: the variable USER, else LOGNAME. A token of --url has a name of its own
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

impl ActArgs {
    /// The operator's name and reason. Where a token says the name (`is_far`), it is left out.
    ///
    /// # Errors
    /// [`Usage`] if the name is missing, or the name or the reason is empty.
    pub fn reason(&self, is_far: bool) -> Result<Reason, Usage> {
        let by = match is_far {
            true => self.by.clone(),
            false => Some(operator_name(self.by.as_deref())?),
        };
        if self.why.trim().is_empty() {
            return Err(Usage(
                "--why must not be empty: say why this is done".into(),
            ));
        }
        Ok(Reason {
            why: self.why.trim().to_owned(),
            by,
        })
    }
}
