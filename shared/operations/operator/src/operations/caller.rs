//! Who asks for an operation, and what they may do.

/// What a caller may do. The roles are ordered: `Operate` includes `Read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The caller may neither look nor act here; it may submit orders.
    Submit,
    /// The caller may look at everything, and not act.
    Read,
    /// The caller may look at everything, and act.
    Operate,
}

/// Who asks, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The name that is written beside the caller's acts. `None` if it is not known: each act must then come with a
    /// name.
    pub name: Option<String>,
    /// What the caller may do.
    pub role: Role,
}
