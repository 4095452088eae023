//! Selection of orders: ids, or a filter.

use clap::Args;
use triad_core::OrderId;
use triad_operator::find::{CausePattern, Filter, StateFilter};
use triad_workflow::{Millis, SearchKey};

use crate::output::Usage;

/// Filter of orders. All given options must fit.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which orders")]
pub struct FilterArgs {
    /// Orders with this search key of their workflow: its name, = and the whole value, such as
    /// customer=ALFKI
    #[arg(long, value_name = "NAME=VALUE")]
    pub search: Option<SearchKey>,
    /// Orders in this process state, Paused ones, or UnderWay: all that are not finished
    #[arg(long, value_name = "STATE")]
    pub state: Option<StateFilter>,
    /// Orders whose cause has this fingerprint, as `triad list --by-cause` prints it; a * at its end matches anything
    #[arg(long, value_name = "FINGERPRINT")]
    pub cause: Option<String>,
    /// Orders of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// Orders whose age is at least this: since they finished or were paused; of others, since they
    /// were submitted
    #[arg(long, value_name = "TIME", value_parser = str::parse::<Millis>)]
    pub older_than: Option<Millis>,
}

impl FilterArgs {
    /// The filter of these options; with no option it fits every order.
    pub fn filter(&self) -> Filter {
        Filter {
            state: self.state,
            cause: self.cause.clone().map(CausePattern),
            workflow: self.workflow.clone(),
            older_than: self.older_than,
            search: self.search.clone(),
            ..Filter::default()
        }
    }
}

/// Reads the ids of orders from the command line.
///
/// # Errors
/// [`Usage`] naming the first text that is no order id.
pub fn ids(texts: &[String]) -> Result<Vec<OrderId>, Usage> {
    texts
        .iter()
        .map(|t| {
            OrderId::new(t.clone()).map_err(|e| Usage(format!("{t:?} is not an order id: {e}")))
        })
        .collect()
}
