//! The faults of the service, and which calls have them.
//!
//! The faults of a call are computed from the settings, the service, the key and the call's number among those of its
//! key. Architecture invariant: no clock and no random source, so that a run can be repeated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::Direction;
use crate::hash;

/// Limit of a latency, jitter or stall in a plan, in milliseconds, inclusive: ten minutes.
pub const MAX_WAIT_MS: u64 = 600_000;

/// Most services with their own plans, inclusive.
pub const MAX_SERVICE_PLANS: usize = 1_000;

/// The fault settings of the whole process: one plan for every service, and plans for single
/// services. The default has no faults. An unknown field is an error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// The seed of all decisions. The same seed and the same calls give the same faults.
    pub seed: u64,
    /// The plan of each service that is not in `services`.
    pub default: FaultPlan,
    /// Plans of single services, by name, at most [`MAX_SERVICE_PLANS`]. Such a plan replaces the default plan
    /// completely.
    pub services: BTreeMap<String, FaultPlan>,
}

/// The faults of one service's calls. Fractions are from 0 to 1; `transient`, `garbage` and `stall` together are at
/// most 1. By default there are no faults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultPlan {
    /// Fraction of calls that are answered 429, 500 or 503. Default 0.
    pub transient: f64,
    /// Fraction of these calls whose effect is applied before the answer. They are never answered 429. Default 0.5.
    pub transient_after_effect: f64,
    /// Fraction of the keys of actions that are always refused with 422, before any effect. Default 0.
    pub permanent: f64,
    /// Fraction of the keys of compensations that are always refused with 422, before any effect. Default 0.
    pub compensation_permanent: f64,
    /// Fraction of calls whose answer is delayed by `stall_ms`; in half of them the effect is applied before the
    /// stall, in the other half after it. Default 0.
    pub stall: f64,
    /// Length of a stall, in milliseconds, at most [`MAX_WAIT_MS`]. Default 0.
    pub stall_ms: u64,
    /// Fraction of calls answered 200 with a body that breaks off, half of them after the effect was applied.
    /// Default 0.
    pub garbage: f64,
    /// Wait before the effect of every call, in milliseconds, at most [`MAX_WAIT_MS`]. Default 0.
    pub latency_ms: u64,
    /// Limit of an additional random wait of each call, in milliseconds, at most [`MAX_WAIT_MS`]. Default 0.
    pub jitter_ms: u64,
    /// Whether every call is answered 503 with `Retry-After`, without effect. Default no.
    pub down: bool,
    /// Whether every call is answered 401, without effect, as if the caller's token had expired. Default
    /// no.
    pub caller_refused: bool,
    /// The header `Retry-After` of 429, 500 and 503, in seconds. `None`, the default: no such
    /// header, but 1 s while the service is down.
    pub retry_after_s: Option<u32>,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            transient: 0.0,
            transient_after_effect: 0.5,
            permanent: 0.0,
            compensation_permanent: 0.0,
            stall: 0.0,
            stall_ms: 0,
            garbage: 0.0,
            latency_ms: 0,
            jitter_ms: 0,
            down: false,
            caller_refused: false,
            retry_after_s: None,
        }
    }
}

/// The error for a fault setting outside of its limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("faults of {plan}: {what}")]
pub struct FaultsError {
    /// The plan with the error: `default`, or the name of a service; `services` if there are too many plans.
    pub plan: String,
    /// The setting and its limits, as a message.
    pub what: String,
}

/// The faults of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// How long the call waits before it is handled, in milliseconds. A stall is added to this.
    pub wait_ms: u64,
    /// Whether the key is refused for good, unless its effect was applied before.
    pub permanent: bool,
    /// The other fault of the call.
    pub mishap: Mishap,
    /// The header `Retry-After` of a 429, 500 or 503, in seconds; `None`: no such header.
    pub retry_after_s: Option<u32>,
}

/// A fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// No fault: the call is handled by the contract.
    None,
    /// The call is answered 503, without effect.
    Down,
    /// The call is answered 401, without effect.
    CallerRefused,
    /// The call is answered with a status that allows a retry, with or without its effect.
    Transient {
        /// The HTTP status: 429, 500 or 503; never 429 after the effect.
        status: u16,
        /// Whether the effect is applied before the answer. If not, the call has no effect.
        after_effect: bool,
    },
    /// The call is answered 200 with a body that breaks off, before or after its effect.
    Garbage {
        /// Whether the effect is applied before the answer. If not, the call has no effect.
        after_effect: bool,
    },
    /// The answer is delayed.
    Stall {
        /// For how long, in milliseconds, at most [`MAX_WAIT_MS`].
        stall_ms: u64,
        /// Whether the effect is applied before the delay, or after it.
        after_effect: bool,
    },
}

/// Makes the random numbers of one call's decisions independent of each other.
#[derive(Clone, Copy)]
enum Draw {
    Permanent = 1,
    Mishap,
    After,
    Status,
    Jitter,
}

impl Faults {
    /// The plan of `service`: its own one, or the default plan.
    pub fn plan(&self, service: &str) -> &FaultPlan {
        self.services.get(service).unwrap_or(&self.default)
    }

    /// Checks every bound of the settings.
    ///
    /// # Errors
    /// [`FaultsError`] for the first setting that is out of its bounds.
    pub fn validate(&self) -> Result<(), FaultsError> {
        if self.services.len() > MAX_SERVICE_PLANS {
            return Err(FaultsError {
                plan: "services".to_owned(),
                what: format!("at most {MAX_SERVICE_PLANS} services may have a plan"),
            });
        }
        let named = self.services.iter().map(|(name, plan)| (&**name, plan));
        for (name, plan) in std::iter::once(("default", &self.default)).chain(named) {
            plan.check().map_err(|what| FaultsError {
                plan: name.to_owned(),
                what,
            })?;
        }
        Ok(())
    }

    /// Determines the faults of the `call`-th call (from 1) of `key`. The same arguments always give the same result.
    ///
    /// Whether a key is refused for good depends only on seed, service and key, so all its calls are answered alike
    /// unless the fraction is changed.
    ///
    /// ```
    /// use triad_reference_service::{Direction, Faults};
    /// let faults = Faults::default();
    /// let one = faults.decide("payment", "o-1/charge/forward", Direction::Forward, 1);
    /// assert_eq!(one, faults.decide("payment", "o-1/charge/forward", Direction::Forward, 1));
    /// ```
    pub fn decide(&self, service: &str, key: &str, direction: Direction, call: u32) -> Decision {
        let plan = self.plan(service);
        let of_key = hash::bytes(hash::bytes(self.seed, service.as_bytes()), key.as_bytes());
        let of_call = hash::mix(of_key ^ hash::mix(u64::from(call)));
        let draw = |base: u64, draw: Draw| hash::mix(base ^ hash::mix(draw as u64));
        let permanent_fraction = match direction {
            Direction::Forward => plan.permanent,
            Direction::Compensate => plan.compensation_permanent,
        };
        let jitter_ms = match plan.jitter_ms {
            0 => 0,
            bound => draw(of_call, Draw::Jitter) % (bound + 1),
        };
        let after = draw(of_call, Draw::After);
        let roll = hash::unit(draw(of_call, Draw::Mishap));
        let mishap = if plan.down {
            Mishap::Down
        } else if plan.caller_refused {
            Mishap::CallerRefused
        } else if roll < plan.transient {
            let after_effect = hash::unit(after) < plan.transient_after_effect;
            // 429 means that the service has not begun, so it is never the answer after the effect.
            let statuses: &[u16] = if after_effect {
                &[503, 500]
            } else {
                &[503, 500, 429]
            };
            Mishap::Transient {
                status: statuses[draw(of_call, Draw::Status) as usize % statuses.len()],
                after_effect,
            }
        } else if roll < plan.transient + plan.garbage {
            Mishap::Garbage {
                after_effect: after & 1 == 1,
            }
        } else if roll < plan.transient + plan.garbage + plan.stall {
            Mishap::Stall {
                stall_ms: plan.stall_ms,
                after_effect: after & 1 == 1,
            }
        } else {
            Mishap::None
        };
        Decision {
            wait_ms: plan.latency_ms + jitter_ms,
            permanent: hash::unit(draw(of_key, Draw::Permanent)) < permanent_fraction,
            mishap,
            retry_after_s: plan.retry_after_s,
        }
    }
}

impl FaultPlan {
    fn check(&self) -> Result<(), String> {
        for (name, fraction) in [
            ("transient", self.transient),
            ("transient_after_effect", self.transient_after_effect),
            ("permanent", self.permanent),
            ("compensation_permanent", self.compensation_permanent),
            ("stall", self.stall),
            ("garbage", self.garbage),
        ] {
            if !(0.0..=1.0).contains(&fraction) {
                return Err(format!("{name} must be from 0 to 1, not {fraction}"));
            }
        }
        if self.transient + self.garbage + self.stall > 1.0 + 1e-9 {
            return Err("transient, garbage and stall together must not exceed 1".to_owned());
        }
        for (name, wait_ms) in [
            ("stall_ms", self.stall_ms),
            ("latency_ms", self.latency_ms),
            ("jitter_ms", self.jitter_ms),
        ] {
            if wait_ms > MAX_WAIT_MS {
                return Err(format!(
                    "{name} must not exceed {MAX_WAIT_MS}, not {wait_ms}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(plan: FaultPlan) -> Faults {
        Faults {
            seed: 7,
            default: plan,
            ..Faults::default()
        }
    }

    #[test]
    fn decisions_are_a_function_of_seed_key_and_call() {
        let one = faults(FaultPlan {
            transient: 0.3,
            stall: 0.3,
            stall_ms: 5,
            jitter_ms: 50,
            permanent: 0.2,
            ..FaultPlan::default()
        });
        let other_seed = Faults {
            seed: 8,
            ..one.clone()
        };
        let mut differs = 0;
        for call in 1..200 {
            let first = one.decide("s", "k", Direction::Forward, call);
            assert_eq!(first, one.decide("s", "k", Direction::Forward, call));
            if first != other_seed.decide("s", "k", Direction::Forward, call) {
                differs += 1;
            }
        }
        assert!(
            differs > 100,
            "a seed must matter, differed {differs} times"
        );
    }

    #[test]
    fn each_kind_comes_up_about_as_often_as_asked() {
        let faults = faults(FaultPlan {
            transient: 0.2,
            garbage: 0.1,
            stall: 0.1,
            stall_ms: 9,
            ..FaultPlan::default()
        });
        let (mut lost, mut early, mut garbage, mut stall) = (0, 0, 0, 0);
        for n in 0..10_000 {
            match faults
                .decide("s", &format!("k{n}"), Direction::Forward, 1)
                .mishap
            {
                Mishap::Transient {
                    after_effect: true, ..
                } => lost += 1,
                Mishap::Transient { .. } => early += 1,
                Mishap::Garbage { .. } => garbage += 1,
                Mishap::Stall { stall_ms, .. } => {
                    assert_eq!(stall_ms, 9);
                    stall += 1;
                }
                Mishap::None | Mishap::Down | Mishap::CallerRefused => {}
            }
        }
        for seen in [lost, early, garbage, stall] {
            assert!(
                (800..1_200).contains(&seen),
                "{lost} {early} {garbage} {stall}"
            );
        }
    }

    #[test]
    fn a_declined_key_stays_declined_and_compensation_has_its_own_fraction() {
        let faults = faults(FaultPlan {
            permanent: 0.5,
            ..FaultPlan::default()
        });
        let mut declined = 0;
        for n in 0..1_000 {
            let key = format!("k{n}");
            let first = faults.decide("s", &key, Direction::Forward, 1).permanent;
            declined += u32::from(first);
            for call in 2..6 {
                let again = faults.decide("s", &key, Direction::Forward, call).permanent;
                assert_eq!(first, again);
            }
            assert!(!faults.decide("s", &key, Direction::Compensate, 1).permanent);
        }
        assert!((420..580).contains(&declined), "{declined}");
    }

    #[test]
    fn settings_out_of_bounds_are_named() {
        for plan in [
            FaultPlan {
                transient: 1.5,
                ..FaultPlan::default()
            },
            FaultPlan {
                garbage: f64::NAN,
                ..FaultPlan::default()
            },
            FaultPlan {
                transient: 0.6,
                stall: 0.6,
                ..FaultPlan::default()
            },
            FaultPlan {
                stall_ms: MAX_WAIT_MS + 1,
                ..FaultPlan::default()
            },
        ] {
            assert!(faults(plan).validate().is_err());
        }
        let named = Faults {
            services: [(
                "ship".to_owned(),
                FaultPlan {
                    stall: -0.1,
                    ..FaultPlan::default()
                },
            )]
            .into(),
            ..Faults::default()
        };
        assert_eq!(named.validate().unwrap_err().plan, "ship");
        assert_eq!(Faults::default().validate(), Ok(()));
    }

    #[test]
    fn a_service_override_replaces_the_default_plan() {
        let faults: Faults = serde_json::from_str(
            r#"{"seed":1,"default":{"down":true},"services":{"ship":{"latency_ms":3}}}"#,
        )
        .unwrap();
        let down = faults.decide("pay", "k", Direction::Forward, 1);
        let up = faults.decide("ship", "k", Direction::Forward, 1);
        assert_eq!(down.mishap, Mishap::Down);
        assert_eq!((up.mishap, up.wait_ms), (Mishap::None, 3));
        assert!(serde_json::from_str::<Faults>(r#"{"typo":1}"#).is_err());
    }
}
