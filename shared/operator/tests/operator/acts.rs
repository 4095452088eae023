//! Many orders are acted on one after the other, at a rate, until somebody stops it.

use std::convert::Infallible;

use triad_core::{Action, Operation, OperatorAct, Order, OrderId};
use triad_operator::acts::operate;
use triad_operator::bulk::{Bulk, Line, Tally, each};
use triad_operator::outcome::Outcome;
use triad_operator::{Rate, downstreams, find};
use triad_runtime::Clock;
use triad_runtime::operator::{OperateError, Operator};
use triad_runtime::settings::Settings;
use triad_sim::Ports;
use triad_workflow::Millis;

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
            let report = |line: &Line| {
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
        let act = async |_| Outcome::Failed(OperateError::Contended);
        let stop = ports.sleep(Millis(1_950));
        let mut told = 0;
        let report = |line: &Line| {
            told += 1;
            match line.order.as_str() {
                "o30" => Err("the pipe is closed"),
                _ => Ok(()),
            }
        };
        let tally = each(&ports, orders.clone(), bulk(false), stop, act, report).await;
        let tally = tally.expect("nothing fails before it is stopped");
        assert!(tally.stopped && tally.failed == told, "{tally:?}");
        assert!((19..=20).contains(&told), "ten a second: {told}");
        assert!(ports.now().since(began) < Millis(2_100));
        let never = std::future::pending();
        let report = |line: &Line| match line.order.as_str() {
            "o3" => Err("the pipe is closed"),
            _ => Ok(()),
        };
        let failed = each(&ports, orders, bulk(false), never, act, report).await;
        assert_eq!(failed, Err("the pipe is closed"));
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
