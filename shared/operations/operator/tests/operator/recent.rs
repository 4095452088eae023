//! Counting recent alerts and dead letters has a limited cost.

use triad_core::message::{Alert, AlertKind};
use triad_core::{Envelope, Timestamp, topics};
use triad_operator::recent::{LAST, Letters, alerts, letters};
use triad_runtime::Bus;
use triad_runtime::dead_letter::replay::{ReplayAct, dismissal};
use triad_sim::Ports;

use super::letters::{Topic, id};
use super::support::run;

fn alert(number: u64) -> Envelope {
    let alert = Alert {
        alert_id: format!("{number}/Error/1"),
        kind: AlertKind::OrderError,
        order_id: Some(number.to_string()),
        cause: "x".to_owned(),
        at: Timestamp(number),
    };
    alert.message("k", None)
}

#[test]
fn the_newest_alerts_are_told_once_each_and_what_is_none_is_counted() {
    run(async |_: Ports| {
        let topic = Topic::default();
        let other = Envelope {
            topic: topics::ALERTS.to_owned(),
            key: None,
            value: b"{".to_vec(),
            headers: Vec::new(),
            trace: None,
        };
        topic
            .publish(vec![alert(3), alert(1), other, alert(2), alert(3)])
            .await;
        let told = alerts(&topic, Timestamp(0), 2).await.expect("it is read");
        let ids: Vec<_> = told.alerts.iter().map(|a| a.at.0).collect();
        assert_eq!((ids, told.more, told.unreadable), (vec![3, 2], true, 1));
        let all = alerts(&topic, Timestamp(0), 3).await.expect("it is read");
        assert!(!all.more && all.alerts.len() == 3);
    });
}

#[test]
fn letters_that_were_dismissed_are_not_counted() {
    run(async |_: Ports| {
        let topic = Topic::with_letters();
        let count = async || letters(&topic, Timestamp(0)).await.expect("it is read");
        let all = Letters {
            letters: 6,
            more: false,
        };
        assert_eq!(count().await, all);
        let act = ReplayAct::new("ann", "noise", Timestamp(5)).expect("an act");
        topic.publish(vec![dismissal(&id(2), &act)]).await;
        assert_eq!(count().await.letters, 5);
    });
}

#[test]
fn where_a_partition_has_as_many_records_as_are_read_there_may_be_more() {
    run(async |_: Ports| {
        for (count, more) in [(LAST - 1, false), (LAST, true)] {
            let topic = Topic::default();
            topic
                .publish((0..u64::from(count)).map(alert).collect())
                .await;
            let told = alerts(&topic, Timestamp(0), 2_000)
                .await
                .expect("it is read");
            assert_eq!((told.alerts.len() as u32, told.more), (count, more));
        }
    });
}
