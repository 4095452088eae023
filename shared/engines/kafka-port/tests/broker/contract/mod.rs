//! What Triad needs of any Kafka broker, checked through librdkafka.
//!
//! The functions take a bootstrap address, so they also run against a real Kafka. Topics and groups get new names, so
//! a broker can be used repeatedly.

pub mod admin;
pub mod groups;
pub mod records;

/// A contract: its name and the function that checks it.
pub type Contract = (&'static str, fn(&str));

/// Every contract.
pub const ALL: &[Contract] = &[
    (
        "keys_values_headers_and_nulls_survive",
        records::keys_values_headers_and_nulls_survive,
    ),
    (
        "order_is_kept_within_a_partition",
        records::order_is_kept_within_a_partition,
    ),
    (
        "an_idempotent_producer_delivers_everything_once",
        records::an_idempotent_producer_delivers_everything_once,
    ),
    (
        "compressed_batches_come_back",
        records::compressed_batches_come_back,
    ),
    (
        "a_long_poll_wakes_when_a_record_arrives",
        records::a_long_poll_wakes_when_a_record_arrives,
    ),
    (
        "big_messages_pass_and_too_big_ones_are_refused",
        records::big_messages_pass_and_too_big_ones_are_refused,
    ),
    (
        "seeking_by_timestamp_finds_the_first_record_at_or_after_it",
        records::seeking_by_timestamp_finds_the_first_record_at_or_after_it,
    ),
    (
        "an_offset_out_of_range_is_reset",
        records::an_offset_out_of_range_is_reset,
    ),
    (
        "a_transactional_producer_is_refused_at_once_or_served",
        records::a_transactional_producer_is_refused_at_once_or_served,
    ),
    (
        "two_consumers_share_and_take_over",
        groups::two_consumers_share_and_take_over,
    ),
    (
        "a_group_goes_on_where_it_committed",
        groups::a_group_goes_on_where_it_committed,
    ),
    (
        "groups_are_listed_described_and_deleted",
        groups::groups_are_listed_described_and_deleted,
    ),
    (
        "topics_are_created_described_and_deleted",
        admin::topics_are_created_described_and_deleted,
    ),
    ("partitions_can_be_added", admin::partitions_can_be_added),
    (
        "unknown_topics_are_reported",
        admin::unknown_topics_are_reported,
    ),
    ("bad_topics_are_refused", admin::bad_topics_are_refused),
];
