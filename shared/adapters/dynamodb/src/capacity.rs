//! Capacity consumed by calls, from DynamoDB's own figures.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};

/// Capacity units that calls have consumed, by DynamoDB's own figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Units {
    /// Write capacity units, those of indexes included, to a hundredth of a unit; 0 if only calls are
    /// counted.
    pub write: f64,
    /// Read capacity units, those of indexes included, to a hundredth of a unit; 0 if only calls are
    /// counted.
    pub read: f64,
    /// How many calls were counted.
    pub calls: u64,
}

/// A meter that adds up what calls to DynamoDB consume. The default counts calls only; [`Capacity::metered`]
/// also asks DynamoDB for capacity units, which makes every answer a little larger.
#[derive(Debug, Default)]
pub struct Capacity {
    on: bool,
    write_hundredths: AtomicU64,
    read_hundredths: AtomicU64,
    calls: AtomicU64,
}

/// Which kind of units a call consumes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Write,
    Read,
}

impl Capacity {
    /// A meter that starts at 0 and has DynamoDB report the consumed capacity units with each call.
    #[must_use]
    pub fn metered() -> Self {
        Self {
            on: true,
            ..Self::default()
        }
    }

    /// What has been consumed since the meter was made. Calls that other threads make at this
    /// moment may be counted in part.
    #[must_use]
    pub fn units(&self) -> Units {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let units = |n: &AtomicU64| n.load(Ordering::Relaxed) as f64 / 100.0;
        Units {
            write: units(&self.write_hundredths),
            read: units(&self.read_hundredths),
            calls: self.calls.load(Ordering::Relaxed),
        }
    }

    /// The value of a request's field `ReturnConsumedCapacity`.
    pub(crate) fn wanted(&self) -> Option<ReturnConsumedCapacity> {
        self.on.then_some(ReturnConsumedCapacity::Indexes)
    }

    pub(crate) fn add<'a>(
        &self,
        kind: Kind,
        consumed: impl IntoIterator<Item = &'a ConsumedCapacity>,
    ) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let units: f64 = consumed
            .into_iter()
            .filter_map(ConsumedCapacity::capacity_units)
            .sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small and positive"
        )]
        let hundredths = (units * 100.0).round() as u64;
        match kind {
            Kind::Write => &self.write_hundredths,
            Kind::Read => &self.read_hundredths,
        }
        .fetch_add(hundredths, Ordering::Relaxed);
    }
}
