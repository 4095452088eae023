//! Emulates Lambda's event source mappings: passes records from Kafka to Lambda functions. It is for AWS emulators
//! that have no mappings for Kafka (LocalStack without a licence, MiniStack), and for tests.
//!
//! It covers the documented event, the meaning of an answer, whole and partial retry, bisection, limits, given-up
//! records, and the API of mappings, with which Terraform creates them. It is not used in production, where AWS does
//! all of this.
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
