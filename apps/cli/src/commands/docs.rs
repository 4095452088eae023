//! `triad docs`: the documentation, built into the program.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::output::{self, Usage, print_line};

/// A page: its name and the text of its file, by default in the folder `docs`.
macro_rules! page {
    ($name:literal) => {
        page!($name, concat!("docs/", $name, ".md"))
    };
    ($name:literal, $file:expr) => {
        ($name, include_str!(concat!("../../../../", $file)))
    };
}

/// All pages, by their names in the folder `docs`. Only files of the repository, so that every checkout builds.
const PAGES: &[(&str, &str)] = &[
    page!("readme", "README.md"),
    page!("docs", "docs/README.md"),
    page!("one-machine"),
    page!("tutorial/first-workflow"),
    page!("tutorial/own-service"),
    page!("tutorial/mistakes"),
    page!("tutorial/in-node"),
    page!("tutorial/drill"),
    page!("how-to/submit-orders"),
    page!("how-to/alternatives"),
    page!("how-to/order-lines"),
    page!("how-to/wait"),
    page!("how-to/describe-a-service"),
    page!("how-to/write-a-service"),
    page!("how-to/grow"),
    page!("how-to/deploy-to-aws"),
    page!("how-to/run-on-aws"),
    page!("how-to/handle-alerts"),
    page!("how-to/act-on-orders"),
    page!("how-to/replay-dead-letters"),
    page!("reference/workflow-file"),
    page!("reference/wrong-files"),
    page!("reference/orders"),
    page!("reference/service-contract"),
    page!("reference/agent-messages"),
    page!("reference/service-description"),
    page!("reference/agents"),
    page!("reference/settings"),
    page!("reference/commands"),
    page!("reference/console"),
    page!("reference/mcp"),
    page!("reference/metrics"),
    page!("reference/traces"),
    page!("reference/storage"),
    page!("reference/limits"),
    page!("reference/benchmarks"),
    page!("reference/speed"),
    page!("reference/obligations"),
    page!("reference/figures"),
    page!("reference/glossary"),
    page!("explanation/how-it-works"),
    page!("explanation/inside"),
    page!("explanation/load"),
    page!("explanation/proof"),
    page!("explanation/methods-of-proof"),
    page!("explanation/found-by-proof"),
    page!("explanation/deployed-test"),
    page!("architecture", "docs/ARCHITECTURE.md"),
    page!("contributing", "docs/CONTRIBUTING.md"),
    page!("security", "docs/SECURITY.md"),
    page!("changelog", "CHANGELOG.md"),
];
/// Most lines of one section that a search shows.
const MAX_LINES: usize = 3;

/// Read the documentation of this version, without a browser
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad docs                               which pages there are
  triad docs how-to/handle-alerts | less   one of them, as Markdown
  triad docs --find 'dead letter'          the sections that speak of it")]
pub struct DocsArgs {
    /// Name of a page, with or without its folder. Default: all are listed
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
    PAGES
        .iter()
        .map(|(name, text)| (*name, title(text)))
        .collect()
}

/// The page of this name, in Markdown, with or without its folder; `None` if there is no such page.
pub fn page(name: &str) -> Option<&'static str> {
    let is_it = |known: &str| known == name || known.rsplit('/').next() == Some(name);
    let found = PAGES.iter().find(|(known, _)| is_it(known));
    found.map(|(_, text)| *text)
}

/// A section in which a text was found.
pub struct DocsMatch {
    /// The page's name.
    pub page: &'static str,
    /// The heading above the text.
    pub heading: &'static str,
    /// The lines with the text.
    pub lines: Vec<&'static str>,
}

/// A section of a page: a heading and the text up to the next one.
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
            false => println!("{name:<28} {title}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str, json: bool) -> Result<ExitCode> {
    let Some(text) = page(name) else {
        return Err(Usage(format!("there is no page {name}: `triad docs` lists them")).into());
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

/// The sections that contain a text, in upper or lower case, in the order of the pages.
pub fn found(text: &str) -> Vec<DocsMatch> {
    let wanted = text.to_lowercase();
    let speaks = |line: &str| line.to_lowercase().contains(&wanted);
    let mut all = Vec::new();
    for &(page, text) in PAGES {
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

/// The sections of a page. A line in a code block that begins with `#` is no heading.
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

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    /// Names of the pages below the folder `docs`, without decision records.
    fn pages_of(folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder") {
            let entry = entry.expect("an entry");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() && !path.ends_with("/decisions") {
                found.extend(pages_of(&path));
            } else if path.ends_with(".md") {
                found.push(path);
            }
        }
        found
    }

    #[test]
    fn every_page_of_the_repository_is_there_under_its_path_and_has_a_title() {
        let pages = pages_of("docs");
        assert!(pages.len() > 30, "{pages:?}");
        for file in pages {
            let name = match &*file {
                "docs/README.md" => "docs",
                file => file.trim_start_matches("docs/").trim_end_matches(".md"),
            };
            let name = &*name.to_lowercase();
            let text = std::fs::read_to_string(root().join(&file)).expect("a page");
            let is_there = PAGES.contains(&(name, &*text));
            assert!(is_there, "{file} is no page of triad docs");
        }
        for (name, page) in PAGES {
            assert!(!title(page).is_empty(), "{name}");
        }
    }

    #[test]
    fn no_page_is_hidden_by_another_one_under_its_name_without_the_folder() {
        for (name, text) in PAGES {
            let short = name.rsplit('/').next().expect("a name");
            assert_eq!(page(short), Some(*text), "{name}");
        }
    }

    #[test]
    fn the_index_for_language_models_names_every_page_and_nothing_else() {
        let index = std::fs::read_to_string(root().join("docs/llms.txt")).expect("the index");
        let links = index.lines().filter_map(|line| {
            let (_, link) = line.strip_prefix("- [")?.split_once("](")?;
            Some(link.split_once(')')?.0)
        });
        let mut linked: Vec<String> = links
            .map(|link| std::fs::read_to_string(root().join("docs").join(link)).expect(link))
            .collect();
        for (name, page) in PAGES {
            let at = linked.iter().position(|text| text == page);
            linked.remove(at.unwrap_or_else(|| panic!("docs/llms.txt: no {name}")));
        }
        assert!(linked.is_empty(), "docs/llms.txt links what is no page");
    }

    #[test]
    fn a_heading_in_an_example_begins_no_section() {
        let page = "# One\ntext\n```sh\n# not one\n```\n## Two\nmore\n";
        let found = sections(page);
        let found: Vec<_> = found.iter().map(|s| (s.heading, s.lines.len())).collect();
        assert_eq!(found, [("One", 4), ("Two", 1)]);
    }
}
