//! What the repository says of itself: pages, figures, tables, the folders.

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
