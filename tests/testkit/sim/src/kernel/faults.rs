//! The fault rates of a world: chosen once by its seed, and zero after the faults have stopped.

use serde::{Deserialize, Serialize};

use super::Rng;

/// Rates of faults, in thousandths.
///
/// Each seed sets some to zero and others high, so that the seeds together reach combinations that evenly distributed
/// rates would not.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Faults {
    /// A call to a store fails before its effect.
    pub throttle: u32,
    /// A write conflicts with a transaction of another writer and is cancelled.
    pub transaction: u32,
    /// A write takes effect and its answer is lost.
    pub lost_write: u32,
    /// As for `lost_write`, but the client then retries the same write.
    pub retried_write: u32,
    /// A write fails for the caller but takes effect later.
    pub late_write: u32,
    /// A row of the due index is left out of an answer.
    pub index_miss: u32,
    /// A page of the due index is empty although another follows.
    pub empty_page: u32,
    /// Longest lag of the due index behind the records, in milliseconds.
    pub index_lag_ms: u64,
    /// An eventually consistent read returns the previous version.
    pub stale_read: u32,
    /// A send fails before its effect.
    pub publish_fail: u32,
    /// A send takes effect and is not acknowledged.
    pub publish_lost: u32,
    /// A send is not acknowledged and takes effect later.
    pub publish_late: u32,
    /// A message is stored twice.
    pub duplicate: u32,
    /// An offset commit is lost.
    pub lost_offset: u32,
    /// A call of a port takes seconds.
    pub stall: u32,
    /// The process dies before or after the effect of a call of a port.
    pub die: u32,
    /// A call to a remote service fails before its effect.
    pub remote_fail: u32,
    /// A call takes effect and its answer is lost.
    pub remote_lost: u32,
    /// A call gets an unreadable answer.
    pub remote_garbage: u32,
    /// A call arrives long after it was made.
    pub remote_late: u32,
    /// A call never reaches the service.
    pub remote_connect: u32,
    /// In each round, fault injection kills an instance with this probability in thousandths.
    pub kill: u32,
    /// In each round, fault injection freezes an instance for minutes with this probability in thousandths.
    pub freeze: u32,
    /// In each round, fault injection changes a clock with this probability in thousandths.
    pub jump: u32,
    /// In each round, fault injection moves a partition with this probability in thousandths.
    pub rebalance: u32,
    /// In each round, fault injection makes a topic or a service unavailable with this probability in thousandths.
    pub outage: u32,
    /// A call of a port is never answered; its caller continues after the adapter's timeout.
    pub hang: u32,
    /// A call to a remote service is never answered; its caller continues after its own timeout.
    pub remote_hang: u32,
    /// A publish makes its process lose the producer.
    pub producer: u32,
    /// In each round, fault injection makes a topic refuse Triad's writes with this probability in thousandths.
    pub refuse: u32,
    /// A reply has no send time, like that of an agent of an earlier version. This rate stays when the faults stop.
    pub earlier: u32,
    /// Fraction of the keys of actions that services refuse for good, in thousandths. This rate stays when the faults
    /// stop.
    pub decline: u32,
    /// Fraction of the keys of compensations that services refuse for good, in thousandths.
    pub decline_compensation: u32,
    /// A service answers a repeated call under a key, the first call of which it is working on, with a conflict.
    pub remote_in_progress: u32,
    /// A service does the work and answers in another shape than the workflow expects.
    pub remote_shape: u32,
    /// The store of one machine writes a record without the messages that it could store with it.
    pub unstored: u32,
    /// The end of a child order never reaches its parent, like a message that was kept too short a time.
    pub lost_end: u32,
    /// Whether services refuse steps instead of keys, so that an attempt with another key is refused again.
    pub decline_again: bool,
}

impl Faults {
    /// The fault rates that a seed chooses.
    pub(crate) fn drawn(rng: &mut Rng) -> Self {
        let mut level = |high: u32| match rng.below(4) {
            0 | 1 => 0,
            2 => high / 6,
            _ => high,
        };
        Self {
            throttle: level(120),
            transaction: level(60),
            lost_write: level(60),
            retried_write: level(60),
            late_write: level(40),
            index_miss: level(300),
            empty_page: level(200),
            index_lag_ms: u64::from(level(4_000)),
            publish_fail: level(120),
            publish_lost: level(60),
            publish_late: level(40),
            duplicate: level(100),
            lost_offset: level(200),
            stall: level(60),
            die: level(25),
            remote_fail: level(300),
            remote_lost: level(150),
            remote_garbage: level(60),
            remote_late: level(100),
            remote_connect: level(150),
            kill: level(200),
            freeze: level(60),
            jump: level(100),
            rebalance: level(300),
            outage: level(80),
            decline: level(120),
            decline_compensation: level(250),
            stale_read: level(300),
            hang: level(24),
            remote_hang: level(60),
            producer: level(18),
            refuse: level(60),
            earlier: level(500),
            decline_again: rng.chance(500),
            // Drawn last, so that a seed has the same other rates as before.
            remote_in_progress: 0,
            remote_shape: 0,
            unstored: 0,
            lost_end: 0,
        }
        .with_answers(rng)
    }

    fn with_answers(self, rng: &mut Rng) -> Self {
        let mut level = |high: u32| match rng.below(4) {
            0 | 1 => 0,
            2 => high / 6,
            _ => high,
        };
        Self {
            remote_in_progress: level(600),
            remote_shape: level(40),
            lost_end: level(300),
            ..self
        }
    }

    /// Whether instances read the control store correctly, apart from their refresh time: no read of it fails or
    /// hangs.
    pub(crate) fn control_is_clear(&self) -> bool {
        self.throttle + self.stall + self.hang + self.freeze + self.jump + self.late_write == 0
    }

    /// Whether the due index agrees with the records.
    pub(crate) fn index_is_true(&self) -> bool {
        self.index_miss == 0 && self.empty_page == 0 && self.index_lag_ms == 0
    }

    /// The fault rates for one machine, whose store does not lag.
    pub(crate) fn on_one_machine(self, rng: &mut Rng) -> Self {
        Self {
            unstored: *rng.pick(&[0, 0, 40, 250]),
            index_miss: 0,
            empty_page: 0,
            index_lag_ms: 0,
            stale_read: 0,
            ..self
        }
    }

    /// The rates after the faults have stopped: refusals do not count as faults, and agents keep their version.
    pub(crate) fn calm(self) -> Self {
        Self {
            earlier: self.earlier,
            decline: self.decline,
            decline_compensation: self.decline_compensation,
            decline_again: self.decline_again,
            ..Self::default()
        }
    }
}
