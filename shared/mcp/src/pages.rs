//! The documentation, as whoever runs this has it.

/// A place that speaks of what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The page's name.
    pub page: &'static str,
    /// The heading that it stands under.
    pub heading: &'static str,
    /// Lines with the text.
    pub lines: Vec<&'static str>,
}

/// The pages of the documentation.
pub trait Pages: Send + Sync + 'static {
    /// Name and title of each.
    fn list(&self) -> Vec<(&'static str, &'static str)>;

    /// One page, in Markdown; `None`: there is none of this name.
    fn page(&self, name: &str) -> Option<&'static str>;

    /// The places that speak of a text, in small or large letters, in the order of the pages.
    fn find(&self, text: &str) -> Vec<Found>;
}

/// No page at all: a program that has the documentation nowhere in it.
#[derive(Debug, Clone, Copy)]
pub struct NoPages;

impl Pages for NoPages {
    fn list(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn page(&self, _name: &str) -> Option<&'static str> {
        None
    }

    fn find(&self, _text: &str) -> Vec<Found> {
        Vec::new()
    }
}
