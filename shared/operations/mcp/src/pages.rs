//! The documentation, provided by the program.

/// A section in which a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocsMatch {
    /// The page's name.
    pub page: &'static str,
    /// The heading above the text.
    pub heading: &'static str,
    /// The lines with the text.
    pub lines: Vec<&'static str>,
}

/// The pages of the documentation.
pub trait Pages: Send + Sync + 'static {
    /// Name and title of each page. Empty if there are no pages.
    fn list(&self) -> Vec<(&'static str, &'static str)>;

    /// The page of this name, in Markdown; `None` if there is no such page.
    fn page(&self, name: &str) -> Option<&'static str>;

    /// The sections that contain a text, in upper or lower case, in the order of the pages. Empty if there are none.
    fn find(&self, text: &str) -> Vec<DocsMatch>;
}

/// No pages, for a program that does not contain the documentation.
#[derive(Debug, Clone, Copy)]
pub struct NoPages;

impl Pages for NoPages {
    fn list(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn page(&self, _name: &str) -> Option<&'static str> {
        None
    }

    fn find(&self, _text: &str) -> Vec<DocsMatch> {
        Vec::new()
    }
}
