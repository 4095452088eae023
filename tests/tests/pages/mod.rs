//! Checks of the repository's pages, figures, tables and folders.

mod figures;
mod golden;
mod layout;
mod obligations;
mod operating;
mod proof;
mod readme;
mod skips;
mod tree;
mod words;
mod wrong;
