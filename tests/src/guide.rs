//! Follows a page of the documentation word for word: runs its commands, makes its changes to files, and compares the
//! output that it shows.
//!
//! The first line of a fenced block gives its kind:
//!
//! | block | |
//! |---|---|
//! | `console` | commands behind `$ `, each with its output, in one shell |
//! | `console first` | the same for the one long-running program, in its own terminal: `$ ` starts it, `^C` interrupts it, and other lines are its new output on standard output |
//! | `diff` | a change of files: the lines without `+` must be there once, and are replaced by the lines without `-`; behind `--- /dev/null`, a new file |
//! | `yaml FILE` and the like | a part of a file, as it is at that point |
//! | with the word `unrun` | only shown |
//!
//! When output is compared, times, durations, addresses and hashes may differ, lines about several orders and
//! services may come in any order, and `…` stands for any lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::process::Command;

use crate::guide_text::{Block, Kind, blocks, differences, matches};
use crate::process::Process;

/// Longest wait for the output of a block.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two checks of the output.
const LOOK: Duration = Duration::from_millis(100);
/// Time without output after which output counts as complete, when a page is rewritten.
const QUIET: Duration = Duration::from_secs(7);

/// Follows a page.
pub struct Reader {
    /// The working directory.
    dir: PathBuf,
    /// File that keeps the shell's directory and variables between two commands.
    state: PathBuf,
    /// The long-running program, and the number of its lines that have been compared.
    first: Option<(Process, usize)>,
    /// Lines that the page has shown; they may be printed again later.
    said: Vec<String>,
    /// Whether the page is being rewritten, so that no particular output is expected.
    rewriting: bool,
    differences: Vec<String>,
}

/// The result of following a page.
pub struct Followed {
    /// The page, with the actual output wherever it differs.
    pub page: String,
    /// The differences, as text; empty if there are none.
    pub differences: Vec<String>,
    /// Number of commands run.
    pub commands: usize,
    /// Number of files changed.
    pub changes: usize,
}

/// Follows a page in an empty directory, with this build's binaries first in the `PATH`.
///
/// # Panics
/// If the page cannot be parsed, or a program cannot be started.
pub async fn follow(page: &str, dir: &Path, rewriting: bool) -> Followed {
    let state = dir.join(".guide");
    fs::create_dir_all(&state).expect("the directory can be written");
    let work = dir.join("work");
    fs::create_dir_all(&work).expect("the directory can be written");
    fs::write(state.join("cwd"), work.display().to_string()).expect("it can be written");
    let bins = crate::process::binary("triad");
    let bins = bins.parent().expect("it is in a directory").display();
    let env = format!(
        "export PATH={bins}:$PATH USER=ada COLUMNS=100 XDG_CONFIG_HOME={}\n",
        dir.display()
    );
    fs::write(state.join("env"), env).expect("it can be written");
    let mut reader = Reader {
        dir: dir.to_path_buf(),
        state,
        first: None,
        said: Vec::new(),
        rewriting,
        differences: Vec::new(),
    };
    let (mut written, mut commands, mut changes) = (String::new(), 0, 0);
    for part in blocks(page) {
        match part {
            Block::Prose(text) => written.push_str(&text),
            Block::Fenced { head, kind, lines } => {
                let lines = match kind {
                    Kind::Unrun => lines,
                    Kind::Console => reader.console(&lines, &mut commands).await,
                    Kind::First => reader.first(&lines, &mut commands).await,
                    Kind::Diff => {
                        changes += 1;
                        reader.change(&lines);
                        lines
                    }
                    Kind::File(name) => {
                        reader.shown(&name, &lines);
                        lines
                    }
                };
                written.push_str(&format!("{head}\n{}\n```\n", lines.join("\n")));
            }
        }
    }
    Followed {
        page: written,
        differences: reader.differences,
        commands,
        changes,
    }
}

/// The commands, each with its expected output.
fn turns(lines: &[String]) -> Vec<(Option<String>, Vec<String>)> {
    let mut turns: Vec<(Option<String>, Vec<String>)> = Vec::new();
    if lines.is_empty() {
        // On a newly written page, the output is still missing.
        turns.push((None, Vec::new()));
    }
    let mut continued = false;
    for line in lines {
        if continued {
            let (command, _) = turns.last_mut().expect("it continues one");
            let command = command.as_mut().expect("it continues a command");
            command.push('\n');
            command.push_str(line);
            continued = line.ends_with('\\');
            continue;
        }
        let command = match line.strip_prefix("$ ") {
            None if line == "^C" => Some("^C".to_owned()),
            command => command.map(str::to_owned),
        };
        match (command, turns.last_mut()) {
            (Some(command), _) => {
                continued = command.ends_with('\\');
                turns.push((Some(command), Vec::new()));
            }
            (None, Some((_, printed))) => printed.push(line.clone()),
            (None, None) => turns.push((None, vec![line.clone()])),
        }
    }
    turns
}

impl Reader {
    fn cwd(&self) -> PathBuf {
        let cwd = fs::read_to_string(self.state.join("cwd")).expect("the shell has written it");
        PathBuf::from(cwd.trim_end())
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("bash");
        shell
            .args(["-c", "state=$1; . \"$state/env\"; cd \"$(cat \"$state/cwd\")\" || exit 99; set -a; eval \"$2\"; code=$?; pwd > \"$state/cwd\"; export -p > \"$state/env\"; exit $code", "guide"])
            .arg(&self.state)
            .arg(command)
            .stdin(std::process::Stdio::null());
        shell
    }

    async fn run(&self, command: &str) -> Vec<String> {
        let mut shell = self.shell(&format!("exec 2>&1\n{command}"));
        let ran = tokio::time::timeout(PATIENCE * 2, shell.kill_on_drop(true).output()).await;
        let ran = ran
            .unwrap_or_else(|_| panic!("{command} does not end"))
            .expect("bash runs");
        let text = String::from_utf8_lossy(&ran.stdout);
        // The directory is removed from output, because the page must not contain paths of this machine.
        let text = text.replace(&self.dir.display().to_string(), "");
        text.lines().map(|l| l.trim_end().to_owned()).collect()
    }

    async fn console(&mut self, lines: &[String], commands: &mut usize) -> Vec<String> {
        let mut shown = Vec::new();
        for (command, expected) in turns(lines) {
            let command = command.expect("a block begins with a command");
            *commands += 1;
            // Commands that only read may be repeated until their output is as expected; acts must not.
            let looks = [
                "triad get",
                "triad list",
                "triad downstreams",
                "triad status",
                "cat ",
                "ls ",
                "triad dead-letters list",
            ];
            let looks = looks.iter().any(|look| command.starts_with(look));
            if self.rewriting && looks {
                tokio::time::sleep(QUIET).await;
            }
            let began = Instant::now();
            let mut printed = self.run(&command).await;
            while looks
                && !self.rewriting
                && !matches(&expected, &printed)
                && began.elapsed() < PATIENCE
            {
                tokio::time::sleep(LOOK).await;
                printed = self.run(&command).await;
            }
            shown.extend(command.lines().enumerate().map(|(at, line)| match at {
                0 => format!("$ {line}"),
                _ => line.to_owned(),
            }));
            shown.extend(self.held(&command, expected, printed));
        }
        shown
    }

    async fn first(&mut self, lines: &[String], commands: &mut usize) -> Vec<String> {
        let mut shown = Vec::new();
        for (command, expected) in turns(lines) {
            match command.as_deref() {
                Some("^C") => {
                    *commands += 1;
                    shown.push("^C".to_owned());
                    let (mut process, at) = self.first.take().expect("it runs");
                    process.interrupt();
                    process.ended().await;
                    let printed = self.since(&process, at);
                    shown.extend(self.held("^C", expected, printed));
                    self.said.clear();
                    continue;
                }
                Some(command) => {
                    *commands += 1;
                    shown.push(format!("$ {command}"));
                    assert!(self.first.is_none(), "{command}: the other one still runs");
                    let shell = self.shell(&format!("exec {command}"));
                    self.first = Some((Process::start(shell), 0));
                }
                None => {}
            }
            let printed = self.printed(&expected).await;
            self.said.extend(printed.iter().cloned());
            shown.extend(self.held("the first terminal", expected, printed));
        }
        shown
    }

    /// The new output of the long-running program, as soon as it is as expected or no more comes.
    async fn printed(&mut self, expected: &[String]) -> Vec<String> {
        let (began, mut last) = (Instant::now(), (Instant::now(), 0));
        loop {
            let (process, at) = self.first.as_ref().expect("it runs");
            let printed = self.since(process, *at);
            let count = process.out().len();
            if count != last.1 {
                last = (Instant::now(), count);
            }
            let quiet = last.0.elapsed() > QUIET && !printed.is_empty();
            let over = began.elapsed() > PATIENCE;
            let is_there = !self.rewriting && matches(expected, &printed);
            if is_there || over || (self.rewriting && quiet) {
                if let Some((_, at)) = &mut self.first {
                    *at = count;
                }
                return printed;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The new lines, without repetitions of lines that were expected before.
    fn since(&self, process: &Process, at: usize) -> Vec<String> {
        let dir = self.dir.display().to_string();
        let lines = process.out().into_iter().skip(at);
        let lines = lines.map(|line| line.replace(&dir, "").trim_end().to_owned());
        let again = |line: &String| line.contains(" | ") || line.contains("retrying");
        lines
            .filter(|line| !(again(line) && self.said.contains(line)))
            .collect()
    }

    /// The output for the page: the page's own text if it still matches, otherwise the actual output.
    fn held(&mut self, of: &str, expected: Vec<String>, printed: Vec<String>) -> Vec<String> {
        if matches(&expected, &printed) {
            return expected;
        }
        self.differences
            .push(format!("{of}\n{}", differences(&expected, &printed)));
        printed
    }

    /// Applies a change to files.
    fn change(&mut self, lines: &[String]) {
        let mut file = None;
        let mut is_new = false;
        let mut hunks: Vec<(String, String)> = Vec::new();
        for line in lines {
            if let Some(before) = line.strip_prefix("--- ") {
                is_new = before.trim() == "/dev/null";
                continue;
            }
            if let Some(name) = line.strip_prefix("+++ ") {
                file = Some(self.cwd().join(name.trim()));
                continue;
            }
            if line.starts_with("@@") || hunks.is_empty() {
                hunks.push(Default::default());
                if line.starts_with("@@") {
                    continue;
                }
            }
            let (old, new) = hunks.last_mut().expect("there is one");
            let (sign, text) = line.split_at(line.len().min(1));
            if sign != "+" {
                old.push_str(text);
                old.push('\n');
            }
            if sign != "-" {
                new.push_str(text);
                new.push('\n');
            }
        }
        let file = file.expect("a change names its file behind +++");
        if is_new {
            let [(old, new)] = &hunks[..] else {
                panic!("{}: a new file has one part", file.display())
            };
            assert!(old.is_empty() && !file.exists(), "{}", file.display());
            fs::write(&file, new).expect("the file can be written");
            return;
        }
        let mut text = fs::read_to_string(&file)
            .unwrap_or_else(|e| panic!("{} of a change: {e}", file.display()));
        for (old, new) in hunks {
            let times = text.matches(&old).count();
            assert_eq!(
                times,
                1,
                "{}: this is there {times} times:\n{old}",
                file.display()
            );
            text = text.replacen(&old, &new, 1);
        }
        fs::write(&file, text).expect("the file can be written");
    }

    /// Compares the part of a file that the page shows with the file.
    fn shown(&mut self, name: &str, lines: &[String]) {
        let file = self.cwd().join(name);
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let part = format!("{}\n", lines.join("\n"));
        if !text.contains(&part) {
            self.differences
                .push(format!("{name} does not contain\n{part}"));
        }
    }
}
