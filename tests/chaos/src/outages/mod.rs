//! Outages of one part (G11): while a topic is refused, a service hangs or the store is denied, the orders that do
//! not need it end within a bound; afterwards the others end, too, and none was harmed.
//!
//! The processes are those of the run with kills ([`super::installation`]), and none is killed. The outages do not
//! overlap, so their effects are distinct. [`plan`] has the outages, the orders that each holds up, and the
//! bounds of an order's time; `follow` notes when orders end; [`run`] carries the outages out; `verdict` judges the
//! notes.

mod follow;
pub mod plan;
pub mod report;
pub mod run;
mod verdict;
