//! The Model Context Protocol beside the operators' pages, in a build with the feature `mcp`.

use std::sync::Arc;

use triad_console::Answers;
#[cfg(feature = "mcp")]
pub use with_mcp::tools;

/// An API and its pages, with the Model Context Protocol beside them; `acts`: whether it has the tools that act.
#[cfg(feature = "mcp")]
pub fn mounted(api: Arc<dyn Answers>, acts: bool) -> Arc<dyn Answers> {
    Arc::new(triad_mcp::Mounted::new(api, tools(acts)))
}

/// Only the API and its pages.
#[cfg(not(feature = "mcp"))]
pub fn mounted(api: Arc<dyn Answers>, acts: bool) -> Arc<dyn Answers> {
    if acts {
        tracing::warn!(
            "acts at /mcp are enabled, and this program was built without MCP: build it with --features mcp"
        );
    }
    api
}

#[cfg(feature = "mcp")]
mod with_mcp {
    use std::sync::Arc;

    use triad_mcp::{DocsMatch, Mcp, Pages, Settings};
    use triad_runtime::system::{SystemClock, SystemEntropy};

    use crate::commands::docs;

    /// The pages of `triad docs`.
    struct BuiltIn;

    impl Pages for BuiltIn {
        fn list(&self) -> Vec<(&'static str, &'static str)> {
            docs::list()
        }

        fn page(&self, name: &str) -> Option<&'static str> {
            docs::page(name)
        }

        fn find(&self, text: &str) -> Vec<DocsMatch> {
            let found = docs::found(text).into_iter();
            let found = found.map(|f| DocsMatch {
                page: f.page,
                heading: f.heading,
                lines: f.lines,
            });
            found.collect()
        }
    }

    /// State shared by the tools for models; `acts`: whether there are tools that act.
    pub fn tools(acts: bool) -> Arc<Mcp<SystemClock, SystemEntropy>> {
        Mcp::new(SystemClock, SystemEntropy, Settings { acts }, BuiltIn)
    }
}
