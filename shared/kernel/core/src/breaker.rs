//! The circuit breaker of a downstream: its states, and what moves it from one to the next.
//!
//! Closed: calls are made. Open: no call is made until a timer has passed. Half-open: a few probes are made; enough
//! successful probes close the breaker, and a failed one opens it again for longer. (Nygard, "Release It!"; the cloud
//! pattern *Circuit Breaker*.) All instances share one record per downstream and change it by conditional writes
//! only. Each instance counts its own recent calls in a [`Window`].

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use triad_workflow::Millis;

use crate::due::fnv;
use crate::ids::{OrderId, Timestamp};

/// When a circuit breaker opens, for how long, and what closes it. In JSON a field that is absent
/// has its default, and an unknown field is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSettings {
    /// How many orders one instance looks at together: those that it called for last; 1 to 10,000. Default 20.
    pub window: u32,
    /// The breaker does not open while fewer calls than this were made for the orders in the window; 1 to
    /// `window`. Default 10.
    pub minimum: u32,
    /// The breaker opens when the last call failed of at least this share of the orders in the window, in
    /// percent, and of two at least; 1 to 100. Default 50.
    pub failure_percent: u32,
    /// Upper bound of the time that the breaker stays open after it first opened; above zero. The bound
    /// doubles each time it opens again, up to `max_open`. Default `1s`.
    pub open: Millis,
    /// Largest value that the bound of the time that the breaker stays open can have, and longest
    /// `Retry-After` of a service that is waited for; a longer one is shortened to this. At least `open`.
    /// Default `60s`.
    pub max_open: Millis,
    /// How many probes must succeed to close a half-open breaker; 1 to 10,000. At most as many are
    /// out at once. Default 2.
    pub probes: u32,
    /// How long after the last probe was sent the probes without a result count as lost; above zero. Default
    /// `30s`.
    pub probe_within: Millis,
}

/// The error of a circuit breaker's settings: one of them is out of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is not {bounds}")]
pub struct WrongSetting {
    /// Name of the setting.
    pub setting: &'static str,
    /// The bounds, for a person, such as `from 1 to 100`.
    pub bounds: String,
}

/// Most calls of a breaker's window, and most probes that close one.
const MAX_CALLS: u32 = 10_000;

impl BreakerSettings {
    /// Checks that the settings are within their bounds: the percentage from 1 to 100, counts from 1 to
    /// 10,000, `minimum` not above `window`, times above zero, and `open` not above `max_open`.
    ///
    /// # Errors
    /// [`WrongSetting`] with the first setting that is out of its bounds.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let wrong = |setting, bounds: String| Err(WrongSetting { setting, bounds });
        let counts = 1..=MAX_CALLS;
        if !counts.contains(&self.window) {
            return wrong("window", format!("from 1 to {MAX_CALLS}"));
        }
        if !(1..=self.window).contains(&self.minimum) {
            let window = self.window;
            return wrong("minimum", format!("from 1 to {window}, the window"));
        }
        if !(1..=100).contains(&self.failure_percent) {
            return wrong("failure_percent", "from 1 to 100".to_owned());
        }
        if !counts.contains(&self.probes) {
            return wrong("probes", format!("from 1 to {MAX_CALLS}"));
        }
        if self.open.0 == 0 || self.open > self.max_open {
            return wrong("open", "above 0 and up to max_open".to_owned());
        }
        if self.probe_within.0 == 0 {
            return wrong("probe_within", "above 0".to_owned());
        }
        Ok(())
    }
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            window: 20,
            minimum: 10,
            failure_percent: 50,
            open: Millis(1_000),
            max_open: Millis(60_000),
            probes: 2,
            probe_within: Millis(30_000),
        }
    }
}

/// The state of a circuit breaker. The default is closed, with `opens` 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Breaker {
    /// Calls are made freely.
    Closed {
        /// How many times in a row it had opened before it closed; 0 if it has never opened.
        #[serde(default)]
        opens: u32,
        /// When it closed; 0 if it has never opened. An opening twice [`BreakerSettings::max_open`] or more
        /// after this moment counts as the first again.
        #[serde(default)]
        since: Timestamp,
    },
    /// No call is made.
    Open {
        /// How many times in a row it has opened, this time included; at least 1.
        opens: u32,
        /// From this moment on a probe may be made.
        until: Timestamp,
    },
    /// Only probes are made: calls that are to show whether the service works again.
    HalfOpen {
        /// How many times in a row it has opened; 0 if a closed breaker that never opened was probed.
        opens: u32,
        /// From this moment on, probes without a result count as lost, and new ones may be made.
        until: Timestamp,
        /// Probes that were made and have no result yet; at most [`BreakerSettings::probes`].
        out: u32,
        /// Probes that have succeeded since the breaker became half-open; below
        /// [`BreakerSettings::probes`].
        good: u32,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed {
            opens: 0,
            since: Timestamp(0),
        }
    }
}

/// A breaker's answer to an instance that wants to make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerGate {
    /// The call may be made.
    Call,
    /// The call may be made as a probe, by the instance that first writes [`Breaker::probing`] to
    /// the record by compare-and-set.
    Probe,
    /// No call may be made before this moment. Then the instance is to ask again.
    Wait(Timestamp),
}

impl Breaker {
    /// The state's name as people see it: `closed`, `open` or `half-open`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half-open",
        }
    }

    /// Whether a call may be made at `now`. A half-open breaker that has [`BreakerSettings::probes`] out says
    /// to wait for [`BreakerSettings::open`], but no longer than until those probes count as lost.
    #[must_use]
    pub fn gate(&self, settings: &BreakerSettings, now: Timestamp) -> BreakerGate {
        match *self {
            Self::Closed { .. } => BreakerGate::Call,
            Self::Open { until, .. } if until.is_awaited(now, settings.max_open) => {
                BreakerGate::Wait(until)
            }
            Self::Open { .. } => BreakerGate::Probe,
            Self::HalfOpen { until, .. } if !until.is_awaited(now, settings.probe_within) => {
                BreakerGate::Probe
            }
            Self::HalfOpen { out, .. } if out < settings.probes => BreakerGate::Probe,
            Self::HalfOpen { until, .. } => BreakerGate::Wait(until.min(now.plus(settings.open))),
        }
    }

    /// The breaker after one more probe was sent at `now`. An open or closed breaker becomes half-open;
    /// probes of a half-open one that count as lost are not counted as out any more. All probes that are out
    /// count as lost [`BreakerSettings::probe_within`] after `now`.
    ///
    /// It does not check whether a probe may be sent: ask [`Breaker::gate`] first.
    #[must_use]
    pub fn probing(&self, settings: &BreakerSettings, now: Timestamp) -> Self {
        let until = now.plus(settings.probe_within);
        match *self {
            Self::Closed { opens, .. } | Self::Open { opens, .. } => Self::HalfOpen {
                opens,
                until,
                out: 1,
                good: 0,
            },
            Self::HalfOpen {
                opens,
                until: ends,
                good,
                ..
            } if !ends.is_awaited(now, settings.probe_within) => Self::HalfOpen {
                opens,
                until,
                out: 1,
                good,
            },
            Self::HalfOpen {
                opens, out, good, ..
            } => Self::HalfOpen {
                opens,
                until,
                out: out + 1,
                good,
            },
        }
    }

    /// The breaker after a probe succeeded: closed if as many as [`BreakerSettings::probes`] have
    /// succeeded, otherwise still half-open. `None`, for no change, if the breaker is closed or
    /// open.
    #[must_use]
    pub fn probe_succeeded(&self, settings: &BreakerSettings, now: Timestamp) -> Option<Self> {
        let Self::HalfOpen {
            opens,
            until,
            out,
            good,
        } = *self
        else {
            return None;
        };
        Some(if good + 1 >= settings.probes {
            Self::Closed { opens, since: now }
        } else {
            Self::HalfOpen {
                opens,
                until,
                out: out.saturating_sub(1),
                good: good + 1,
            }
        })
    }

    /// The breaker, open, after too many calls of a window failed, a probe failed, or the service asked for
    /// a wait. `None` if it stays as it is: an open breaker stays open until the same moment, unless `asked`
    /// makes that later.
    ///
    /// `asked` is the service's `Retry-After`; `None` if there was none. The breaker stays open for a random time
    /// from the upper half of its bound, so that instances and orders do not all come back at once, or for `asked` if
    /// that is longer, up to [`BreakerSettings::max_open`]. `random` is any 64 random bits.
    #[must_use]
    pub fn tripped(
        &self,
        settings: &BreakerSettings,
        asked: Option<Millis>,
        random: u64,
        now: Timestamp,
    ) -> Option<Self> {
        let opens = match *self {
            // After a long quiet period the count of openings starts again.
            Self::Closed { opens, since } if now.since(since) < calm(settings) => opens + 1,
            Self::Closed { .. } => 1,
            Self::HalfOpen { opens, .. } => opens + 1,
            Self::Open { opens, until } => {
                let wished = now.plus(asked?.min(settings.max_open));
                return (wished > until).then_some(Self::Open {
                    opens,
                    until: wished,
                });
            }
        };
        let own = timer(settings, opens, random);
        let wait = asked.map_or(own, |a| a.min(settings.max_open).max(own));
        Some(Self::Open {
            opens,
            until: now.plus(wait),
        })
    }

    /// The breaker, open for at most [`BreakerSettings::open`], after the service refused the only order that called
    /// it. `None` if the breaker is open and its time has not passed. The time does not grow with repeated openings:
    /// the service may well accept the next order.
    #[must_use]
    pub fn opened_briefly(
        &self,
        settings: &BreakerSettings,
        random: u64,
        now: Timestamp,
    ) -> Option<Self> {
        let is_standing = matches!(*self, Self::Open { until, .. } if now < until);
        (!is_standing).then(|| Self::Open {
            opens: 1,
            until: now.plus(timer(settings, 1, random)),
        })
    }

    /// The breaker after a probe whose result does not show whether the service works: another probe may be made.
    /// `None`, for no change, if the breaker is not half-open.
    #[must_use]
    pub fn probe_said_nothing(&self) -> Option<Self> {
        match *self {
            Self::HalfOpen {
                opens,
                until,
                out,
                good,
            } => Some(Self::HalfOpen {
                opens,
                until,
                out: out.saturating_sub(1),
                good,
            }),
            Self::Closed { .. } | Self::Open { .. } => None,
        }
    }

    /// The breaker after a probe failed: what [`Breaker::tripped`] gives for the same arguments, but `None`
    /// if the breaker is closed and `asked` is `None`.
    ///
    /// In that case other probes have closed the breaker since the failed one was sent: they have found that
    /// the service works, and one call that failed does not open the breaker.
    #[must_use]
    pub fn probe_failed(
        &self,
        settings: &BreakerSettings,
        asked: Option<Millis>,
        random: u64,
        now: Timestamp,
    ) -> Option<Self> {
        let is_outdated = matches!(self, Self::Closed { .. }) && asked.is_none();
        (!is_outdated)
            .then(|| self.tripped(settings, asked, random, now))
            .flatten()
    }
}

/// Time a breaker must stay closed before its next opening counts as the first again.
fn calm(settings: &BreakerSettings) -> Millis {
    Millis(settings.max_open.0.saturating_mul(2))
}

/// A random time from the upper half of a bound that doubles with each opening in a row.
#[must_use]
pub fn timer(settings: &BreakerSettings, opens: u32, random: u64) -> Millis {
    let doublings = opens.saturating_sub(1).min(32);
    let bound = settings
        .open
        .0
        .saturating_mul(1 << doublings)
        .min(settings.max_open.0);
    let half = bound / 2;
    Millis(half + random % (bound - half + 1))
}

/// Number of distinct orders the service must refuse before the refusal counts for all orders.
pub const SEVERAL: usize = 3;
/// Number of refusals of one order, with no success of any order in between, after which the breaker opens and
/// operators get an alert.
const ALONE: u32 = 3;
/// Number of refusals of one order, each after a success of another order, before the refusal counts for this order
/// alone.
const BESIDE: u32 = 2;

/// Results of the latest orders at one downstream, as this instance saw them; kept in memory only.
///
/// Each order counts once, with the result of its last call: repeated calls for one bad request must not stop the
/// other orders.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// The order whose call ended last is last; at most [`BreakerSettings::window`].
    orders: VecDeque<BreakerCase>,
    /// Orders that the service asked to wait, and until when; at most [`BreakerSettings::window`].
    asked: VecDeque<(u64, Timestamp)>,
}

#[derive(Debug, Clone, Copy)]
struct BreakerCase {
    order: u64,
    calls: u32,
    last: Last,
}

/// Result of the last call of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Answered,
    Failed,
    /// The service did not accept its caller (for example HTTP 401).
    Refused {
        /// Refusals in a row, each after a success of another order.
        beside: u32,
        /// Refusals in a row since any order last succeeded.
        alone: u32,
    },
}

/// Which orders a refusal by the service concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Not known yet: the order is deferred, and nothing has failed.
    Unknown,
    /// All orders: the service refused [`SEVERAL`] orders and accepted none since. The breaker must open.
    OfAll,
    /// Possibly all orders: no other order calls the service. The breaker must open briefly, which alerts operators.
    Alone,
    /// Only this order: the service accepts others. The attempt has failed.
    OfOne,
}

impl Window {
    /// Records an answer of the service, including one that refuses the request.
    pub fn answered(&mut self, order: &OrderId, settings: &BreakerSettings) {
        self.note(fnv(order.as_str()), Last::Answered, settings);
    }

    /// Records a call without an answer, or with an answer that reports a transient fault. True if the breaker must
    /// open: the window has at least [`BreakerSettings::minimum`] calls, and at least two of its orders and
    /// [`BreakerSettings::failure_percent`] percent of them have failed.
    pub fn failed(&mut self, order: &OrderId, settings: &BreakerSettings) -> bool {
        self.note(fnv(order.as_str()), Last::Failed, settings);
        let calls: u32 = self.orders.iter().map(|met| met.calls).sum();
        let (failed, all) = self.counts();
        calls >= settings.minimum && failed >= 2 && failed * 100 >= all * settings.failure_percent
    }

    /// Records a call whose caller the service did not accept.
    pub fn refused(&mut self, order: &OrderId, settings: &BreakerSettings) -> Refusal {
        let order = fnv(order.as_str());
        let known = self.orders.iter().position(|met| met.order == order);
        let after = known.map_or(self.orders.len(), |at| at + 1);
        let mut later = self.orders.iter().skip(after);
        let is_beside = later.any(|met| met.last == Last::Answered);
        let (beside, alone) = match known.map(|at| self.orders[at].last) {
            Some(Last::Refused { beside, .. }) if is_beside => (beside.saturating_add(1), 1),
            Some(Last::Refused { beside, alone }) => (beside, alone.saturating_add(1)),
            Some(Last::Answered | Last::Failed) | None => (0, 1),
        };
        self.note(order, Last::Refused { beside, alone }, settings);
        let newest = self.orders.iter().rev();
        let since = newest.take_while(|met| met.last != Last::Answered);
        let all = since.filter(|met| matches!(met.last, Last::Refused { beside: 0, .. }));
        if beside >= BESIDE {
            Refusal::OfOne
        } else if all.count() >= SEVERAL {
            Refusal::OfAll
        } else if alone >= ALONE {
            Refusal::Alone
        } else {
            Refusal::Unknown
        }
    }

    /// Records that the service asked one order to wait until a moment. True if it asked the same of [`SEVERAL`]
    /// orders whose time has not passed: then all orders must wait.
    pub fn asked(
        &mut self,
        order: &OrderId,
        until: Timestamp,
        settings: &BreakerSettings,
        now: Timestamp,
    ) -> bool {
        let order = fnv(order.as_str());
        self.asked
            .retain(|(other, at)| *other != order && *at > now);
        self.asked.push_back((order, until));
        while self.asked.len() > settings.window.max(1) as usize {
            self.asked.pop_front();
        }
        self.asked.len() >= SEVERAL
    }

    fn note(&mut self, order: u64, last: Last, settings: &BreakerSettings) {
        let known = self.orders.iter().position(|met| met.order == order);
        let calls = known
            .and_then(|at| self.orders.remove(at))
            .map_or(0, |met| met.calls);
        self.orders.push_back(BreakerCase {
            order,
            calls: calls.saturating_add(1),
            last,
        });
        while self.orders.len() > settings.window.max(1) as usize {
            self.orders.pop_front();
        }
    }

    /// Number of failed orders in the window, and of all orders in it, without those that were refused while others
    /// succeeded.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        let of_itself = |last| matches!(last, Last::Refused { beside: 1.., .. });
        let judged = self.orders.iter().filter(|met| !of_itself(met.last));
        judged.fold((0, 0), |(failed, all), met| {
            (failed + u32::from(met.last != Last::Answered), all + 1)
        })
    }

    /// Clears the window. The caller does this when the breaker has changed its state.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: BreakerSettings = BreakerSettings {
        window: 4,
        minimum: 4,
        failure_percent: 50,
        open: Millis(1_000),
        max_open: Millis(8_000),
        probes: 2,
        probe_within: Millis(5_000),
    };

    fn at(ms: u64) -> Timestamp {
        Timestamp(1_000_000 + ms)
    }

    fn open(opens: u32, until: u64) -> Breaker {
        Breaker::Open {
            opens,
            until: at(until),
        }
    }

    #[test]
    fn settings_have_bounds() {
        type Change = fn(&mut BreakerSettings);
        let with = |change: Change| {
            let mut settings = BreakerSettings::default();
            change(&mut settings);
            settings.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|s| (s.window, s.minimum) = (10_000, 10_000)), Ok(()));
        assert_eq!(with(|s| s.failure_percent = 100), Ok(()));
        assert_eq!(with(|s| s.probes = 10_000), Ok(()));
        assert_eq!(with(|s| s.open = s.max_open), Ok(()));
        let wrong: [(Change, &str); 11] = [
            (|s| s.window = 0, "window"),
            (|s| s.window = 10_001, "window"),
            (|s| s.minimum = 0, "minimum"),
            (|s| s.minimum = s.window + 1, "minimum"),
            (|s| s.failure_percent = 0, "failure_percent"),
            (|s| s.failure_percent = 101, "failure_percent"),
            (|s| s.probes = 0, "probes"),
            (|s| s.probes = 10_001, "probes"),
            (|s| s.open = Millis(0), "open"),
            (|s| s.open = Millis(s.max_open.0 + 1), "open"),
            (|s| s.probe_within = Millis(0), "probe_within"),
        ];
        for (change, named) in wrong {
            let why = with(change).expect_err(named);
            assert_eq!(why.setting, named);
        }
    }

    fn order(n: u32) -> OrderId {
        OrderId::new(format!("o-{n}")).expect("an id")
    }

    /// A window after failed (`f`), answered (`a`) and refused (`r`) calls of orders, and the results of its last
    /// update.
    fn after(calls: &[(u32, char)]) -> (Window, bool, Refusal) {
        let (mut window, mut opens, mut refusal) = (Window::default(), false, Refusal::Unknown);
        for (n, came) in calls {
            (opens, refusal) = (false, Refusal::Unknown);
            match came {
                'f' => opens = window.failed(&order(*n), &S),
                'r' => refusal = window.refused(&order(*n), &S),
                _ => window.answered(&order(*n), &S),
            }
        }
        (window, opens, refusal)
    }

    #[test]
    fn it_opens_at_the_share_of_orders_that_failed_and_not_before_the_minimum_of_calls() {
        let opens = |calls: &[(u32, char)]| after(calls).1;
        assert!(!opens(&[(1, 'f'), (2, 'f'), (3, 'f')]), "three calls");
        assert!(opens(&[(1, 'f'), (2, 'f'), (3, 'f'), (4, 'f')]));
        assert!(!opens(&[(1, 'a'), (2, 'a'), (3, 'a'), (4, 'f')]));
        assert!(opens(&[(1, 'a'), (2, 'a'), (3, 'f'), (4, 'f')]), "half");
        let (window, opens, _) =
            after(&[(1, 'f'), (2, 'a'), (3, 'a'), (4, 'a'), (5, 'f'), (6, 'f')]);
        assert!(opens, "two of the last four");
        assert_eq!(window.counts(), (2, 4));
    }

    #[test]
    fn an_order_counts_once_however_often_it_fails() {
        let many: Vec<_> = (0..100).map(|_| (1, 'f')).collect();
        assert!(!after(&many).1, "one order is no pattern");
        let beside: Vec<_> = [(1, 'f'), (2, 'a'), (3, 'a')].repeat(30);
        assert!(!after(&[&beside[..], &[(1, 'f')]].concat()).1);
        let (_, opens, _) = after(&[(1, 'f'), (1, 'f'), (2, 'f'), (2, 'f')]);
        assert!(opens, "four calls of two orders");
    }

    #[test]
    fn one_order_that_is_refused_while_others_succeed_is_refused_by_itself() {
        let calls = [(1, 'r'), (2, 'a'), (1, 'r'), (3, 'a'), (1, 'r')];
        assert_eq!(after(&calls[..1]).2, Refusal::Unknown);
        assert_eq!(
            after(&calls[..3]).2,
            Refusal::Unknown,
            "it may be by chance"
        );
        let (window, _, refusal) = after(&calls);
        assert_eq!(refusal, Refusal::OfOne);
        assert_eq!(window.counts(), (0, 2), "it says nothing of the service");
    }

    #[test]
    fn several_orders_that_are_refused_with_no_success_since_are_a_word_about_all() {
        let refused = [(1, 'r'), (2, 'r'), (3, 'r')];
        assert_eq!(after(&refused).2, Refusal::OfAll);
        let beside = [(1, 'r'), (2, 'r'), (9, 'a'), (3, 'r')];
        assert_eq!(after(&beside).2, Refusal::Unknown);
        // Three orders that are refused alone, with successes of others in between, do not open the breaker.
        let again = [refused, [(9, 'a'); 3], refused, [(9, 'a'); 3], refused].concat();
        assert_eq!(after(&again).2, Refusal::OfOne);
    }

    #[test]
    fn an_order_that_is_alone_with_its_refusal_is_told_of_at_the_third() {
        let alone = |n| after(&vec![(1, 'r'); n]).2;
        assert_eq!((alone(2), alone(3)), (Refusal::Unknown, Refusal::Alone));
        let standing = open(4, 500);
        assert_eq!(standing.opened_briefly(&S, 0, at(499)), None);
        assert_eq!(
            standing.opened_briefly(&S, 0, at(500)),
            Some(open(1, 1_000))
        );
    }

    #[test]
    fn a_wait_that_is_asked_of_one_order_binds_all_once_it_is_asked_of_several() {
        let mut window = Window::default();
        let mut asked = |n, until, now| window.asked(&order(n), at(until), &S, at(now));
        assert!(!asked(1, 900, 0) && !asked(1, 900, 1) && !asked(2, 500, 2));
        assert!(!asked(3, 900, 500), "the second one's time has come");
        assert!(asked(4, 900, 501));
    }

    #[test]
    fn a_probe_that_says_nothing_makes_room_for_another() {
        let half = open(1, 0).probing(&S, at(0)).probing(&S, at(0));
        assert!(matches!(half.gate(&S, at(1)), BreakerGate::Wait(_)));
        let half = half.probe_said_nothing().expect("it is half-open");
        assert_eq!(half.gate(&S, at(1)), BreakerGate::Probe);
        assert_eq!(open(1, 0).probe_said_nothing(), None);
    }

    #[test]
    fn open_makes_no_call_until_its_timer_then_one_probe() {
        let b = Breaker::default().tripped(&S, None, 0, at(0)).unwrap();
        assert_eq!(b, open(1, 500), "jitter takes at most half");
        assert_eq!(b.gate(&S, at(499)), BreakerGate::Wait(at(500)));
        assert_eq!(b.gate(&S, at(500)), BreakerGate::Probe);
    }

    #[test]
    fn an_end_that_no_right_clock_wrote_keeps_nobody_from_probing() {
        let longest = 2 * S.max_open.0;
        let (near, far) = (open(1, longest), open(1, longest + 1));
        assert_eq!(near.gate(&S, at(0)), BreakerGate::Wait(at(longest)));
        assert_eq!(far.gate(&S, at(0)), BreakerGate::Probe);
        let lost = Breaker::HalfOpen {
            opens: 1,
            until: at(86_400_000),
            out: S.probes,
            good: 0,
        };
        assert_eq!(lost.gate(&S, at(0)), BreakerGate::Probe);
        let again = lost.probing(&S, at(0));
        assert!(
            matches!(again, Breaker::HalfOpen { until, out: 1, .. } if until == at(S.probe_within.0))
        );
    }

    #[test]
    fn the_timer_doubles_to_its_bound() {
        let mut b = Breaker::default();
        let mut waits = Vec::new();
        for _ in 0..6 {
            b = b.tripped(&S, None, 500, at(0)).unwrap();
            let Breaker::Open { until, .. } = b else {
                panic!("it is open")
            };
            waits.push(until.since(at(0)).0);
            b = b.probing(&S, until);
        }
        assert_eq!(waits, [1000, 1500, 2500, 4500, 4500, 4500]);
    }

    #[test]
    fn half_open_lets_out_a_few_probes_and_closes_when_they_are_good() {
        let half = open(3, 0).probing(&S, at(0));
        assert_eq!(half.gate(&S, at(1)), BreakerGate::Probe, "a second one");
        let half = half.probing(&S, at(1));
        assert!(
            matches!(half.gate(&S, at(2)), BreakerGate::Wait(_)),
            "no third"
        );
        let half = half.probe_succeeded(&S, at(3)).unwrap();
        assert_eq!(half.name(), "half-open");
        let closed = half.probe_succeeded(&S, at(4)).unwrap();
        assert_eq!(closed.gate(&S, at(4)), BreakerGate::Call);
        assert_eq!(closed.probe_succeeded(&S, at(5)), None, "a late one");
    }

    #[test]
    fn a_bad_probe_opens_it_for_longer() {
        let half = open(1, 0).probing(&S, at(0));
        assert_eq!(half.tripped(&S, None, 0, at(10)), Some(open(2, 1_010)));
    }

    #[test]
    fn a_bad_probe_that_is_heard_of_after_the_good_ones_does_not_open_it_again() {
        let half = open(3, 0).probing(&S, at(0)).probing(&S, at(0));
        let half = half.probe_succeeded(&S, at(1)).unwrap();
        let third = half.probing(&S, at(2));
        let closed = third.probe_succeeded(&S, at(3)).unwrap();
        assert_eq!(closed.name(), "closed");
        assert_eq!(closed.probe_failed(&S, None, 0, at(4)), None);
        let asked = closed.probe_failed(&S, Some(Millis(8_000)), 0, at(4));
        assert_eq!(asked, Some(open(4, 8_004)), "it asks to be left alone");
        assert_eq!(
            half.probe_failed(&S, None, 0, at(4)),
            half.tripped(&S, None, 0, at(4)),
            "while it is half-open, a bad probe counts"
        );
    }

    #[test]
    fn probes_that_are_never_heard_of_do_not_hold_it_half_open() {
        let half = open(1, 0).probing(&S, at(0)).probing(&S, at(0));
        assert!(matches!(half.gate(&S, at(4_999)), BreakerGate::Wait(_)));
        assert_eq!(half.gate(&S, at(5_000)), BreakerGate::Probe);
        let again = half.probing(&S, at(5_000));
        assert!(matches!(again, Breaker::HalfOpen { out: 1, .. }));
    }

    #[test]
    fn what_the_service_asks_for_is_waited_up_to_the_bound() {
        let closed = Breaker::default();
        let asked = |ms| closed.tripped(&S, Some(Millis(ms)), 0, at(0)).unwrap();
        assert_eq!(asked(3_000), open(1, 3_000));
        assert_eq!(asked(3_600_000), open(1, 8_000));
        assert_eq!(asked(1), open(1, 500), "never shorter than its own time");
        let standing = open(1, 500);
        assert_eq!(standing.tripped(&S, None, 0, at(0)), None);
        assert_eq!(
            standing.tripped(&S, Some(Millis(3_000)), 0, at(0)),
            Some(open(1, 3_000))
        );
        assert_eq!(standing.tripped(&S, Some(Millis(100)), 0, at(0)), None);
    }

    #[test]
    fn after_a_calm_it_begins_anew() {
        let closed = Breaker::Closed {
            opens: 5,
            since: at(0),
        };
        let opens = |b: Option<Breaker>| match b {
            Some(Breaker::Open { opens, .. }) => opens,
            other => panic!("{other:?}"),
        };
        assert_eq!(opens(closed.tripped(&S, None, 0, at(15_999))), 6);
        assert_eq!(opens(closed.tripped(&S, None, 0, at(16_000))), 1);
    }
}
