//! The name of this process in records.

use crate::reader::environment;

/// Name of this process: `TRIAD_INSTANCE`, or else on Lambda the function's name and the sandbox's
/// (the end of its log stream's name), or else `program@host:process`.
///
/// `lookup` gives a variable's value by its name.
pub(crate) fn name(lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let given = lookup("TRIAD_INSTANCE").filter(|name| !name.is_empty());
    given
        .or_else(|| of_function(lookup))
        .unwrap_or_else(of_process)
}

/// The name of this process in records and logs, from its environment: `TRIAD_INSTANCE`, or else on Lambda
/// `function@sandbox` (the sandbox is the end of its log stream's name), or else `program@host:process`.
#[must_use]
pub fn instance_name() -> String {
    name(&environment)
}

fn of_function(lookup: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let function = lookup("AWS_LAMBDA_FUNCTION_NAME")?;
    let stream = lookup("AWS_LAMBDA_LOG_STREAM_NAME").unwrap_or_default();
    let sandbox = stream.rsplit([']', '/']).next().unwrap_or_default();
    Some(format!("{function}@{sandbox}"))
}

fn of_process() -> String {
    let program = std::env::current_exe().ok();
    let program = program
        .as_deref()
        .and_then(|path| path.file_stem()?.to_str());
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let program = program.unwrap_or("triad");
    format!("{program}@{host}:{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(variables: &[(&str, &str)]) -> String {
        name(&|wanted| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_function_is_named_with_its_sandbox() {
        let lambda = [
            ("AWS_LAMBDA_FUNCTION_NAME", "triad-scheduler"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/22/[$LATEST]5b1e9c"),
        ];
        assert_eq!(named(&lambda), "triad-scheduler@5b1e9c");
        assert_eq!(named(&lambda[..1]), "triad-scheduler@");
    }

    #[test]
    fn a_process_is_named_with_its_host_and_its_number() {
        let name = named(&[("TRIAD_INSTANCE", "")]);
        let (program, rest) = name.split_once('@').expect("program and host");
        let (host, process) = rest.rsplit_once(':').expect("host and process");
        assert!(!program.is_empty() && !host.is_empty(), "{name}");
        assert_eq!(process, std::process::id().to_string());
    }

    #[test]
    fn a_given_name_goes_first() {
        let given = [
            ("TRIAD_INSTANCE", "blue-1"),
            ("AWS_LAMBDA_FUNCTION_NAME", "f"),
        ];
        assert_eq!(named(&given), "blue-1");
    }
}
