//! Where a command's requests are executed: here, over the store and the broker, or far away, at a console over HTTP.

mod absent;

use std::sync::Arc;

use anyhow::Result;
use triad_bootstrap::{KafkaTopics, Sending};
use triad_kafka::{KafkaBus, KafkaConfig};
use triad_operator::operations::{
    Asked, Caller, DeadLetterFilter, Local, Operations, OrderFilter, Parts, Problem, Role,
    Settings, ask,
};
use triad_runtime::operator::Operator;
use triad_runtime::system::{SystemClock, SystemEntropy};

use crate::connection::{KafkaArgs, StoreArgs};
use crate::output::Usage;
use crate::store::Store;
use crate::traces;

use absent::Maybe;

/// The operations of an installation, and who asks for them.
#[derive(Debug)]
pub struct Place {
    operations: Arc<dyn Operations>,
    caller: Caller,
}

impl Place {
    /// Executes a request.
    ///
    /// # Errors
    /// [`Usage`] if the request is wrong, or names a downstream, a step type or a version that there is not; otherwise
    /// the problem.
    pub async fn ask<Q: Asked>(&self, request: Q) -> Result<Q::Answer> {
        let answered = ask(&*self.operations, &self.caller, request).await;
        answered.map_err(explained)
    }

    /// As [`ask`](Self::ask); `None` if what it names does not exist.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn find<Q: Asked>(&self, request: Q) -> Result<Option<Q::Answer>> {
        match ask(&*self.operations, &self.caller, request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(problem) if problem.status == 404 => Ok(None),
            Err(problem) => Err(explained(problem)),
        }
    }

    /// A command's requests at these operations.
    pub fn of(operations: Arc<dyn Operations>) -> Self {
        // The acts of a command name their operator.
        let caller = Caller {
            name: None,
            role: Role::Operate,
        };
        Self { operations, caller }
    }
}

/// A problem as the error of a command: wrong options are a [`Usage`].
pub fn explained(problem: Problem) -> anyhow::Error {
    let is_of_options = problem.status == 400
        || ["no-such-downstream", "no-such-version"].contains(&&*problem.code);
    match is_of_options {
        true => Usage(of_options(&problem)).into(),
        false => problem.into(),
    }
}

/// The text about a wrong option, with the option's name and the next step.
fn of_options(problem: &Problem) -> String {
    let text = &problem.detail;
    match &*problem.code {
        "bad-filter" | "bad-act" => {
            let of_field = text.split_once(' ').filter(|(name, _)| {
                let name = name.trim_end_matches(':');
                let known = [
                    &OrderFilter::NAMES[..],
                    &DeadLetterFilter::NAMES,
                    &["step_type", "step"],
                ];
                known.iter().any(|names| names.contains(&name))
            });
            match of_field {
                Some((name, rest)) => format!("--{} {rest}", name.replace('_', "-")),
                None => text.to_string(),
            }
        }
        "no-such-version" if !text.contains("several") => format!("{text}: see triad workflows"),
        _ => text.to_string(),
    }
}

impl StoreArgs {
    /// Where the requests of a command that sends no message are executed.
    ///
    /// # Errors
    /// Those of [`StoreArgs::store`]; for a console far away, [`Usage`] if its address is wrong.
    pub async fn place(&self) -> Result<Place> {
        Ok(Place::of(match self.data.far()? {
            Some(far) => Arc::new(far),
            None => near(
                self,
                self.store().await?,
                None,
                Settings::default(),
                Sending::Flushed,
            )?,
        }))
    }

    /// Where the requests of a command that acts, or reads topics, are executed.
    ///
    /// # Errors
    /// Those of [`operations`](Self::operations).
    pub async fn place_with(&self, kafka: &KafkaArgs) -> Result<Place> {
        let operations = self.operations(kafka, Settings::default(), Sending::Flushed);
        Ok(Place::of(operations.await?))
    }

    /// The operations of the installation, over the store and the broker or far away. `rules` hold for those over the
    /// store alone: a console far away has its own.
    ///
    /// # Errors
    /// Those of [`place`](Self::place), and those of [`KafkaArgs::bus`].
    pub async fn operations(
        &self,
        kafka: &KafkaArgs,
        rules: Settings,
        sending: Sending,
    ) -> Result<Arc<dyn Operations>> {
        if let Some(far) = self.data.far()? {
            return Ok(Arc::new(far));
        }
        let (store, config) = tokio::join!(self.store(), kafka.reached());
        let (store, config) = (store?, config?);
        let kafka = (KafkaBus::new(&config)?, config);
        near(self, store, Some(kafka), rules, sending)
    }
}

fn near(
    args: &StoreArgs,
    store: Store,
    kafka: Option<(KafkaBus, KafkaConfig)>,
    rules: Settings,
    sending: Sending,
) -> Result<Arc<dyn Operations>> {
    let (bus, topics) = match kafka {
        Some((bus, config)) => (Maybe(Some(bus)), Maybe(Some(KafkaTopics::of(config)))),
        None => (Maybe(None), Maybe(None)),
    };
    let settings = triad_runtime::settings::Settings {
        timing: args.spans()?.timing,
        traces: traces::of_environment(&store, sending)?,
        ..triad_runtime::settings::Settings::default()
    };
    let (clock, entropy) = (SystemClock, SystemEntropy);
    let operator = Operator::new(store.clone(), bus.clone(), clock, entropy, settings);
    let parts = Parts {
        store,
        bus,
        clock,
        entropy,
        operator,
        topics,
    };
    Ok(Arc::new(Local::new(parts, rules)))
}
