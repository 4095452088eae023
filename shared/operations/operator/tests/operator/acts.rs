//! Bulk acts: orders are acted on one by one, at a limited rate, until the act is stopped.

use std::convert::Infallible;

use serde_json::json;
use triad_core::{Action, Envelope, Operation, OperatorAct, Order, OrderId};
use triad_operator::acts::{Corrected, operate, resubmit_corrected};
use triad_operator::bulk::{ActResult, Bulk, Tally, act_on_each};
use triad_operator::correction::Correction;
use triad_operator::outcome::ActOutcome;
use triad_operator::{Rate, downstreams, find};
use triad_runtime::operator::{OperateError, Operator};
use triad_runtime::settings::Settings;
use triad_runtime::{Bus, BusError, Clock};
use triad_sim::Ports;
use triad_workflow::{Limits, Millis, StepId, Workflow};

use super::letters::Topic;
use super::support::{error, hold, id, order, publish, run, workflow};

fn bulk(dry_run: bool) -> Bulk {
    Bulk {
        rate: Rate::new(10).expect("a rate"),
        dry_run,
    }
}

fn close() -> Operation {
    Operation {
        action: Action::Close,
        act: OperatorAct::new("ann", "by hand"),
    }
}

async fn is_closed(store: &Ports, id: &OrderId) -> bool {
    let found: Option<Order> = find::by_id(store, id.clone()).await.expect("it works");
    found.expect("it is there").closed.is_some()
}

#[test]
fn a_dry_run_says_what_would_be_and_writes_nothing() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let open = order(&ports, &workflow, "open", |o| o.state = error(5, "no")).await;
        let shut = order(&ports, &workflow, "shut", |o| {
            o.state = error(5, "no");
            o.closed = Some(hold(6));
        })
        .await;
        let all = || ports.clone();
        let bus = Topic::default();
        let desk = Operator::new(all(), bus, all(), all(), Settings::default());
        for dry_run in [true, false] {
            let mut lines = Vec::new();
            let orders = vec![open.clone(), shut.clone(), id("nobody")];
            let report = |line: &ActResult| {
                lines.push(serde_json::to_value(line).expect("JSON"));
                Ok::<(), Infallible>(())
            };
            let never = std::future::pending();
            let close = close();
            let tally = operate(&desk, &ports, orders, &close, bulk(dry_run), never, report);
            let Ok(tally) = tally.await;
            let wanted = Tally {
                done: 1,
                refused: 2,
                ..Tally::default()
            };
            assert_eq!(tally, wanted);
            let text = |n: usize| lines[n]["text"].as_str().expect("text").to_owned();
            assert_eq!(text(0), "Error, closed");
            assert_eq!(text(1), "it is closed already");
            assert_eq!(text(2), "there is no such order");
            assert_eq!(lines[0]["result"], "done");
            assert_eq!(lines[0]["dry_run"], dry_run);
            assert_eq!(is_closed(&ports, &open).await, !dry_run);
        }
    });
}

#[test]
fn it_is_no_faster_than_its_rate_and_stops_between_two_orders() {
    run(async |ports: Ports| {
        let orders: Vec<OrderId> = (0..50).map(|n| id(&format!("o{n}"))).collect();
        let began = ports.now();
        let act = async |_| ActOutcome::Failed(OperateError::Contended);
        let stop = ports.sleep(Millis(1_950));
        let mut told = 0;
        let report = |line: &ActResult| {
            told += 1;
            match line.order_id.as_str() {
                "o30" => Err("the pipe is closed"),
                _ => Ok(()),
            }
        };
        let tally = act_on_each(&ports, orders.clone(), bulk(false), stop, act, report).await;
        let tally = tally.expect("nothing fails before it is stopped");
        assert!(tally.stopped && tally.failed == told, "{tally:?}");
        assert!((19..=20).contains(&told), "ten a second: {told}");
        assert!(ports.now().since(began) < Millis(2_100));
        let never = std::future::pending();
        let report = |line: &ActResult| match line.order_id.as_str() {
            "o3" => Err("the pipe is closed"),
            _ => Ok(()),
        };
        let failed = act_on_each(&ports, orders, bulk(false), never, act, report).await;
        assert_eq!(failed, Err("the pipe is closed"));
    });
}

#[test]
fn a_dry_run_has_no_pace_and_can_be_stopped() {
    run(async |ports: Ports| {
        let orders: Vec<OrderId> = (0..50).map(|n| id(&format!("o{n}"))).collect();
        let began = ports.now();
        let act = async |_| ActOutcome::Failed(OperateError::Contended);
        let report = |_: &ActResult| Ok::<(), Infallible>(());
        let never = std::future::pending();
        let Ok(tally) = act_on_each(&ports, orders.clone(), bulk(true), never, act, report).await;
        assert_eq!(tally.failed, 50);
        assert!(ports.now().since(began) < Millis(100), "ten a second");
        let stop = std::future::ready(());
        let Ok(tally) = act_on_each(&ports, orders, bulk(true), stop, act, report).await;
        assert!(tally.stopped && tally.left == 50, "{tally:?}");
    });
}

#[test]
fn downstreams_are_those_that_the_published_workflows_name() {
    run(async |ports: Ports| {
        publish(&ports, &workflow("w", "go")).await;
        let published = downstreams::Published::read(&ports).await;
        let published = published.expect("definitions");
        let names = |agents: &std::collections::BTreeSet<triad_workflow::AgentName>| {
            let names = agents.iter().map(ToString::to_string);
            names.collect::<Vec<_>>().join(" ")
        };
        let all = names(&published.agents());
        assert!(all.contains("bank") && all.contains("refunds"), "{all}");
        let step = "w/pay".parse().expect("a step type");
        let of_step = published.agents_of(&step).expect("it has agents");
        assert_eq!(names(&of_step), "bank refunds");
        let unknown = published.agent("bnak").expect_err("nobody");
        assert!(unknown.to_string().contains("there are: "), "{unknown}");
        let unknown = "w/nothing".parse().expect("a step type");
        assert!(published.agents_of(&unknown).is_err());
        assert!("w".parse::<downstreams::StepType>().is_err());
        let agent = published.agent("bank").expect("it is there");
        let view = downstreams::view(&ports, &agent).await.expect("it works");
        assert_eq!(view.record.breaker.name(), "closed");
        assert_eq!(downstreams::waiting(&ports, ports.now()).await, Ok(vec![]));
    });
}

/// A bus that refuses every message.
struct Deaf;

impl Bus for Deaf {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let away = || Err(BusError::Transient("nobody is there".into()));
        messages.iter().map(|_| away()).collect()
    }
}

#[test]
fn an_act_that_the_bus_does_not_hear_of_is_written_and_ends_there() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let mut orders = Vec::new();
        for name in ["a", "b", "c"] {
            orders.push(order(&ports, &workflow, name, |o| o.state = error(5, "no")).await);
        }
        let all = || ports.clone();
        let desk = Operator::new(all(), Deaf, all(), all(), Settings::default());
        let resubmit = Operation {
            action: Action::Resubmit { input: None },
            ..close()
        };
        let mut lines = Vec::new();
        let report = |line: &ActResult| {
            lines.push(serde_json::to_value(line).expect("JSON"));
            Ok::<(), Infallible>(())
        };
        let never = std::future::pending();
        let done = operate(
            &desk,
            &ports,
            orders.clone(),
            &resubmit,
            bulk(false),
            never,
            report,
        );
        let Ok(tally) = done.await;
        let wanted = Tally {
            done: 1,
            unsent: 1,
            left: 2,
            ..Tally::default()
        };
        assert_eq!(tally, wanted);
        assert_eq!(
            (&lines[0]["result"], &lines[0]["unsent"]),
            (&json!("done"), &json!(true))
        );
        let text = lines[0]["text"].as_str().expect("text");
        assert!(text.contains("the Supervisor sends them"), "{text}");
        let state = async |id: &OrderId| {
            let found = find::by_id(&ports, id.clone()).await.expect("it works");
            found.expect("it is there").state.name()
        };
        assert_eq!(state(&orders[0]).await, "Pending", "it is written");
        assert_eq!(state(&orders[1]).await, "Error", "it had no turn");
    });
}

#[test]
fn a_corrected_input_begins_from_each_order_s_own_and_is_shown_before_it_is_written() {
    run(async |ports: Ports| {
        let definition = json!({"workflow": "w", "steps": [{"id": "pay", "agent": "bank", "action": "go",
            "input": {"amount": 1, "customer": "${order.id}"}, "compensation": "none"}]});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("a sound one");
        publish(&ports, &workflow).await;
        let mut orders = Vec::new();
        for name in ["a", "b"] {
            orders.push(order(&ports, &workflow, name, |o| o.state = error(5, "no")).await);
        }
        let all = || ports.clone();
        let desk = Operator::new(all(), Topic::default(), all(), all(), Settings::default());
        let step = StepId::new("pay").expect("a name");
        let act = OperatorAct::new("ann", "a typo");
        let set = |text: &str| Correction::Set(vec![text.parse().expect("a set")]);
        for (text, dry_run, done, refused) in [
            ("amont=2", false, 0, 2),
            ("amount=text", false, 0, 2),
            ("amount=2", true, 2, 0),
            ("amount=2", false, 2, 0),
        ] {
            let mut told = Vec::new();
            let correction = set(text);
            let corrected = Corrected {
                step: &step,
                correction: &correction,
                act: &act,
            };
            let show = |id: &OrderId, all: &[triad_operator::correction::Difference]| {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                told.push(format!("{id}: {}", all.join(", ")));
            };
            let report = |_: &ActResult| Ok::<(), Infallible>(());
            let never = std::future::pending();
            let how = bulk(dry_run);
            let done_with = resubmit_corrected(
                &desk,
                &ports,
                orders.clone(),
                corrected,
                how,
                never,
                show,
                report,
            );
            let Ok(tally) = done_with.await;
            assert_eq!((tally.done, tally.refused), (done, refused), "{text}");
            if text == "amount=2" {
                assert_eq!(told, ["a: amount: 1 -> 2", "b: amount: 1 -> 2"]);
            }
        }
        for id in &orders {
            let found = find::by_id(&ports, id.clone()).await.expect("it works");
            let input = found.expect("it is there").steps[0].input.clone();
            assert_eq!(input, Some(json!({"amount": 2, "customer": id.as_str()})));
        }
    });
}
