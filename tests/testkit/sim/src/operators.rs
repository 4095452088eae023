//! Operators in the simulated world: any act at any time on any order or downstream. Also the operator that repairs
//! what is left when the faults have stopped.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::amend::NotAmended;
use triad_core::downstream::{DownstreamAction, ForcedTo};
use triad_core::{
    Action, Attempt, Direction, IdempotencyKey, Operation, OperationRefusal, OperatorAct, Order,
    OrderId, Timestamp,
};
use triad_operator::find::{self, Filter};
use triad_operator::pages;
use triad_runtime::operator::{DownstreamOperated, Migrated, Operated, Operator};
use triad_workflow::{AgentName, StepId, StepIndex, Workflow};

use crate::campaigns;
use crate::checks::children::needs_an_operator;
use crate::checks::doubts;
use crate::definitions::{self, AGENTS};
use crate::kernel::{InstanceId, OUTSIDE, Owner, Rng};
use crate::ports::Ports;
use crate::setup::{ASKS_LATE_AFTER_MS, ROUND_MS};
use crate::world::{State, World};

/// The acts of an operator, over the simulated ports.
pub(crate) type Desk = Operator<Ports, Ports, Ports, Ports>;

fn act() -> OperatorAct {
    OperatorAct::new("somebody", "a reason")
}

/// Simulates an operator who acts at random until the faults stop.
pub(crate) fn work(world: &World, who: InstanceId, desk: Arc<Desk>) {
    if world.state().setup.operators == 0 {
        return;
    }
    let world = world.clone();
    world.clone().spawn(Owner::Instance(who), async move {
        loop {
            let pause = world.state().kernel.rng.between(200, 3_000);
            world.sleep(pause).await;
            let (over, acts, which) = {
                let mut state = world.state();
                let over = state.kernel.calm_since.is_some() || state.kernel.faults_left == 0;
                let permille = state.setup.operators;
                (
                    over,
                    state.kernel.rng.chance(permille),
                    state.kernel.rng.below(100),
                )
            };
            if over {
                return;
            }
            match which {
                _ if !acts => {}
                0..12 => act_on_downstream(&world, who, &desk).await,
                12..25 => move_order(&world, who, &desk).await,
                _ => act_on_order(&world, who, &desk).await,
            }
        }
    });
}

/// A random order; sometimes one that does not exist.
fn some_order(state: &mut State) -> Option<(OrderId, Option<Order>)> {
    if state.kernel.rng.chance(30) {
        return Some((OrderId::new("nobody").ok()?, None));
    }
    let all: Vec<OrderId> = state.store.orders().map(|o| o.id.clone()).collect();
    if all.is_empty() {
        return None;
    }
    let id = state.kernel.rng.pick(&all).clone();
    let order = state.store.order(&id).map(|o| (**o).clone());
    Some((id, order))
}

async fn act_on_order(world: &World, who: InstanceId, desk: &Desk) {
    let (id, operation, dry_run) = {
        let mut state = world.state();
        let Some((id, order)) = some_order(&mut state) else {
            return;
        };
        let action = match &order {
            Some(order) => some_action(&mut state, order),
            None => Some(Action::Cancel),
        };
        let Some(action) = action else { return };
        let dry_run = state.kernel.rng.chance(50);
        state.kernel.note(who, || format!("wants {id}: {action:?}"));
        (id, Operation { action, act: act() }, dry_run)
    };
    let done = desk.operate(&id, &operation, dry_run).await;
    let mut state = world.state();
    state.kernel.note(who, || match &done {
        Ok(Operated::Done(_)) => "it is done".into(),
        other => format!("{other:?}"),
    });
    match done {
        Ok(Operated::Done(_)) if dry_run => state.kernel.coverage.reach("operator: dry run"),
        // Such acts are counted by their lines in the timeline.
        Ok(Operated::Done(_) | Operated::Unsent(_)) => {}
        Ok(Operated::Refused(refusal)) => reach_refusal(&mut state, &refusal),
        Ok(Operated::NotFound) => state.kernel.coverage.reach("refusal: no such order"),
        Err(_) => state.kernel.coverage.reach("operator: an act failed"),
    }
}

fn reach_refusal(state: &mut State, refusal: &OperationRefusal) {
    state.kernel.coverage.reach(match refusal {
        OperationRefusal::State { .. } => "refusal: state",
        OperationRefusal::PastPivot(_) => "refusal: past the pivot",
        OperationRefusal::InDoubt(_) => "refusal: in doubt",
        OperationRefusal::Step { .. } => "refusal: step",
        OperationRefusal::Already(_) => "refusal: already",
        OperationRefusal::AmendedAlready => "refusal: amended already",
        OperationRefusal::NotAmended(why) => match why {
            NotAmended::Read(_) => "refusal: read by a step",
            NotAmended::Searched(_) => "refusal: read by a search key",
            NotAmended::Misfits(_) => "refusal: amended details do not fit",
            _ => "refusal: no amendment",
        },
        // A refusal only of acts that belong to a campaign.
        OperationRefusal::ActedOn(_) => "refusal: acted on",
    });
}

/// An act that makes sense for an order in its state; sometimes any act.
fn some_action(state: &mut State, order: &Order) -> Option<Action> {
    let plain = Action::Resubmit { input: None };
    let anything = state.kernel.rng.chance(150);
    let name = if anything { "" } else { order.state.name() };
    let choices: Vec<Action> = match name {
        "Pending" | "Processing" => vec![Action::Pause, Action::Cancel, Action::Resume],
        "Compensating" => vec![Action::Pause, Action::Resume],
        "Error" => vec![plain.clone(), plain, Action::Cancel, Action::Close],
        "CompensationFailed" => vec![
            Action::RetryCompensation,
            Action::RetryCompensation,
            Action::Close,
        ],
        "Compensated" => vec![plain],
        _ => vec![
            plain,
            Action::Cancel,
            Action::RetryCompensation,
            Action::Close,
            Action::Pause,
            Action::Resume,
        ],
    };
    // A paused order is most often resumed.
    if order.paused.is_some() && !anything {
        return Some(Action::Resume);
    }
    let may_be_amended = matches!(name, "" | "Pending" | "Processing" | "Error");
    if may_be_amended && state.kernel.rng.chance(250) {
        return Some(some_amendment(&mut state.kernel.rng));
    }
    let stopped = matches!(name, "Error" | "CompensationFailed");
    if stopped && state.kernel.rng.chance(400) {
        return some_resolution(state, order);
    }
    let mut action = state.kernel.rng.pick(&choices).clone();
    if let Action::Resubmit { input } = &mut action
        && state.kernel.rng.chance(400)
    {
        *input = some_correction(state, order);
    }
    Some(action)
}

/// A random amendment of one or two fields; sometimes none that is possible. No event has the amended sum.
fn some_amendment(rng: &mut Rng) -> Action {
    let mut patch = json!({});
    for _ in 0..rng.below(3) {
        match rng.below(7) {
            0 => patch["item"] = json!(rng.below(1_000)),
            1 => patch["gift"] = json!(rng.chance(500)),
            2 => patch["sum"] = json!(rng.between(100, 102)),
            3 => patch["note"] = json!("n".repeat(rng.below(120) as usize)),
            4 => patch["note"] = Value::Null,
            _ => patch["extra"] = json!(rng.below(3)),
        }
    }
    Action::Amend { patch }
}

/// A random other input for some step, mostly valid.
fn some_correction(state: &mut State, order: &Order) -> Option<(StepId, Value)> {
    let workflow = definitions::compiled(&order.workflow)?;
    let written = state.kernel.rng.pick(&workflow.definition.steps).clone();
    let mut input = json!({});
    for name in written
        .input
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, _)| k)
    {
        let text = matches!(name.as_str(), "for" | "p" | "q");
        input[name] = if text { json!("x") } else { json!(9) };
    }
    if state.kernel.rng.chance(200) {
        input["surplus"] = json!(true);
    }
    Some((StepId::new(written.id).ok()?, input))
}

/// Resolves some effect in doubt, with the true answer.
fn some_resolution(state: &mut State, order: &Order) -> Option<Action> {
    let index = usize::try_from(state.kernel.rng.below(order.steps.len() as u64)).unwrap_or(0);
    resolution(state, order, index)
}

/// The true answer about a step whose service has a probe, if no call for it is under way. Whether a call can still
/// be made follows from the order's record, if the clocks are right.
fn resolution(state: &State, order: &Order, index: StepIndex) -> Option<Action> {
    let workflow = definitions::compiled(&order.workflow)?;
    let step = &workflow.steps[index];
    let record = &order.steps[index];
    let asks_after = if state.setup.wild_clocks {
        ASKS_LATE_AFTER_MS
    } else {
        0
    };
    let stopped = order.state.finished_at()?.0;
    let key = IdempotencyKey::of(&order.id, &step.id, Direction::Forward, record.key).0;
    let under_way = state.remote.under_way.get(&key).is_some_and(|n| *n > 0);
    if state.kernel.now < stopped + asks_after || under_way {
        return None;
    }
    let in_place = state.remote.in_place(step.call()?.agent.as_str(), &key) > 0;
    let applied = in_place.then(|| {
        let told = state.remote.truth(&key);
        told.unwrap_or_else(|| json!({"reference": "as the operator was told"}))
    });
    Some(Action::Resolve {
        step: step.id.clone(),
        applied,
        attempt: Some(Attempt(record.actions())),
    })
}

async fn act_on_downstream(world: &World, who: InstanceId, desk: &Desk) {
    let (agent, action) = {
        let mut state = world.state();
        let service = *state.kernel.rng.pick(&AGENTS);
        let versions: Vec<&Arc<Workflow>> = definitions::workflows().iter().collect();
        let workflow = *state.kernel.rng.pick(&versions);
        let step = &state.kernel.rng.pick(&workflow.steps).id;
        let (name, step) = (workflow.name.clone(), step.clone());
        let action = match state.kernel.rng.below(8) {
            0 | 1 => DownstreamAction::Force(ForcedTo::Open),
            2 => DownstreamAction::Force(ForcedTo::Closed),
            3 | 4 => DownstreamAction::Release,
            5 | 6 => DownstreamAction::PauseStep(name, step),
            // Resumes a paused step, if there is one.
            _ => match state
                .control
                .downstream(service)
                .and_then(|d| d.paused.first().cloned())
            {
                Some(held) => DownstreamAction::ResumeStep(held.workflow, held.step),
                None => DownstreamAction::ResumeStep(name, step),
            },
        };
        state
            .kernel
            .note(who, || format!("wants {service}: {action:?}"));
        (AgentName::new(service).expect("a good name"), action)
    };
    let done = desk.operate_downstream(&agent, &action, &act()).await;
    let mut state = world.state();
    match done {
        Ok(DownstreamOperated::Done(_)) => state.kernel.coverage.reach(match action {
            DownstreamAction::Force(ForcedTo::Open) => "operator: force open",
            DownstreamAction::Force(ForcedTo::Closed) => "operator: force closed",
            DownstreamAction::Release => "operator: release",
            DownstreamAction::PauseStep(..) => "operator: pause a step type",
            DownstreamAction::ResumeStep(..) => "operator: resume a step type",
        }),
        Ok(DownstreamOperated::Refused(refusal)) => reach_refusal(&mut state, &refusal),
        Err(_) => state.kernel.coverage.reach("operator: an act failed"),
    }
}

async fn move_order(world: &World, who: InstanceId, desk: &Desk) {
    let (id, to) = {
        let mut state = world.state();
        let Some((id, order)) = some_order(&mut state) else {
            return;
        };
        let all: Vec<_> = definitions::versions()
            .map(|w| definitions::identity(w))
            .collect();
        let fitting: Vec<_> = all
            .iter()
            .filter(|v| order.as_ref().is_some_and(|o| o.workflow.name == v.name))
            .cloned()
            .collect();
        let choices = if state.kernel.rng.chance(100) || fitting.is_empty() {
            all
        } else {
            fitting
        };
        let to = state.kernel.rng.pick(&choices).clone();
        if state.store.definition(&to).is_none() {
            return;
        }
        state
            .kernel
            .note(who, || format!("wants {id} moved to {to}"));
        (id, to)
    };
    let done = desk.migrate(&id, &to, &act(), false).await;
    let mut state = world.state();
    state.kernel.coverage.reach(match done {
        Ok(Migrated::Done(..) | Migrated::Unsent(..)) => "operator: migrate",
        Ok(Migrated::Refused(_)) => "refusal: migration",
        Ok(Migrated::NotFound) => "refusal: no such order",
        Err(_) => "operator: an act failed",
    });
}

/// After the faults have stopped: releases held and paused downstreams, resumes orders, and resolves effects in
/// doubt. All other work must end without an operator.
pub(crate) async fn put_in_order(world: &World) {
    let ports = Ports::new(world.clone(), OUTSIDE);
    let settings = world.state().setup.settings(0);
    let all = || ports.clone();
    let desk = Desk::new(all(), all(), all(), all(), settings);
    campaigns::stop_all(world).await;
    list_set_aside(world, &ports).await;
    // The loop ends with the world.
    loop {
        for service in AGENTS {
            release(world, &desk, service).await;
        }
        let open: Vec<Order> = {
            let state = world.state();
            let orders = state.store.orders();
            let needs = |o: &&Arc<Order>| {
                o.paused.is_some() || !doubts(o).is_empty() || needs_an_operator(o)
            };
            orders.filter(needs).map(|o| (**o).clone()).collect()
        };
        for order in open {
            let action = if order.paused.is_some() && !order.state.is_finished() {
                Some(Action::Resume)
            } else if let Some(first) = doubts(&order).first() {
                resolution(&world.state(), &order, *first)
            } else {
                // Its parent waits for it.
                Some(Action::Close)
            };
            if let Some(action) = action {
                world.state().kernel.note(OUTSIDE, || {
                    format!("puts {} in order: {action:?}", order.id)
                });
                let operation = Operation { action, act: act() };
                let _ = desk.operate(&order.id, &operation, false).await;
            }
        }
        world.sleep(ROUND_MS).await;
    }
}

/// Every list of orders under way must contain the set-aside orders, because bulk acts and campaigns act only on
/// listed orders.
async fn list_set_aside(world: &World, ports: &Ports) {
    let now = Timestamp(world.now());
    let known = world.state().store.set_aside(now.0);
    if known.is_empty() {
        return;
    }
    let filter = Filter {
        state: Some("Pending".parse().expect("a state")),
        ..Filter::default()
    };
    let Ok(found) = find::orders(ports, &filter, usize::MAX, now).await else {
        return;
    };
    let mut paged = BTreeSet::new();
    let mut from = None;
    loop {
        let Ok(page) = pages::page(ports, &filter, 10, from.as_ref(), now).await else {
            return;
        };
        paged.extend(page.orders.into_iter().map(|order| order.id));
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    let listed: BTreeSet<OrderId> = found.orders.into_iter().map(|order| order.id).collect();
    let mut state = world.state();
    let still = state.store.set_aside(u64::MAX);
    let stood = known
        .iter()
        .filter(|(id, version)| still.get(id) == Some(version));
    let missing: Vec<&OrderId> = stood
        .map(|(id, _)| id)
        .filter(|id| !listed.contains(id) || !paged.contains(id))
        .collect();
    let name = "an-order-that-is-set-aside-is-in-every-list";
    let seen = || format!("not in the lists: {missing:?}");
    state.kernel.check(name, missing.is_empty(), seen);
}

async fn release(world: &World, desk: &Desk, service: &str) {
    let Some(record) = world.state().control.downstream(service) else {
        return;
    };
    let agent = AgentName::new(service).expect("a good name");
    if record.forced.is_some() {
        let _ = desk
            .operate_downstream(&agent, &DownstreamAction::Release, &act())
            .await;
    }
    for held in record.paused {
        let action = DownstreamAction::ResumeStep(held.workflow, held.step);
        let _ = desk.operate_downstream(&agent, &action, &act()).await;
    }
}
