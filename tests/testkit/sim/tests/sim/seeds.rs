//! Seeds that once failed, each with what was found. The simulated world has changed since, so a seed may do
//! something else now, but running it costs little.

use triad_sim::{Options, run};

/// A fault that is mended: a write timed out at the Scheduler and took effect later. In between the agent's reply was
/// redelivered, judged late and acknowledged, so nothing sent the status `completed` of that write.
const LATE: &str = "a write landed after its reply had been acknowledged as late";

/// Each seed, with what failed.
const SEEDS: [(u64, &str); 26] = [
    (
        337,
        "a Supervisor moved a row of the due index, and took the statuses of that record for sent",
    ),
    (
        242,
        "started (2) was told without received (1): Submission died after creating the order",
    ),
    (245, "as 242"),
    (
        238,
        "a later submission of an order overtook one whose definition could not be read",
    ),
    (2202, LATE),
    (7298, LATE),
    (7638, LATE),
    (7686, LATE),
    (7798, LATE),
    (8794, LATE),
    (9554, LATE),
    (
        7,
        "two steps of one order in doubt: neither could be resolved, on account of the other",
    ),
    (58, "as 7, and the stopped order expired"),
    (
        251,
        "deferred by one delivery, done by the other, and not compensated when the order was cancelled",
    ),
    (
        259,
        "an operator's word on a silent step was taken for a late reply",
    ),
    (403, "as 259"),
    (
        5943,
        "as 251, of a step without a compensation: it was said to have been refused",
    ),
    (
        12770,
        "as 251, of the point of no return: the order was cancelled past it",
    ),
    (
        30030,
        "an operator stopped a campaign that had stopped by itself, and nobody was alerted of that",
    ),
    (50162, "as 30030"),
    (
        25499,
        "work that was deferred without a call counted as a repeated call, and one order never had its turn",
    ),
    (
        179_749,
        "as many orders as are let in at first needed the service that was away, and nothing behind them was let in",
    ),
    (
        641_261,
        "a second delivery said that the effect is in doubt while the first one was about to call",
    ),
    (
        795_577,
        "an operator's word on one attempt was taken for a later one, of which it was not true",
    ),
    (
        320_559,
        "a clock was set back behind the complete-by of a request that had been found to be over",
    ),
    (
        587_159,
        "orders that an operator had set going again were counted as if Submission had let them in",
    ),
];

#[test]
fn seeds_that_once_failed_keep_every_guarantee() {
    for (seed, what) in SEEDS {
        let options = Options {
            trace: true,
            ..Options::default()
        };
        let outcome = run(seed, options);
        assert!(outcome.breaches.is_empty(), "{}\n{what}", outcome.report());
    }
}
