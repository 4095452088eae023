//! Campaigns in the simulated world: operators start, stop and resume them, and Supervisors carry them out.

use std::sync::Arc;

use triad_core::{CampaignId, OperatorAct, Timestamp};
use triad_operator::Rate;
use triad_operator::campaign::commands::{self, CampaignError, CampaignRequest};
use triad_operator::campaign::{CampaignAct, Campaigns, Pace, Phase};
use triad_operator::find::{CausePattern, Filter};
use triad_workflow::Millis;

use crate::kernel::{InstanceId, OUTSIDE, Owner};
use crate::ports::Ports;
use crate::setup::SWEEP_MS;
use crate::world::{State, World};

/// Longest pass of a Supervisor over the campaigns.
const TURN: Millis = Millis(5_000);

/// The part of a Supervisor that carries out campaigns.
pub(crate) type Carrier = Campaigns<Ports, Ports, Ports, Ports>;

/// Starts the loop in which a Supervisor carries out campaigns, if the world has any.
pub(crate) fn carry_on(world: &World, who: InstanceId, carrier: Arc<Carrier>) {
    if !world.state().setup.campaigns {
        return;
    }
    let world = world.clone();
    world.clone().spawn(Owner::Instance(who), async move {
        loop {
            let pause = world.state().kernel.rng.between(SWEEP_MS / 4, SWEEP_MS);
            world.sleep(pause).await;
            let report = carrier.carry_on(TURN).await;
            if report.known > 0 {
                let what = "campaign: met an order that it had acted on";
                world.state().kernel.coverage.reach(what);
            }
            if report.alive > 0 {
                world.state().kernel.note(who, || format!("{report:?}"));
            }
        }
    });
}

/// Simulates an operator who starts, stops and resumes campaigns until the faults stop.
pub(crate) fn work(world: &World, who: InstanceId) {
    if !world.state().setup.campaigns {
        return;
    }
    let world = world.clone();
    world.clone().spawn(Owner::Instance(who), async move {
        let ports = Ports::new(world.clone(), who);
        // The loop ends when the faults stop.
        loop {
            let pause = world.state().kernel.rng.between(1_000, 12_000);
            world.sleep(pause).await;
            let which = {
                let mut state = world.state();
                if state.kernel.calm_since.is_some() || state.kernel.faults_left == 0 {
                    return;
                }
                state.kernel.rng.below(100)
            };
            let came = match which {
                0..60 => start(&world, &ports).await,
                60..75 => change(&world, &ports, false).await,
                _ => change(&world, &ports, true).await,
            };
            if let Some(what) = came {
                world.state().kernel.coverage.reach(what);
            }
        }
    });
}

fn now(world: &World) -> Timestamp {
    Timestamp(world.now())
}

fn act() -> OperatorAct {
    OperatorAct::new("somebody", "many at once")
}

/// A random campaign: most of its acts are allowed for the orders, some are not.
fn wanted(state: &mut State) -> CampaignRequest {
    let rng = &mut state.kernel.rng;
    let (what, of) = match rng.below(8) {
        0..4 => (CampaignAct::Resubmit, "Error"),
        4 => (CampaignAct::Cancel, "Error"),
        5 => (CampaignAct::RetryCompensation, "CompensationFailed"),
        6 => (CampaignAct::Close, "CompensationFailed"),
        _ => (CampaignAct::Resume, "Paused"),
    };
    let of = *rng.pick(&[of, of, of, "Error", "Processing"]);
    let state = Some(of.parse().expect("a state"));
    let filter = match rng.below(4) {
        0 if of == "Error" => Filter {
            cause: Some(CausePattern("*".to_owned())),
            ..Filter::default()
        },
        _ => Filter {
            state,
            ..Filter::default()
        },
    };
    CampaignRequest {
        total: None,
        what,
        filter,
        operator: act(),
        pace: Pace {
            rate: Rate::new(*rng.pick(&[1, 20, 1_000])).expect("a rate"),
            stop_share: *rng.pick(&[1, 20, 50, 100]),
            patience: Millis(*rng.pick(&[1_000, 10_000, 60_000])),
        },
    }
}

async fn start(world: &World, ports: &Ports) -> Option<&'static str> {
    let wanted = wanted(&mut world.state());
    world
        .state()
        .kernel
        .note(OUTSIDE, || format!("wants a campaign: {wanted:?}"));
    match commands::start(ports, ports, wanted, now(world)).await {
        Ok(_) => Some("campaign: started"),
        Err(CampaignError::Same(_)) => Some("campaign: refused, another does the same"),
        Err(_) => None,
    }
}

async fn change(world: &World, ports: &Ports, resumes: bool) -> Option<&'static str> {
    let all = commands::list(ports, usize::MAX).await.ok()?;
    let is_over = |phase: &Phase| matches!(phase, Phase::Ended { .. });
    let ids = all.iter().filter(|c| is_over(&c.campaign.phase) == resumes);
    let ids: Vec<&CampaignId> = ids.map(|c| &c.campaign.id).collect();
    let id = match ids.is_empty() {
        true => return None,
        false => (*world.state().kernel.rng.pick(&ids)).clone(),
    };
    let (at, act) = (now(world), act());
    match resumes {
        true => commands::resume(ports, ports, &id, &act, at)
            .await
            .ok()
            .map(|_| "campaign: resumed"),
        false => commands::stop(ports, ports, &id, &act, at)
            .await
            .ok()
            .map(|_| "campaign: stopped"),
    }
}

/// Stops the running campaigns after the faults have stopped, so that their orders can come to rest.
pub(crate) async fn stop_all(world: &World) {
    if !world.state().setup.campaigns {
        return;
    }
    let ports = Ports::new(world.clone(), OUTSIDE);
    let Ok(all) = commands::list(&ports, usize::MAX).await else {
        return;
    };
    for standing in all {
        if !matches!(standing.campaign.phase, Phase::Ended { .. }) {
            let (id, at) = (standing.campaign.id, now(world));
            let _ = commands::stop(&ports, &ports, &id, &act(), at).await;
        }
    }
}
