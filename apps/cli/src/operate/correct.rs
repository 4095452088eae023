//! The corrected input of `triad resubmit`: a whole value, single fields, or edited.

use std::io::Write;
use std::process::Command as Process;

use anyhow::{Context as _, Result};
use serde_json::Value;
use triad_bootstrap::environment;
use triad_core::OrderId;
use triad_operator::correction::Difference;
use triad_operator::operations::GetOrder;

use crate::output::{Usage, print_line};
use crate::place::Place;

/// Opens the present input of a step of one order in an editor, and reads the result.
///
/// The editor is `VISUAL`, else `EDITOR`, else `vi`, with the arguments that the variable has.
///
/// # Errors
/// [`Usage`] if the input was not changed, or the result is not JSON (then it is kept in a file, which the text
/// names); an error if there is no such order, or the editor cannot be started or fails.
pub async fn edited(place: &Place, order: &str, step: &str) -> Result<Value> {
    let asked = GetOrder {
        id: order.to_owned(),
        inputs: true,
    };
    let found = place.ask(asked).await?;
    let inputs = found
        .inputs
        .unwrap_or_else(|| Err("they are not known".to_owned()));
    let inputs = inputs.map_err(|why| anyhow::anyhow!("order {order}: {why}"))?;
    let calls = inputs["calls"].as_array().into_iter().flatten();
    let mut calls = calls.filter(|call| call["step"] == step && call["direction"] == "forward");
    let none = || Usage(format!("order {order} has no step {step}"));
    let call = calls.next().ok_or_else(none)?;
    if let Some(why) = call["why"].as_str() {
        let text = format!(
            "{order}: there is no present input to begin with: {why}; give the whole input with --input"
        );
        return Err(Usage(text).into());
    }
    let present = call["input"].clone();
    if present.to_string().contains("\"(hidden)\"") {
        let text =
            "a part of the input is hidden here, and would be lost: give single values with --set";
        return Err(Usage(text.into()).into());
    }
    let before = format!("{}\n", serde_json::to_string_pretty(&present)?);
    let no_place = || {
        let place = std::env::temp_dir();
        format!(
            "the input cannot be written to {} to be edited; TMPDIR names another directory",
            place.display()
        )
    };
    let mut file = tempfile::Builder::new()
        .prefix("triad-")
        .suffix(".json")
        .tempfile()
        .with_context(no_place)?;
    file.write_all(before.as_bytes()).with_context(no_place)?;
    let path = file.into_temp_path();
    run_editor(&path)?;
    let after = std::fs::read_to_string(&path)
        .with_context(|| format!("the edited input {} cannot be read", path.display()))?;
    match serde_json::from_str::<Value>(&after) {
        Ok(input) if input == present => {
            Err(Usage("the input was not changed: nothing was done".into()).into())
        }
        Ok(input) => Ok(input),
        Err(e) => {
            let kept = path.keep()?;
            let text = format!(
                "what was written is not JSON: {e}; nothing was done, and it is kept: mend it and give --input @{}",
                kept.display()
            );
            Err(Usage(text).into())
        }
    }
}

fn run_editor(path: &std::path::Path) -> Result<()> {
    let editor = environment("VISUAL").or_else(|| environment("EDITOR"));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // The shell splits the variable, which may have arguments.
    let status = Process::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(path)
        .status()
        .with_context(|| format!("the editor {editor:?} cannot be started"))?;
    if !status.success() {
        let text = format!(
            "the editor {editor:?} (from VISUAL, EDITOR, or vi) has failed: {status}; nothing was done"
        );
        return Err(Usage(text).into());
    }
    Ok(())
}

/// Shows the differences that a correction makes for one order, before the act.
///
/// # Errors
/// Never for people; for programs as [`print_line`].
pub fn show(order: &OrderId, step: &str, all: &[Difference], as_json: bool) -> Result<()> {
    if as_json {
        let mut line = serde_json::json!({"kind": "difference", "order_id": order, "step": step});
        line["changes"] = serde_json::to_value(all)?;
        return print_line(&line);
    }
    if all.is_empty() {
        println!("{order}  {step}: the input stays as it is");
    }
    for difference in all {
        println!("{order}  {step}  {difference}");
    }
    Ok(())
}
