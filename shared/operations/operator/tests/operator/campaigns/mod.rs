//! Campaigns: growing batches, one act on each order, and the reasons for which a campaign stops.

mod rules;
mod run;

use triad_core::{OperatorAct, Order, OrderId};
use triad_operator::Rate;
use triad_operator::campaign::commands::CampaignRequest;
use triad_operator::campaign::form::STOP_SHARE;
use triad_operator::campaign::{CampaignAct, Pace};
use triad_operator::find::{CausePattern, Filter};
use triad_runtime::StateStore;
use triad_sim::Ports;
use triad_workflow::Millis;

fn wanted(what: CampaignAct) -> CampaignRequest {
    CampaignRequest {
        total: None,
        what,
        filter: Filter {
            cause: Some(CausePattern("permanent/*".into())),
            ..Filter::default()
        },
        operator: OperatorAct::new("ann", "it is mended"),
        pace: Pace {
            rate: Rate::new(10_000).expect("a rate"),
            stop_share: STOP_SHARE,
            patience: Millis(20_000),
        },
    }
}

/// Reads the stored order.
async fn read(ports: &Ports, id: &OrderId) -> Order {
    let mut found = ports.load(vec![id.clone()]).await;
    let found = found.pop().expect("one").expect("it works");
    found.expect("it is there")
}
