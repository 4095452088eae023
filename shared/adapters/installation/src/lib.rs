//! An installation in AWS as a whole: examines every part of it, and sets up what the Terraform provider cannot say.
//!
//! The function `setup` runs this inside the VPC; `triad doctor` runs the examination where it is started.

mod account;
mod doctor;
mod finding;
mod functions;
mod parts;

pub use account::account_number;
pub use doctor::{examine, examine_by_function};
pub use finding::{Finding, State, is_fine};
pub use functions::{MappingPollers, SetupError, allow_console, set_pollers};
pub use triad_aws::SdkConfig;

pub use parts::{Parts, Schedule, TopicPart};
