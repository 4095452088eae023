//! Names of the headers of letters and markers, for their writer and their reader.

pub(super) const CE_SPECVERSION: &str = "ce_specversion";
pub(super) const CE_TYPE: &str = "ce_type";
pub(super) const CE_SOURCE: &str = "ce_source";
pub(super) const CE_ID: &str = "ce_id";

/// `ce_type` of a letter.
pub(super) const LETTER: &str = "triad.dead-letter";
/// `ce_type` of a marker that a letter was replayed.
pub(super) const REPLAYED: &str = "triad.dead-letter.replayed";
/// `ce_type` of a marker that a letter was dismissed.
pub(super) const DISMISSED: &str = "triad.dead-letter.dismissed";

pub(super) const CAUSE: &str = "triad-cause";
pub(super) const CAUSE_MESSAGE: &str = "triad-cause-message";
pub(super) const TOPIC: &str = "triad-topic";
pub(super) const PARTITION: &str = "triad-partition";
pub(super) const OFFSET: &str = "triad-offset";
pub(super) const AT: &str = "triad-at";
pub(super) const TOMBSTONE: &str = "triad-tombstone";
pub(super) const TRUNCATED_FROM: &str = "triad-truncated-from";
pub(super) const KEY_TRUNCATED_FROM: &str = "triad-key-truncated-from";
/// Kept and original number of the record's own headers, `2/2`.
pub(super) const HEADERS: &str = "triad-headers";

pub(super) const REPLAY_OF: &str = "triad-replay-of";
pub(super) const BY: &str = "triad-by";
pub(super) const WHY: &str = "triad-why";
pub(super) const CORRECTED: &str = "triad-corrected";

/// All headers of a letter itself.
pub(super) const OF_A_LETTER: [&str; 14] = [
    CE_SPECVERSION,
    CE_TYPE,
    CE_SOURCE,
    CE_ID,
    CAUSE,
    CAUSE_MESSAGE,
    TOPIC,
    PARTITION,
    OFFSET,
    AT,
    TOMBSTONE,
    TRUNCATED_FROM,
    KEY_TRUNCATED_FROM,
    HEADERS,
];
