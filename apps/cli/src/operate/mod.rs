//! Operators' commands: find orders, act on one or many, hold downstreams, and manage versions of workflows.

pub mod audit;
pub mod bulk;
mod correct;
pub mod downstream;
mod figures;
pub mod list;
pub mod orders;
mod pressure;
pub mod status;
pub mod workflows;

use clap::Args;
use triad_operator::operations::Reason;

use crate::commands::who::operator_name;
use crate::output::Usage;

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
