//! The metadata of committed offsets, which anybody may have written: bytes.
#![expect(
    unsafe_code,
    reason = "rdkafka's own call panics at metadata that is no UTF-8"
)]

use rdkafka::TopicPartitionList;
use rdkafka::bindings::rd_kafka_topic_partition_t;
use triad_consume::InHand;
use triad_runtime::dead_letter::LetterId;
use triad_runtime::deaths::Mark;

use super::event::text;

/// The marks in a list of committed offsets. Metadata that is no mark is none.
pub(crate) fn marks(committed: &TopicPartitionList) -> Vec<(LetterId, Mark)> {
    // SAFETY: the list is alive as long as it is borrowed, and nobody else changes it.
    let all: &[rd_kafka_topic_partition_t] = unsafe {
        match committed.ptr().as_ref() {
            Some(list) if list.cnt > 0 => {
                std::slice::from_raw_parts(list.elems, list.cnt.unsigned_abs() as usize)
            }
            _ => &[],
        }
    };
    let mut found = Vec::new();
    for one in all
        .iter()
        .filter(|one| !one.metadata.is_null() && one.offset >= 0)
    {
        // SAFETY: librdkafka says where its bytes are and how many.
        let metadata =
            unsafe { std::slice::from_raw_parts(one.metadata.cast::<u8>(), one.metadata_size) };
        let metadata = std::str::from_utf8(metadata).ok();
        if let Some(in_hand) = metadata.and_then(InHand::parse) {
            let at = LetterId {
                // SAFETY: the names of a list end in a zero byte.
                topic: unsafe { text(one.topic) },
                partition: one.partition,
                offset: in_hand.from,
            };
            found.push((at, in_hand.mark));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rdkafka::Offset;

    use super::*;

    #[test]
    fn metadata_of_others_is_passed_over_whatever_it_is() {
        let mut list = TopicPartitionList::new();
        let in_hand = InHand {
            from: 9,
            mark: Mark::Alone(2),
        };
        let written = [
            (&*in_hand.to_string(), Offset::Offset(7)),
            ("\u{fffd}", Offset::Offset(8)),
            ("", Offset::Offset(9)),
            ("9 together\0", Offset::Offset(10)),
            ("x together", Offset::Offset(10)),
            ("9 together", Offset::Invalid),
        ];
        for (partition, (metadata, offset)) in (0..).zip(written) {
            list.add_partition_offset("t", partition, offset)
                .expect("it is added");
            list.find_partition("t", partition)
                .expect("it is there")
                .set_metadata(metadata);
        }
        let at = LetterId {
            topic: "t".into(),
            partition: 0,
            offset: 9,
        };
        assert_eq!(marks(&list), [(at, Mark::Alone(2))]);
    }
}
