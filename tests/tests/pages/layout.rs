//! Dependencies follow the folders: deployed code links no code that only one machine, development or tests need.
//! Modules of a crate have no cyclic dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// For each folder, the folders whose crates it may link.
const MAY_LINK: [(&str, &[&str]); 10] = [
    // Linked into every deployment. The kernel depends neither on adapters nor on operators' code.
    ("shared/kernel", &["shared/kernel"]),
    ("shared/operations", &["shared/kernel", "shared/operations"]),
    ("shared/adapters", &["shared/kernel", "shared/adapters"]),
    (
        "shared/bootstrap",
        &["shared/kernel", "shared/operations", "shared/adapters"],
    ),
    // The engines of an installation on one machine.
    (
        "shared/engines",
        &[
            "shared/kernel",
            "shared/operations",
            "shared/adapters",
            "shared/engines",
        ],
    ),
    ("functions", DEPLOYED),
    ("examples", DEPLOYED),
    // The command line, which runs everything on one machine.
    (
        "apps",
        &[
            "shared/kernel",
            "shared/operations",
            "shared/adapters",
            "shared/bootstrap",
            "shared/engines",
            "apps",
            "tests/testkit",
        ],
    ),
    // Only for development and tests.
    (
        "tests/testkit",
        &[
            "shared/kernel",
            "shared/operations",
            "shared/adapters",
            "shared/bootstrap",
            "tests/testkit",
        ],
    ),
    (
        "tests",
        &[
            "shared/kernel",
            "shared/operations",
            "shared/adapters",
            "shared/bootstrap",
            "shared/engines",
            "tests/testkit",
            "tests",
        ],
    ),
];
/// The folders whose code deployed programs may link.
const DEPLOYED: &[&str] = &[
    "shared/kernel",
    "shared/operations",
    "shared/adapters",
    "shared/bootstrap",
];
/// The only testkit crate that a program links: the remote service in `triad dev`.
const APPS_LINK: &str = "triad-reference-service";

/// The folder of [`MAY_LINK`] that contains a path.
fn folder(of: &Path) -> Option<&'static str> {
    let inside = of.strip_prefix(root()).expect("it is in the workspace");
    let folders = MAY_LINK.iter().map(|(folder, _)| *folder);
    folders
        .filter(|folder| inside.starts_with(folder))
        .max_by_key(|folder| folder.len())
}

fn root() -> PathBuf {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    root.canonicalize().expect("the workspace is there")
}

/// The folders of all crates.
fn crates() -> Vec<PathBuf> {
    let packages = packages();
    let manifests = packages.iter().map(|package| {
        let manifest = package["manifest_path"].as_str().expect("a path");
        Path::new(manifest).parent().expect("a folder").to_owned()
    });
    manifests.collect()
}

/// The packages of the workspace, as `cargo metadata` prints them.
fn packages() -> Vec<Value> {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .output()
        .expect("cargo runs");
    assert!(metadata.status.success(), "cargo metadata");
    let mut metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].take();
    serde_json::from_value(packages).expect("packages")
}

#[test]
fn crates_link_only_what_their_folder_may() {
    let mut links = 0;
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let own = folder(manifest).unwrap_or_else(|| panic!("{name} is in no known folder"));
        let row = MAY_LINK.iter().find(|(folder, _)| *folder == own);
        let (_, allowed) = row.expect("the folder is from this table");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let (Some(path), true) = (dependency["path"].as_str(), dependency["kind"].is_null())
            else {
                continue;
            };
            let linked = dependency["name"].as_str().expect("a name");
            let other = folder(Path::new(path)).expect("a known folder");
            assert!(
                allowed.contains(&other),
                "{name} in {own} links {linked} in {other}"
            );
            let is_allowed = own != "apps" || other != "tests/testkit" || linked == APPS_LINK;
            assert!(is_allowed, "{name} links {linked}");
            links += 1;
        }
    }
    assert!(links > 50, "the links are seen: {links}");
}

/// The top folder must have few entries, and each folder a description of its content.
#[test]
fn the_top_of_the_repository_is_small_and_every_room_says_what_is_in_it() {
    let files = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let files = String::from_utf8(files.stdout).expect("text");
    let first = files.lines().filter_map(|file| file.split('/').next());
    let top: BTreeSet<&str> = first.filter(|name| !name.starts_with('.')).collect();
    assert!((10..=14).contains(&top.len()), "{top:?}");
    for room in ["kernel", "operations", "adapters", "engines"] {
        let readme = root().join("shared").join(room).join("README.md");
        let lines = fs::read_to_string(readme).expect(room).lines().count();
        assert!((5..=12).contains(&lines), "{room}: {lines} lines");
    }
}

/// For each folder of a crate, as a module path: its modules, each with the sibling modules that its production code
/// uses, directly or in submodules.
fn modules(source: &Path) -> BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> {
    let mut files: Vec<(Vec<String>, String)> = Vec::new();
    let mut open = vec![source.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            if path.extension().is_none_or(|e| e != "rs") {
                continue;
            }
            let inside = path.strip_prefix(source).expect("it is inside");
            let inside = inside.with_extension("");
            let names = inside
                .iter()
                .map(|name| name.to_string_lossy().into_owned());
            let mut module: Vec<String> = names.collect();
            if ["mod", "lib", "main"]
                .map(String::from)
                .contains(&module[module.len() - 1])
            {
                module.pop();
            }
            if module.last().is_some_and(|name| name == "tests") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source");
            let production = text.split("#[cfg(test)]\nmod tests").next();
            let code = production.expect("a first part").lines();
            let code = code.filter(|line| !line.trim_start().starts_with("//"));
            files.push((module, code.collect::<Vec<_>>().join("\n")));
        }
    }
    let mut found: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, _) in &files {
        for depth in 0..module.len() {
            let beside = found.entry(module[..depth].to_vec()).or_default();
            beside.entry(module[depth].clone()).or_default();
        }
    }
    for (module, code) in &files {
        for named in named(code) {
            let other = resolved(module, named);
            let same = module
                .iter()
                .zip(&other)
                .take_while(|(a, b)| a == b)
                .count();
            let (Some(own), Some(other)) = (module.get(same), other.get(same)) else {
                continue;
            };
            let beside = found.entry(module[..same].to_vec()).or_default();
            if beside.contains_key(other) {
                let names = beside.entry(own.clone()).or_default();
                names.insert(other.clone());
            }
        }
    }
    found
}

/// The full path of a path with `crate` or `super`, for code in this module.
fn resolved(module: &[String], path: Vec<String>) -> Vec<String> {
    let mut at = module.to_vec();
    for name in path {
        match &*name {
            "crate" => at.clear(),
            "super" => {
                at.pop();
            }
            _ => at.push(name),
        }
    }
    at
}

/// The paths in a source that begin with `crate` or `super`, split into names; groups are expanded.
fn named(code: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for (at, _) in code
        .match_indices("crate::")
        .chain(code.match_indices("super::"))
    {
        let before = code[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && !['_', ':', '$'].contains(&c)) {
            all.extend(paths(&code[at..]));
        }
    }
    all
}

/// The path at the beginning of a text, or the paths of a group.
fn paths(text: &str) -> Vec<Vec<String>> {
    let Some(group) = text.strip_prefix('{') else {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        return match rest.strip_prefix("::") {
            Some(rest) => {
                let behind = paths(rest).into_iter();
                behind
                    .map(|path| [vec![name.to_owned()], path].concat())
                    .collect()
            }
            None => vec![vec![name.to_owned()]],
        };
    };
    let (mut depth, mut all, mut begun) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                all.extend(paths(group[begun..at].trim()));
                begun = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    all
}

#[test]
fn modules_of_a_group_are_seen() {
    let joined = |code: &str| -> Vec<String> {
        let all = named(code).into_iter().map(|path| path.join("/"));
        all.filter(|path| !path.ends_with('/')).collect()
    };
    assert_eq!(joined("use crate::store::Store;"), ["crate/store/Store"]);
    assert_eq!(
        joined("use super::{\n    bus, clock::{self, Now},\n};\nfn f() { $crate::no; }"),
        ["super/bus", "super/clock/self", "super/clock/Now"]
    );
    let module = ["log", "store"].map(String::from);
    let path = ["super", "wal", "Writer"].map(String::from);
    assert_eq!(resolved(&module, path.to_vec()), ["log", "wal", "Writer"]);
}

/// The modules in cycles: those that remain after repeatedly removing modules that depend on no remaining module.
fn circle(mut modules: BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    loop {
        let left: BTreeSet<String> = modules.keys().cloned().collect();
        modules.retain(|_, names| names.iter().any(|name| left.contains(name)));
        if modules.len() == left.len() {
            return left;
        }
    }
}

/// The arguments of `info!`, `warn!` and `error!` in `code`, without string literals.
fn logged(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for level in ["error!(", "warn!(", "info!("] {
        for (at, _) in code.match_indices(&format!("tracing::{level}")) {
            let (mut depth, mut is_text, mut arguments) = (0, false, String::new());
            for c in code[at..].chars() {
                match c {
                    '"' => is_text = !is_text,
                    '(' if !is_text => depth += 1,
                    ')' if !is_text => depth -= 1,
                    c if !is_text => arguments.push(c),
                    _ => {}
                }
                if c == ')' && depth == 0 {
                    break;
                }
            }
            all.push(arguments);
        }
    }
    all
}

/// People and programs read the log, so each value must be a field, and none may have Rust's `Debug` format.
#[test]
fn no_line_of_the_log_has_a_value_in_the_form_of_rust() {
    assert_eq!(
        logged("tracing::info!(a = ?b, \"no? (\", f(x))").concat(),
        "tracing::info!a = ?b, , fx"
    );
    let root = root();
    let (mut folders, mut seen) = (vec![], 0);
    folders.extend(["shared", "functions", "apps"].map(|name| root.join(name)));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.extend((!path.ends_with("tests")).then_some(path));
                continue;
            }
            if path.extension().is_none_or(|e| e != "rs") {
                continue;
            }
            let code = fs::read_to_string(&path).expect("a source");
            for arguments in logged(&code) {
                seen += 1;
                assert!(!arguments.contains('?'), "{}: {arguments}", path.display());
            }
        }
    }
    assert!(seen > 100, "lines are seen: {seen}");
}

#[test]
fn no_module_depends_on_itself_by_way_of_others() {
    let mut looked_at = 0;
    for folder in crates() {
        let (name, source) = (folder.display(), folder.join("src"));
        if !source.is_dir() || self::folder(&folder) == Some("tests") {
            continue;
        }
        for (folder, modules) in modules(&source) {
            looked_at += modules.len();
            let left = circle(modules);
            assert!(
                left.is_empty(),
                "{name}/src/{}: a circle, and what leads to it: {left:?}",
                folder.join("/")
            );
        }
    }
    assert!(looked_at > 500, "modules are seen: {looked_at}");
}
