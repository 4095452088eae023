//! The schedule of faults, generated from a seed before the run, so that it can be repeated.
//!
//! A fault's time is a number of ended orders, not of seconds, so that it hits work in flight on fast and on slow
//! machines.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use serde::Serialize;

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// SIGKILL of a worker, and a new one later.
    KillWorker,
    /// SIGSTOP of a worker for longer than a step's deadline, then SIGCONT: a zombie.
    FreezeWorker,
    /// SIGKILL of the broker, and its restart.
    KillBroker,
    /// SIGKILL of the store, and its restart.
    KillStore,
    /// SIGKILL of the remote service, and its restart on its ledger.
    KillService,
    /// SIGSTOP of the store for a minute; meanwhile every worker, one after the other, is stopped by SIGTERM and
    /// restarted: a rolling restart while nothing can be read or written.
    HangStore,
}

impl Kind {
    /// The default kinds.
    pub const USUAL: [Self; 5] = [
        Self::KillWorker,
        Self::FreezeWorker,
        Self::KillBroker,
        Self::KillStore,
        Self::KillService,
    ];

    /// Name of the kind in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KillWorker => "worker killed",
            Self::FreezeWorker => "worker frozen",
            Self::KillBroker => "broker killed",
            Self::KillStore => "store killed",
            Self::KillService => "service killed",
            Self::HangStore => "store frozen, and every worker restarted,",
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The number of ended orders after which the fault comes.
    pub after: usize,
    /// Kind of the fault.
    pub kind: Kind,
    /// Index of the worker, for a fault of a worker.
    pub worker: usize,
    /// How long the process is stopped or frozen.
    pub span: Duration,
}

/// Longest time for which a killed process stays stopped, in milliseconds.
const LONGEST_ABSENCE: u64 = 2_500;
/// How long a worker is frozen, in milliseconds: always beyond the complete-by of its requests, and in most cases
/// beyond its session timeout in the consumer groups.
const FREEZE: std::ops::RangeInclusive<u64> = 5_000..=11_000;
/// How long the store hangs, in milliseconds: longer than a consumer waits for its batch before it gives up its
/// partitions.
const HANG: u64 = 60_000;
/// One fault in this many is carried out at the same time as the previous one.
const PAIRED: usize = 4;

/// The faults of a run, in order. If there are enough, each of `kinds` comes at least once. All come while orders are
/// under way.
#[must_use]
pub fn plan(seed: u64, faults: usize, orders: usize, workers: usize, kinds: &[Kind]) -> Vec<Fault> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut kinds = kinds.to_vec();
    kinds.shuffle(&mut rng);
    // An installation has more workers than other processes, so faults of workers are more frequent.
    let mut others = vec![
        Kind::KillWorker,
        Kind::KillWorker,
        Kind::FreezeWorker,
        Kind::FreezeWorker,
        Kind::KillBroker,
        Kind::KillStore,
        Kind::KillService,
        Kind::HangStore,
    ];
    others.retain(|kind| kinds.contains(kind));
    let mut moments: Vec<usize> = (0..faults)
        .map(|_| rng.random_range(orders / 50..=orders * 4 / 5))
        .collect();
    moments.sort_unstable();
    for at in (PAIRED..faults).step_by(PAIRED) {
        moments[at] = moments[at - 1];
    }
    let mut fault = |(number, after)| {
        let other = *others.choose(&mut rng).unwrap_or(&Kind::KillWorker);
        let kind = kinds.get(number).copied().unwrap_or(other);
        let span = match kind {
            Kind::FreezeWorker => rng.random_range(FREEZE),
            Kind::HangStore => HANG,
            _ => rng.random_range(0..=LONGEST_ABSENCE),
        };
        Fault {
            after,
            kind,
            worker: rng.random_range(0..workers),
            span: Duration::from_millis(span),
        }
    };
    moments.into_iter().enumerate().map(&mut fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_the_same_plan_again_and_another_seed_another() {
        assert_eq!(usual(7, 40, 2_000, 3), usual(7, 40, 2_000, 3));
        assert_ne!(usual(7, 40, 2_000, 3), usual(8, 40, 2_000, 3));
    }

    #[test]
    fn a_small_run_has_every_kind_once_and_while_orders_are_under_way() {
        for seed in 0..50 {
            let planned = usual(seed, Kind::USUAL.len(), 300, 3);
            let kinds: BTreeSet<Kind> = planned.iter().map(|f| f.kind).collect();
            assert_eq!(kinds.len(), Kind::USUAL.len());
            assert!(planned.iter().all(|f| f.after < 300 && f.worker < 3));
            assert!(planned.windows(2).all(|w| w[0].after <= w[1].after));
        }
    }

    #[test]
    fn some_faults_come_together() {
        let planned = usual(1, 40, 20_000, 3);
        let together = planned.windows(2).filter(|w| w[0].after == w[1].after);
        assert!(together.count() >= 9);
    }

    #[test]
    fn one_order_and_no_faults_are_planned_too() {
        assert!(usual(1, 0, 1, 1).is_empty());
        assert_eq!(usual(1, 9, 1, 1).len(), 9);
    }

    #[test]
    fn only_the_kinds_that_were_asked_for_come() {
        let planned = plan(1, 3, 100, 3, &[Kind::HangStore]);
        assert_eq!(planned.len(), 3);
        assert!(planned.iter().all(|f| f.kind == Kind::HangStore));
    }

    fn usual(seed: u64, faults: usize, orders: usize, workers: usize) -> Vec<Fault> {
        plan(seed, faults, orders, workers, &Kind::USUAL)
    }
}
