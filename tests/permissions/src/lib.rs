//! Least privilege: compares the roles of the Terraform module with the requests of the functions.
//!
//! [`policy`] reads each role's permissions, as Terraform renders them. A [`world`] is the environment of one
//! handler: tables, topics, a clock. The handler's requests go through the [`gate`], which stands before the tables,
//! SNS and Secrets Manager, and through the [`checked_bus`] to the broker; both refuse what the role may not do, as
//! the service would, and record the requests in its [`rights`]. [`required`] determines the permissions that a
//! request needs. The [`runs`] cover the work of each function, and [`verdict`] compares a run with the whole policy
//! to runs without one permission.
//!
//! Architecture invariant: no code here names a role's permissions. If the module adds or drops a permission, only
//! the results of the runs change.

pub mod checked_bus;
pub mod gate;
pub mod policy;
pub mod required;
pub mod rights;
pub mod runs;
pub mod verdict;
pub mod world;
