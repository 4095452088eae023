//! Workflows: their versions as graphs, differences of two versions, and the orders on each.

use maud::html;
use triad_core::WorkflowRef;
use triad_operator::address::in_path;
use triad_operator::operations::{GetWorkflow, ListWorkflows, Problem};
use triad_operator::versions::Version;

use super::{Visit, graph, layout::Page, order::pretty, text};

pub(super) async fn list(visit: &Visit<'_>) -> Result<Page, Problem> {
    let found = visit.ask(ListWorkflows::default()).await?.versions;
    let is_uncounted = found.iter().any(|one| one.under_way.is_none());
    let content = html! {
        h1 { "Workflows" }
        @if found.is_empty() { p { "None is published." } }
        @if is_uncounted {
            p class="note" { "Orders are not counted here, on DynamoDB: " code { "triad workflows" } " counts them, by reading the whole table." }
        }
        div class="scroll" tabindex="0" role="region" aria-label="Versions" {
            table {
                thead { tr {
                    th scope="col" { "Workflow" } th scope="col" { "Version" } th scope="col" { "Published" }
                    th scope="col" { "Present" } th scope="col" { "Compare" } th class="number" scope="col" { "Under way" }
                    th class="number" scope="col" { "Finished" }
                } }
                tbody {
                    @for one in &found {
                        @let path = path(one);
                        tr {
                            td { a href=(path) { (one.workflow) } }
                            td { (text::short(one.version.as_str())) }
                            td { (text::at(one.published_at)) }
                            td { @if one.present { "yes" } }
                            td {
                                @if let Some(before) = before(one, &found) {
                                    a href={ (path) "?against=" (before.version) } { "with " (text::short(before.version.as_str())) " before it" }
                                }
                            }
                            td class="number" { (text::counted(one.under_way)) }
                            td class="number" { (text::counted(one.finished)) }
                        }
                    }
                }
            }
        }
    };
    Ok(Page::new("Workflows", content).at("/console/workflows"))
}

fn path(version: &Version) -> String {
    text::version_path(&WorkflowRef {
        name: version.workflow.clone(),
        hash: version.version.clone(),
    })
}

/// The version of the same workflow that was published before this one.
fn before<'a>(version: &Version, all: &'a [Version]) -> Option<&'a Version> {
    // Versions published at the same moment need a stable order.
    let at = |one: &Version| (one.published_at, one.version.clone());
    all.iter()
        .filter(|one| one.workflow == version.workflow && at(one) < at(version))
        .max_by_key(|one| at(one))
}

pub(super) async fn workflow_page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let asked: GetWorkflow = visit.asked()?;
    let against = asked.against.clone();
    let found = visit.ask(asked).await?;
    let workflow = found.compiled()?;
    let named = WorkflowRef {
        name: found.workflow,
        hash: found.version,
    };
    let others = visit.ask(ListWorkflows::default()).await?.versions;
    let is_other = |one: &Version| one.workflow == named.name && one.version != named.hash;
    let others: Vec<Version> = others.into_iter().filter(is_other).collect();
    let title = format!("Workflow {}", named.name);
    let content = html! {
        h1 { (title) }
        dl class="facts" {
            dt { "Version" } dd { code { (named.hash) } }
            @if let Some(say) = &workflow.definition.description { dt { "Description" } dd { (say) } }
            @if let Some(within) = workflow.order_timeout { dt { "Order timeout" } dd { (within) } }
            dt { "Calls at most" } dd { (workflow.worst_case_calls_with_parts()) " in one run" @for other in workflow.others_run() { ", without the orders of " (other) } }
            dt { "Orders" } dd { a href={ "/console/orders?workflow=" (in_path(named.name.as_str())) } { "of this workflow" } }
        }
        h2 { "Steps" }
        (graph::of_workflow(&workflow))
        @if let (Some(before), Some(lines)) = (&against, &found.changes) {
            h2 { "Changed since " (text::short(before)) }
            @if lines.is_empty() { p { "Nothing." } }
            @else { ul { @for line in lines { li { code { (line) } } } } }
        }
        @if !others.is_empty() {
            h2 { "Compare with another version" }
            form method="get" {
                div class="fields" {
                    label { "Version" select name="against" {
                        @for one in &others {
                            option value=(one.version) selected[against.as_deref() == Some(one.version.as_str())] { (one.version) }
                        }
                    } }
                    button type="submit" { "Compare" }
                }
            }
        }
        @if visit.may_act() {
            p class="note" { "To move orders to this version: choose them in their list, and the act migrate, to workflow " code { (named.name) } " and version " code { (named.hash) } "." }
        }
        details { summary { "Definition" } pre tabindex="0" { (pretty(&found.definition.into())) } }
    };
    Ok(Page::new(title, content).at("/console/workflows"))
}
