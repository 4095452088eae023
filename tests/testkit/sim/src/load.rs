//! Worlds under load: more orders at once than the services can handle, all of them valid. Services have a limited
//! capacity, and the trigger is a fault of a service or of Triad's processes. `crate::overload` runs such a world,
//! and `crate::checks::load` checks its end against G12.

use crate::kernel::Rng;
use crate::scenario::{self, NewOrder};

/// How long a struggling service fails half of its calls, in milliseconds.
pub(crate) const STRUGGLES_MS: u64 = 30_000;

/// The fault that comes while orders arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// No fault: there are only many orders.
    Burst,
    /// One service becomes slow; half of the orders do not need it.
    Slow,
    /// One service is unavailable; half of the orders do not need it.
    Away,
    /// Every process stops for an hour.
    Stop,
    /// Processes are killed one after the other.
    Kills,
    /// One service fails half of its calls.
    Struggling,
}

const ALL: [Load; 6] = [
    Load::Burst,
    Load::Slow,
    Load::Away,
    Load::Stop,
    Load::Kills,
    Load::Struggling,
];

impl Load {
    /// Chooses a load at random.
    pub(crate) fn drawn(rng: &mut Rng) -> Self {
        *rng.pick(&ALL)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Burst => "load: burst",
            Self::Slow => "load: slow service",
            Self::Away => "load: service away",
            Self::Stop => "load: everything stops for an hour",
            Self::Kills => "load: instances killed",
            Self::Struggling => "load: struggling service",
        }
    }

    /// The orders of a world: all come within a second, and are more than the services can handle.
    pub(crate) fn orders(self, rng: &mut Rng) -> Vec<NewOrder> {
        let count = usize::try_from(rng.between(400, 600)).unwrap_or(200);
        (0..count)
            .map(|n| {
                let needs_it = n % 2 == 0;
                let workflow = match self {
                    // `shelf` needs only the service `stock`; the other workflow also needs `bank`.
                    Self::Slow | Self::Away if !needs_it => "shelf",
                    _ => "line",
                };
                scenario::plain_order(n, workflow)
            })
            .collect()
    }

    /// When the fault begins, and how long it lasts, in milliseconds.
    pub(crate) fn lasts(self, rng: &mut Rng) -> (u64, u64) {
        match self {
            Self::Burst => (0, 0),
            Self::Slow => (rng.between(1_000, 2_500), rng.between(60_000, 120_000)),
            Self::Away => (0, rng.between(30_000, 600_000)),
            Self::Stop => (rng.between(500, 5_000), 3_600_000),
            Self::Kills => (500, 60_000),
            Self::Struggling => (0, STRUGGLES_MS),
        }
    }
}
