//! Faults that the reference service of `triad dev` injects.

use std::collections::BTreeMap;

use clap::Args;
use triad_reference_service::{FaultPlan, Faults};
use triad_workflow::{Millis, Workflow};

use crate::output::Usage;

/// Options for the faults of the reference service.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Misbehaviour of the reference service")]
pub struct FaultArgs {
    /// Percentage of calls that fail transiently; half of them after taking effect
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub transient: f64,
    /// Percentage of steps that the service refuses permanently
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub permanent: f64,
    /// Percentage of compensations that the service refuses permanently
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub compensation_permanent: f64,
    /// Percentage of calls that stall past the step's deadline
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub stall: f64,
    /// Delay of a stalled call's answer
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = str::parse::<Millis>)]
    pub stall_for: Millis,
    /// Latency of every call
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = str::parse::<Millis>)]
    pub latency: Millis,
    /// Seed of the faults: the same calls with the same seed meet the same faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub fault_seed: u64,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.0..=100.0).contains(&p) => Ok(p),
        _ => Err("is not a number from 0 to 100".to_owned()),
    }
}

impl FaultArgs {
    /// Checks that every step has more time than a fault-free call takes.
    ///
    /// # Errors
    /// [`Usage`] naming every step that has too little time.
    pub fn fit(&self, workflows: &[Workflow]) -> Result<(), Usage> {
        let steps = workflows
            .iter()
            .flat_map(|w| w.steps.iter().filter_map(move |s| Some((w, s, s.call()?))));
        let late = steps
            .filter(|(.., call)| self.latency >= call.attempt_timeout)
            .map(|(workflow, step, call)| {
                format!(
                    "step {} of {} gives a call {}, and with --latency {} none is answered in that time",
                    step.id, workflow.name, call.attempt_timeout, self.latency
                )
            });
        let problems: Vec<String> = late.collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Usage(problems.join("\n"))),
        }
    }

    /// The settings of the reference service.
    pub fn faults(&self) -> Faults {
        Faults {
            seed: self.fault_seed,
            default: FaultPlan {
                transient: self.transient / 100.0,
                permanent: self.permanent / 100.0,
                compensation_permanent: self.compensation_permanent / 100.0,
                stall: self.stall / 100.0,
                stall_ms: self.stall_for.0,
                latency_ms: self.latency.0,
                ..FaultPlan::default()
            },
            services: BTreeMap::new(),
        }
    }
}
