//! Operators' commands: find orders, act on one or many, hold downstreams, and manage versions of workflows.

pub mod audit;
pub mod bulk;
mod correct;
pub mod downstream;
mod figures;
pub mod list;
pub mod migrate;
pub mod orders;
mod pressure;
pub mod select;
pub mod status;
pub mod workflows;

use clap::Args;
use triad_bootstrap::Sending;
use triad_core::OperatorAct;
use triad_kafka::KafkaBus;
use triad_runtime::operator::Operator;
use triad_runtime::settings::Settings;
use triad_runtime::system::{SystemClock, SystemEntropy};

pub use crate::commands::connection::Store;
use crate::commands::connection::{KafkaArgs, StoreArgs, connect_store_and_bus};
use crate::commands::who::operator_name;
use crate::output::Usage;
use crate::traces;

/// The acts of an operator as commands use them: over either store and Kafka, with the real clock and real random
/// numbers.
pub type CliOperator = Operator<Store, KafkaBus, SystemClock, SystemEntropy>;

/// Options for the operator's name and reason; both are written into the timeline.
#[derive(Debug, Clone, Args)]
pub struct ActArgs {
    /// The reason, which is written into the timeline
    #[arg(long, value_name = "TEXT")]
    pub why: String,
    /// Name of the operator. Default: the variable USER, else LOGNAME
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

impl ActArgs {
    /// The operator's name and reason, without blanks at either end.
    ///
    /// # Errors
    /// [`Usage`] if the name is missing, or the name or the reason is empty.
    pub fn act(&self) -> Result<OperatorAct, Usage> {
        let by = operator_name(self.by.as_deref())?;
        if self.why.trim().is_empty() {
            return Err(Usage(
                "--why must not be empty: say why this is done".into(),
            ));
        }
        Ok(OperatorAct::new(&by, self.why.trim()))
    }
}

/// Opens the store, and creates the operator over the tables and the brokers that the options name, with the time
/// spans of the installation.
///
/// # Errors
/// [`Usage`] or [`triad_bootstrap::ConfigError`] if options cannot be used; [`triad_kafka::KafkaError`] if no broker
/// accepts the login.
pub async fn operator(
    store: &StoreArgs,
    kafka: &KafkaArgs,
) -> anyhow::Result<(Store, CliOperator)> {
    let timing = store.spans()?.timing;
    let (store, bus) = connect_store_and_bus(store, kafka).await?;
    let settings = Settings {
        timing,
        traces: traces::of_environment(&store, Sending::Flushed)?,
        ..Settings::default()
    };
    let operator = Operator::new(store.clone(), bus, SystemClock, SystemEntropy, settings);
    Ok((store, operator))
}
