//! A mapping emulator: from Kafka to Lambda functions, with the semantics of an event source mapping, for
//! engines that have none for Kafka: LocalStack without a licence, MiniStack, tests.
//!
//! Contents: the documented event, the meaning of an answer, whole and partial retry, bisection, limits, given-up
//! records, and the HTTP front with the mappings' API so that Terraform can create them. It is not part of
//! production: there, AWS does all of this.
//!
//! | module | contents |
//! |---|---|
//! | `settings` | one mapping: batch, window, limits |
//! | `event` | the documented event of a batch |
//! | `verdict` | meaning of a function's answer |
//! | `work` | a batch until every record is done or given up; without IO |
//! | `poller` | one mapping: reads, invokes, commits on success only |
//! | `lambda` | invocation and storage over HTTP, signed |
//! | `front` | the API of mappings; forwards all other requests |

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
