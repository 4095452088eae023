use std::time::Duration;

use triad_runtime::InputRecord;

use super::*;

fn record(partition: i32, offset: i64) -> Item {
    Item::Record(InputRecord {
        topic: "t".into(),
        partition,
        offset,
        ..InputRecord::default()
    })
}

fn at(partition: i32) -> Partition {
    ("t".to_owned(), partition)
}

fn offsets(items: &[Item]) -> Vec<(i32, i64)> {
    let place = |item: &Item| (item.record().partition, item.record().offset);
    items.iter().map(place).collect()
}

/// A time when everything that waits is due.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[tokio::test(start_paused = true)]
async fn each_partition_waits_for_itself_and_keeps_its_order() {
    let (mut stuck, now) = (Stuck::default(), Instant::now());
    assert!(stuck.put_back(at(0), vec![record(0, 4)], false, &Why::NoRoom, now));
    let after = now + Duration::from_secs(1);
    assert!(stuck.put_back(at(1), vec![record(1, 7)], false, &Why::Failed, after));
    assert!(stuck.put_behind(record(0, 5)).is_none());
    assert!(
        stuck.put_behind(record(2, 0)).is_some(),
        "nothing waits of it"
    );
    assert_eq!(stuck.next_at(), Some(now + FOR_ROOM));
    assert!(stuck.take_due(now, 9).is_empty());
    let due = stuck.take_due(now + FOR_ROOM, 9);
    assert_eq!(offsets(&due), [(0, 4), (0, 5)]);
    assert!(!stuck.put_back(at(0), due, false, &Why::Failed, now));
    assert!(stuck.put_behind(record(0, 6)).is_none());
    assert_eq!(offsets(&stuck.take_due(later(), 2)), [(0, 4), (0, 5)]);
    assert!(!stuck.done(&at(0), now), "one more waits");
    assert_eq!(offsets(&stuck.take_due(later(), 9)), [(0, 6), (1, 7)]);
    assert!(stuck.done(&at(0), now) && stuck.done(&at(1), now));
    assert_eq!(stuck.next_at(), None);
}

#[tokio::test(start_paused = true)]
async fn what_has_gone_elsewhere_is_forgotten() {
    let (mut stuck, now) = (Stuck::default(), Instant::now());
    for partition in 0..3 {
        stuck.put_back(
            at(partition),
            vec![record(partition, 1)],
            false,
            &Why::Failed,
            now,
        );
    }
    stuck.forget(&[at(0), at(2)]);
    assert_eq!(offsets(&stuck.take_due(later(), 9)), [(1, 1)]);
}
