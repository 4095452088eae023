//! The rules by which a campaign continues or stops, and the stored form of campaigns.

use std::collections::BTreeMap;

use triad_core::{CampaignId, OperatorAct, OrderId, ProcessState, Timestamp};
use triad_operator::campaign::commands::CampaignRequest;
use triad_operator::campaign::form::{self, CampaignLease};
use triad_operator::campaign::rules::{SIZES, Verdict, came_of, size, verdict};
use triad_operator::campaign::{
    Batch, Campaign, CampaignAct, CampaignCounts, CampaignEnd, CampaignOrder, Done, EndedOrders,
    OrderAfterAct, Phase,
};
use triad_sim::Ports;

use super::super::support::{error, order, publish, run, workflow};
use super::{read, wanted};

fn campaign(grown: u32, small: EndedOrders) -> Campaign {
    let CampaignRequest {
        what,
        filter,
        operator,
        pace,
        total,
    } = wanted(CampaignAct::Resubmit);
    Campaign {
        id: CampaignId::new(7),
        what,
        filter,
        operator,
        pace,
        total,
        started_at: Timestamp(1_000),
        phase: Phase::Watching {
            since: Timestamp(2_000),
        },
        batch: grown,
        grown,
        next: None,
        is_whole: false,
        is_open: true,
        judged: 0,
        is_resumed: false,
        counts: CampaignCounts::default(),
        small,
        notes: Vec::new(),
        held: None,
    }
}

/// A batch of which this many orders ended well, failed again, and are still under way.
fn batch(well: u32, again: u32, open: u32) -> Batch {
    let then = [
        (Some(OrderAfterAct::Well), well),
        (Some(OrderAfterAct::Again), again),
        (None, open),
    ];
    let entry = |n: usize, then| CampaignOrder {
        result: Some(Done::Done),
        then,
        ..CampaignOrder::of(OrderId::new(format!("o-{n}")).expect("an id"))
    };
    let orders = then
        .into_iter()
        .flat_map(|(then, count)| (0..count).map(move |_| then));
    Batch {
        orders: orders.enumerate().map(|(n, then)| entry(n, then)).collect(),
        next: None,
        is_whole: false,
    }
}

#[test]
fn batches_have_the_stated_sizes() {
    let sizes: Vec<u32> = (0..10)
        .map(|grown| size(&campaign(grown, EndedOrders::default())))
        .collect();
    assert_eq!(sizes, [1, 2, 5, 20, 50, 100, 200, 500, 500, 500]);
    assert!(
        SIZES[..4].iter().sum::<u32>() - 20 < 20,
        "small batches together are few"
    );
}

#[test]
fn a_batch_is_judged_by_the_share_that_fails_again() {
    use Verdict::{GoOn, Over, Watch};
    let fails = |again, of| Over(CampaignEnd::FailsAgain { again, of });
    let none = EndedOrders::default();
    let (soon, late) = (Timestamp(21_999), Timestamp(22_000));
    // Each row: number of batches so far; sums of the earlier small batches; this batch; verdict before and after the
    // patience for open orders is over.
    for (grown, small, this, early, then) in [
        (1, none, batch(1, 0, 0), GoOn, GoOn),
        // One failure does not stop a campaign: its cause may concern that order alone.
        (1, none, batch(0, 1, 0), GoOn, GoOn),
        (
            2,
            EndedOrders { of: 1, again: 1 },
            batch(1, 1, 0),
            fails(2, 3),
            fails(2, 3),
        ),
        (
            2,
            EndedOrders { of: 1, again: 1 },
            batch(2, 0, 0),
            GoOn,
            GoOn,
        ),
        // The limit is 20 %: 1 of 8 and 4 of 20 are within it, 5 of 20 are not.
        (
            3,
            EndedOrders { of: 3, again: 1 },
            batch(5, 0, 0),
            GoOn,
            GoOn,
        ),
        (
            4,
            EndedOrders { of: 8, again: 8 },
            batch(16, 4, 0),
            GoOn,
            GoOn,
        ),
        (4, none, batch(15, 5, 0), fails(5, 20), fails(5, 20)),
        // Five failures of 20 are beyond the limit, whatever the open orders become.
        (4, none, batch(0, 5, 15), fails(5, 5), fails(5, 5)),
        (
            4,
            none,
            batch(0, 4, 16),
            Watch,
            Over(CampaignEnd::Stalled { open: 16 }),
        ),
        (4, none, batch(6, 4, 10), Watch, fails(4, 10)),
        (4, none, batch(10, 0, 10), Watch, GoOn),
        (
            4,
            none,
            batch(9, 0, 11),
            Watch,
            Over(CampaignEnd::Stalled { open: 11 }),
        ),
    ] {
        let campaign = campaign(grown, small);
        let judge = |now| verdict(&campaign, &this, Timestamp(2_000), now);
        assert_eq!(
            (judge(soon), judge(late)),
            (early, then),
            "{:?}",
            this.ended_orders()
        );
    }
}

#[test]
fn what_became_of_an_order_depends_on_what_was_wanted() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let id = order(&ports, &workflow, "o", |_| {}).await;
        let at = Timestamp(9);
        let mut order = read(&ports, &id).await;
        let cause = match error(5, "no") {
            ProcessState::Error { cause, .. } => cause,
            _ => unreachable!("it is an error"),
        };
        let states = BTreeMap::from([
            ("processed", ProcessState::Processed { at }),
            ("error", error(5, "no")),
            (
                "compensated",
                ProcessState::Compensated {
                    at,
                    cause: cause.clone(),
                },
            ),
            (
                "compensating",
                ProcessState::Compensating {
                    locked_by: None,
                    complete_by: at,
                    cause,
                },
            ),
            ("pending", ProcessState::Pending { complete_by: None }),
        ]);
        let (well, again) = (Some(OrderAfterAct::Well), Some(OrderAfterAct::Again));
        for (what, state, came) in [
            (CampaignAct::Resubmit, "processed", well),
            (CampaignAct::Resubmit, "error", again),
            (CampaignAct::Resubmit, "compensated", again),
            (CampaignAct::Resubmit, "compensating", again),
            (CampaignAct::Resubmit, "pending", None),
            (CampaignAct::Cancel, "compensated", well),
            (CampaignAct::Cancel, "compensating", None),
            (CampaignAct::RetryCompensation, "error", again),
            (CampaignAct::Close, "error", well),
            (
                CampaignAct::Migrate {
                    to: order.workflow.clone(),
                },
                "error",
                well,
            ),
        ] {
            order.state = states[state].clone();
            assert_eq!(came_of(&what, Some(&order)), came, "{what:?} {state}");
        }
        assert_eq!(came_of(&CampaignAct::Resubmit, None), well);
    });
}

#[test]
fn what_is_stored_is_as_in_the_golden_files() {
    let mut head = campaign(2, EndedOrders { of: 1, again: 0 });
    head.held = Some(CampaignLease {
        by: 3,
        until: Timestamp(62_000),
    });
    head.notes = vec![form::CampaignNote {
        at: Timestamp(1_500),
        what: "stopped".into(),
        operator: OperatorAct::new("bob", "wait"),
    }];
    let golden = include_str!("../../golden/campaign.json");
    assert_eq!(
        serde_json::from_str::<Campaign>(golden).expect("it is read"),
        head
    );
    let written: serde_json::Value = serde_json::from_str(golden).expect("JSON");
    assert_eq!(serde_json::to_value(&head).expect("JSON"), written);
    let mut orders = batch(1, 1, 1);
    orders.orders.push(CampaignOrder {
        result: Some(Done::Refused),
        text: Some("it is closed already".into()),
        ..CampaignOrder::of(OrderId::new("o-3").expect("an id"))
    });
    let golden = include_str!("../../golden/campaign-batch.json");
    assert_eq!(
        serde_json::from_str::<Batch>(golden).expect("it is read"),
        orders
    );
    let written: serde_json::Value = serde_json::from_str(golden).expect("JSON");
    assert_eq!(serde_json::to_value(&orders).expect("JSON"), written);
}
