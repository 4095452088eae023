//! `triad docs`: the documentation, which is part of the program.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::output::{self, Usage, print_line};

/// Each page, by its name: what is in the repository, and nothing that a checkout must have.
const PAGES: [(&str, &str); 18] = [
    ("readme", include_str!("../../../README.md")),
    (
        "first-workflow",
        include_str!("../../../docs/FIRST_WORKFLOW.md"),
    ),
    ("operating", include_str!("../../../docs/OPERATING.md")),
    ("reference", include_str!("../../../docs/REFERENCE.md")),
    ("console", include_str!("../../../docs/CONSOLE.md")),
    ("mcp", include_str!("../../../docs/MCP.md")),
    ("runbook", include_str!("../../../docs/RUNBOOK.md")),
    ("drill", include_str!("../../../docs/DRILL.md")),
    ("wrong", include_str!("../../../docs/WRONG.md")),
    ("metrics", include_str!("../../../docs/METRICS.md")),
    ("traces", include_str!("../../../docs/TRACES.md")),
    ("growing", include_str!("../../../docs/GROWING.md")),
    ("benchmarks", include_str!("../../../docs/BENCHMARKS.md")),
    ("proof", include_str!("../../../docs/PROOF.md")),
    ("deployed", include_str!("../../../docs/DEPLOYED.md")),
    ("architecture", include_str!("../../../ARCHITECTURE.md")),
    ("contributing", include_str!("../../../CONTRIBUTING.md")),
    ("security", include_str!("../../../SECURITY.md")),
];
/// Most lines of one section that are shown as found.
const MAX_LINES: usize = 3;

/// Read the documentation of this version, without a browser
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad docs                       which pages there are
  triad docs operating | less      one of them, as Markdown
  triad docs --find 'dead letter'  the sections that speak of it")]
pub struct DocsArgs {
    /// Name of a page. Default: all are listed
    #[arg(value_name = "PAGE", conflicts_with = "find")]
    page: Option<String>,
    /// Show the sections with this text, in small or large letters
    #[arg(long, value_name = "TEXT")]
    find: Option<String>,
    /// Most sections that are shown; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20, requires = "find")]
    limit: usize,
    /// Print a JSON line for each page or section
    #[arg(long)]
    json: bool,
}

/// Name and title of each page.
pub fn list() -> Vec<(&'static str, &'static str)> {
    PAGES.map(|(name, text)| (name, title(text))).to_vec()
}

/// The page of this name, in Markdown; `None` if there is no such page.
pub fn page(name: &str) -> Option<&'static str> {
    let found = PAGES.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| text)
}

/// A part of a page in which a text was found.
pub struct DocsMatch {
    /// The page's name.
    pub page: &'static str,
    /// The heading above the text.
    pub heading: &'static str,
    /// The lines that hold the text.
    pub lines: Vec<&'static str>,
}

/// A part of a page: what stands under a heading, up to the next one.
struct Section<'a> {
    heading: &'a str,
    lines: Vec<&'a str>,
}

/// Runs `triad docs`. The exit code is 1 if nothing is found.
///
/// # Errors
/// [`Usage`] if there is no such page.
pub fn run(args: &DocsArgs) -> Result<ExitCode> {
    if let Some(text) = &args.find {
        return find(text, output::limit(args.limit), args.json);
    }
    match &args.page {
        Some(name) => show(name, args.json),
        None => show_all(args.json),
    }
}

fn show_all(json: bool) -> Result<ExitCode> {
    for (name, title) in list() {
        match json {
            true => print_line(&json!({"kind": "page", "name": name, "title": title}))?,
            false => println!("{name:<15} {title}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str, json: bool) -> Result<ExitCode> {
    let Some(text) = page(name) else {
        let names = PAGES.map(|(name, _)| name).join(", ");
        return Err(Usage(format!("there is no page {name}; there are {names}")).into());
    };
    match json {
        true => {
            print_line(&json!({"kind": "page", "name": name, "title": title(text), "text": text}))?
        }
        false => println!("{}", text.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn find(text: &str, limit: usize, json: bool) -> Result<ExitCode> {
    let all = found(text);
    for DocsMatch {
        page,
        heading,
        lines,
    } in all.iter().take(limit)
    {
        if json {
            print_line(
                &json!({"kind": "section", "page": page, "heading": heading, "lines": lines}),
            )?;
            continue;
        }
        println!("{page}: {heading}");
        for line in lines {
            println!("    {}", line.trim());
        }
    }
    if !json && all.is_empty() {
        println!("no page speaks of {text:?}");
    } else if !json && all.len() > limit {
        println!("… and {} sections more", all.len() - limit);
    }
    Ok(ExitCode::from(u8::from(all.is_empty())))
}

/// The sections that speak of a text, in small or large letters; in the order of the pages.
pub fn found(text: &str) -> Vec<DocsMatch> {
    let wanted = text.to_lowercase();
    let speaks = |line: &str| line.to_lowercase().contains(&wanted);
    let mut all = Vec::new();
    for (page, text) in PAGES {
        for section in sections(text) {
            let lines = section.lines.into_iter().filter(|line| speaks(line));
            let lines: Vec<&str> = lines.take(MAX_LINES).collect();
            if !lines.is_empty() || speaks(section.heading) {
                let heading = section.heading;
                all.push(DocsMatch {
                    page,
                    heading,
                    lines,
                });
            }
        }
    }
    all
}

/// The first heading of a page.
fn title(page: &str) -> &str {
    let first = page.lines().find_map(|line| line.strip_prefix("# "));
    first.unwrap_or_default()
}

/// The parts of a page. A line of an example that begins with `#` is no heading.
fn sections(page: &str) -> Vec<Section<'_>> {
    let (mut all, mut is_example) = (Vec::<Section<'_>>::new(), false);
    for line in page.lines() {
        is_example ^= line.starts_with("```");
        let heading = line.trim_start_matches('#').strip_prefix(' ');
        match (heading, all.last_mut()) {
            (Some(heading), _) if !is_example && line.starts_with('#') => all.push(Section {
                heading,
                lines: Vec::new(),
            }),
            (_, Some(section)) => section.lines.push(line),
            (_, None) => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_page_of_the_repository_is_there_and_has_a_title() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = std::fs::read_dir(root.join("docs")).expect("the folder");
        for page in pages {
            let path = page.expect("an entry").path();
            if path.extension().is_none_or(|kind| kind != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a page");
            let is_there = PAGES.iter().any(|(_, page)| *page == text);
            assert!(is_there, "{} is no page of triad docs", path.display());
        }
        for (name, page) in PAGES {
            assert!(!title(page).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_index_for_language_models_names_every_page_and_nothing_else() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let index = std::fs::read_to_string(root.join("llms.txt")).expect("the index");
        let links = index.lines().filter_map(|line| {
            let (_, link) = line.strip_prefix("- [")?.split_once("](")?;
            Some(link.split_once(')')?.0)
        });
        let mut linked: Vec<String> = links
            .map(|link| std::fs::read_to_string(root.join(link)).expect(link))
            .collect();
        for (name, page) in PAGES {
            let at = linked.iter().position(|text| text == page);
            linked.remove(at.unwrap_or_else(|| panic!("llms.txt: no {name}")));
        }
        assert!(linked.is_empty(), "llms.txt links what is no page");
    }

    #[test]
    fn a_heading_in_an_example_begins_no_section() {
        let page = "# One\ntext\n```sh\n# not one\n```\n## Two\nmore\n";
        let found = sections(page);
        let found: Vec<_> = found.iter().map(|s| (s.heading, s.lines.len())).collect();
        assert_eq!(found, [("One", 4), ("Two", 1)]);
    }
}
