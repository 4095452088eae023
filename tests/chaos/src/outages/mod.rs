//! Outages of one part (G11): while a topic is refused, a service hangs or the store is denied, the
//! orders that do not need it end within a bound; afterwards the others do, and none was harmed.
//!
//! The processes are those of the run with kills ([`super::installation`]), and nothing is killed:
//! each outage lasts by itself, and what it does can be told from what another does. [`plan`] says
//! which outages there are, what needs what is out and how long an order may take; `follow` notes
//! when orders end; [`run`] carries the outages out; `verdict` judges what it has noted.

mod follow;
pub mod plan;
pub mod report;
pub mod run;
mod verdict;
