//! What the repository says of itself: pages, figures, tables, the folders.

mod figures;
mod golden;
mod layout;
mod obligations;
mod operating;
mod skips;
mod wrong;
