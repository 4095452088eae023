//! A mapping emulator: from Kafka to Lambda functions, with the semantics of an event source mapping, for
//! engines that have none for Kafka: LocalStack without a licence, MiniStack, tests.
//!
//! Owns: the documented event, what an answer means, whole and partial retry, bisection, limits,
//! given-up records, and the front door that speaks the mappings' API so that Terraform can make
//! them. It is no part of production: there, AWS does all of this.
//!
//! | module | owns |
//! |---|---|
//! | `settings` | one mapping: batch, window, limits |
//! | `event` | the documented event of a batch |
//! | `verdict` | what an answer of a function means |
//! | `work` | a batch until every record is done or given up; pure |
//! | `poller` | one mapping: reads, invokes, commits on success only |
//! | `lambda` | invoking and keeping over HTTP, signed |
//! | `front` | the API of mappings, and everything else handed on |

mod event;
mod front;
mod lambda;
mod poller;
mod settings;
mod verdict;
mod work;

pub use event::{MAX_PAYLOAD, event};
pub use front::Front;
pub use lambda::{Account, Aws};
pub use poller::{Invoke, Invoked, Keep, Poller, handle};
pub use settings::Settings;
pub use verdict::{Verdict, verdict};
pub use work::{GivenUp, Resolved, Why, Work};
