//! The audit lists every stored act: on orders, on downstreams and on campaigns.

use std::convert::Infallible;

use serde_json::{Value, json};
use triad_core::downstream::{DownstreamAction, ForcedTo};
use triad_core::{Action, Operation, OperatorAct, Timestamp};
use triad_operator::audit::{AuditError, export};
use triad_operator::campaign::commands::{self, CampaignRequest};
use triad_operator::campaign::form::STOP_SHARE;
use triad_operator::campaign::{CampaignAct, Pace};
use triad_operator::find::{CausePattern, Filter, Skipped};
use triad_operator::{Rate, downstreams};
use triad_runtime::Clock;
use triad_runtime::operator::Operator;
use triad_runtime::settings::Settings;
use triad_sim::Ports;
use triad_workflow::Millis;

use super::letters::Topic;
use super::support::{error, order, publish, run, workflow};

async fn audit(ports: &Ports, since: Timestamp) -> Vec<Value> {
    let mut lines = Vec::new();
    let skipped = export(ports, since, |line| {
        lines.push(serde_json::to_value(line).expect("JSON"));
        Ok::<(), Infallible>(())
    });
    assert_eq!(skipped.await.expect("it works"), Skipped::default());
    lines
}

/// An audit line without its time.
fn said(line: &Value) -> Value {
    let mut line = line.clone();
    line.as_object_mut().expect("an object").remove("at");
    line
}

#[test]
fn every_act_is_told_with_what_it_was_on_who_and_why_and_those_before_a_moment_are_left_out() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let all = || ports.clone();
        let operator = Operator::new(all(), Topic::default(), all(), all(), Settings::default());
        let failed = order(&ports, &workflow, "f", |o| o.state = error(5, "no")).await;

        let campaign = CampaignRequest {
            total: None,
            what: CampaignAct::Resubmit,
            filter: Filter {
                cause: Some(CausePattern("permanent/*".into())),
                ..Filter::default()
            },
            operator: OperatorAct::new("ann", "it is mended"),
            pace: Pace {
                rate: Rate::new(10).expect("a rate"),
                stop_share: STOP_SHARE,
                patience: Millis(20_000),
            },
        };
        let started = commands::start(&ports, &ports, campaign, ports.now()).await;
        let campaign = started.expect("it is started").id;
        ports.sleep(Millis(1_000)).await;
        let wait = OperatorAct::new("bob", "wait");
        let stopped = commands::stop(&ports, &ports, &campaign, &wait, ports.now()).await;
        stopped.expect("it is stopped");

        ports.sleep(Millis(1_000)).await;
        let second = ports.now();
        let bank = downstreams::Published::read(&ports)
            .await
            .expect("it works");
        let bank = bank.agent("bank").expect("it is called");
        let open = DownstreamAction::Force(ForcedTo::Open);
        let by = OperatorAct::new("cleo", "they mend it");
        operator
            .operate_downstream(&bank, &open, &by)
            .await
            .expect("it works");
        let back = OperatorAct::new("eve", "it is mended");
        operator
            .operate_downstream(&bank, &DownstreamAction::Release, &back)
            .await
            .expect("it works");
        let close = Operation {
            action: Action::Close,
            act: OperatorAct::new("dan", "by hand"),
        };
        operator
            .operate(&failed, &close, false)
            .await
            .expect("it works");

        let told = audit(&ports, Timestamp(0)).await;
        let expected = [
            json!({"campaign_id": campaign, "what": "started: resubmit", "by": "ann", "why": "it is mended"}),
            json!({"campaign_id": campaign, "what": "stopped", "by": "bob", "why": "wait"}),
            json!({"downstream": "bank", "what": "forced open", "by": "cleo", "why": "they mend it"}),
            json!({"downstream": "bank", "what": "released", "by": "eve", "why": "it is mended"}),
            json!({"order_id": "f", "what": "closed", "by": "dan", "why": "by hand"}),
        ];
        assert_eq!(told.iter().map(said).collect::<Vec<_>>(), expected);
        let late = audit(&ports, second).await;
        assert_eq!(late.iter().map(said).collect::<Vec<_>>(), expected[2..]);
    });
}

#[test]
fn it_ends_with_what_its_reader_says() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let held = order(&ports, &workflow, "f", |o| o.state = error(5, "no")).await;
        let all = || ports.clone();
        let operator = Operator::new(all(), Topic::default(), all(), all(), Settings::default());
        let close = Operation {
            action: Action::Close,
            act: OperatorAct::new("dan", "by hand"),
        };
        operator
            .operate(&held, &close, false)
            .await
            .expect("it works");
        let ended = export(&ports, Timestamp(0), |_| Err("gone")).await;
        assert!(
            matches!(ended, Err(AuditError::Report("gone"))),
            "{ended:?}"
        );
    });
}
