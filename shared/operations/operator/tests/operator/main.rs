//! An operator's reads and acts, over the simulated store and bus.

mod acts;
mod audit;
mod campaigns;
mod find;
mod letters;
mod pages;
mod recent;
mod search;
mod support;
mod versions;
