//! Checks that every command line in `--help`, README and docs is valid.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, CommandFactory};

use crate::Cli;

/// Options that name the installation: variables, a context or a data directory may give them.
const GIVEN_ELSEWHERE: [&str; 5] = ["brokers", "dynamodb", "aws", "region", "data"];

fn command() -> clap::Command {
    fn relaxed(command: clap::Command) -> clap::Command {
        let command = command.mut_args(|arg| {
            let arg = arg.env(clap::builder::Resettable::Reset);
            match GIVEN_ELSEWHERE.contains(&arg.get_id().as_str()) {
                true => arg.required(false),
                false => arg,
            }
        });
        command.mut_subcommands(relaxed)
    }
    relaxed(Cli::command())
}

/// The words of a shown command line from `triad` on, up to a pipe, a redirection, the next command or a comment;
/// `None` for any other line.
fn split_words(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ");
    // In a list of examples, an explanation follows after some blanks.
    let line = line.split("  ").next()?;
    let words = shlex::split(line)?;
    let words = words
        .into_iter()
        .skip_while(|word| word.contains('=') && !word.starts_with('-'));
    let ends = |word: &String| {
        matches!(
            word.as_str(),
            "|" | ">" | ">>" | "2>&1" | "<" | "&&" | "&" | ";" | "#"
        )
    };
    let words: Vec<String> = words.take_while(|word| !ends(word)).collect();
    (words.first().is_some_and(|word| word == "triad") && words.len() > 1).then_some(words)
}

fn parsed(words: &[String]) -> Result<ArgMatches, clap::Error> {
    command().try_get_matches_from(words)
}

/// The error of a shown command line, in one line.
fn wrong(words: &[String]) -> Option<String> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    let error = parsed(words).err()?;
    let is_shown = matches!(error.kind(), DisplayHelp | DisplayVersion);
    let first = error
        .to_string()
        .lines()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ");
    (!is_shown).then(|| format!("{}: {first}", words.join(" ")))
}

#[test]
fn every_example_of_help_is_taken() {
    fn examples(command: &clap::Command, found: &mut Vec<Vec<String>>) {
        let text = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        found.extend(text.replace("\\\n", " ").lines().filter_map(split_words));
        for deeper in command.get_subcommands() {
            examples(deeper, found);
        }
    }
    let mut found = Vec::new();
    examples(&Cli::command(), &mut found);
    assert!(found.len() > 60, "only {}", found.len());
    let wrong: Vec<String> = found.iter().filter_map(|words| wrong(words)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [
        "docs",
        "docs/tutorial",
        "docs/how-to",
        "docs/reference",
        "docs/explanation",
    ];
    let files = folders.iter().flat_map(|folder| {
        let files = std::fs::read_dir(root.join(folder)).expect("the pages");
        files.map(|entry| entry.expect("an entry").path())
    });
    let pages = files.filter(|path| path.extension().is_some_and(|e| e == "md"));
    pages.chain([root.join("README.md")]).collect()
}

#[test]
fn every_command_line_of_the_pages_is_taken() {
    let mut found = 0;
    let mut all = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page)
            .expect("a page")
            .replace("\\\n", " ");
        let mut shell = false;
        for line in text.lines() {
            if let Some(kind) = line.trim_start().strip_prefix("```") {
                let kind = kind.split_whitespace().next();
                shell = !shell && matches!(kind, Some("sh" | "console" | "bash"));
                continue;
            }
            let lines: Vec<&str> = match shell {
                true => vec![line],
                // In running text, only code with an option is a whole command line.
                false => line
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .filter(|code| code.contains(" --"))
                    .collect(),
            };
            for words in lines.into_iter().filter_map(split_words) {
                found += 1;
                let name = page.file_name().expect("a name").to_string_lossy();
                all.extend(wrong(&words).map(|why| format!("{name}: {why}")));
            }
        }
    }
    assert!(found > 100, "only {found}");
    assert!(all.is_empty(), "{}", all.join("\n"));
}
