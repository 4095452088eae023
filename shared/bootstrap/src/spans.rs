//! The time spans of an installation for which all programs that write process records (functions, workers
//! and operators' tools) must have the same values.

use triad_core::Timing;
use triad_workflow::Millis;

use crate::reader::{ConfigError, Reader};

/// The time spans of an installation, in milliseconds. The variable that each is read from is in brackets.
#[derive(Debug, Clone, Copy)]
pub struct Spans {
    /// The spans by which decisions are taken (`TRIAD_SKEW`, `TRIAD_QUEUE_WITHIN`,
    /// `TRIAD_ANNOUNCE_WITHIN`). Absent ones have the values of [`Timing::default`].
    pub timing: Timing,
    /// How long finished records are kept (`TRIAD_RETENTION`). Default: 30 days.
    pub retention: Millis,
    /// How long the details of finished orders are kept (`TRIAD_DETAILS_RETENTION`). `None`, the
    /// default: for ever.
    pub details_retention: Option<Millis>,
}

impl Default for Spans {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            retention: Millis(30 * 24 * 3_600_000),
            details_retention: None,
        }
    }
}

impl Spans {
    /// Reads only the spans, for programs that need nothing else of the configuration. `lookup` returns the
    /// value of the variable with this name; `None` if it is not set. A span is written with its unit, such
    /// as `500ms` or `90days`, and is at most 366 days.
    ///
    /// # Errors
    /// [`ConfigError`] with every span that cannot be read or is too long.
    ///
    /// # Example
    /// ```
    /// use triad_bootstrap::Spans;
    /// let lookup = |name: &str| (name == "TRIAD_RETENTION").then(|| "90days".to_owned());
    /// assert_eq!(Spans::read(&lookup).unwrap().retention.0, 90 * 24 * 3_600_000);
    /// assert!(Spans::read(&|_| Some("soon".to_owned())).is_err());
    /// ```
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut r = Reader::new(lookup);
        let spans = Self::of(&mut r);
        r.end(spans)
    }

    /// Reads the spans among other settings.
    pub(crate) fn of(r: &mut Reader<'_>) -> Self {
        let Self {
            timing, retention, ..
        } = Self::default();
        Self {
            timing: Timing {
                skew: r.span("TRIAD_SKEW", timing.skew),
                queue_within: r.span("TRIAD_QUEUE_WITHIN", timing.queue_within),
                announce_within: r.span("TRIAD_ANNOUNCE_WITHIN", timing.announce_within),
                ..timing
            },
            retention: r.span("TRIAD_RETENTION", retention),
            details_retention: r.optional_span("TRIAD_DETAILS_RETENTION"),
        }
    }
}
