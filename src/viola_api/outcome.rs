//! What became of the nodes of a request, and how that is answered.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::kube::node_config::MultiNicNodeConfig;

/// The longest `output`: an answer of thousands of nodes has `results` for the rest.
const MAX_OUTPUT: usize = 64 * 1024;
/// The longest message of one node.
const MAX_MESSAGE: usize = 1024;

/// How many nodes were applied, and what became of each.
#[derive(Serialize, ToSchema)]
#[schema(as = ApplyAnswer)]
pub(crate) struct Answer {
    /// Nodes that were applied.
    applied: usize,
    /// A line for each node, for people; cut when it gets long.
    output: String,
    /// What became of each node.
    results: Vec<NodeResult>,
}

/// Nothing was applied.
#[derive(Serialize, ToSchema)]
#[schema(as = ApplyFailure)]
pub(crate) struct Failure {
    error: ErrorText,
    /// 0.
    #[schema(required = false)]
    applied: usize,
    /// A line for each node, for people; cut when it gets long.
    #[schema(required = false)]
    output: String,
    /// What became of each node.
    #[schema(required = false)]
    results: Vec<NodeResult>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ApplyError)]
pub(crate) struct ErrorText {
    /// One word.
    #[schema(example = "apply_failed")]
    code: &'static str,
    /// What is wrong, and what can be done about it.
    message: String,
}

/// What became of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeResult {
    /// The node, as it was sent.
    pub(super) node_name: String,
    /// Whether its object stands in the cluster as sent.
    pub(super) status: NodeStatus,
    /// Why not; or empty.
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NodeStatus {
    /// It does.
    Applied,
    /// It may not.
    Failed,
}

/// The outcome of a request: a result for each node, and what was said.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) results: Vec<NodeResult>,
    pub(super) output: String,
}

impl NodeResult {
    pub(super) fn applied(node: &str) -> Self {
        Self { node_name: node.to_owned(), status: NodeStatus::Applied, message: String::new() }
    }

    pub(super) fn failed(node: &str, message: &str) -> Self {
        let message = cut(message, MAX_MESSAGE).to_owned();
        Self { node_name: node.to_owned(), status: NodeStatus::Failed, message }
    }
}

impl Outcome {
    /// Of results that are there, with a line for each as kubectl would write it.
    pub(super) fn of(objects: &[MultiNicNodeConfig], results: Vec<NodeResult>) -> Self {
        let lines = objects.iter().zip(&results).map(|(object, result)| match result.status {
            NodeStatus::Applied => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                format!("multinicnodeconfig.multinic.io/{name} serverside-applied\n")
            }
            NodeStatus::Failed => format!("{}: {}\n", result.node_name, result.message),
        });
        Self { output: lines.collect(), results }
    }

    /// When nothing came about at all.
    pub(super) fn all_failed(objects: &[MultiNicNodeConfig], message: &str) -> Self {
        let results = objects.iter().map(|object| NodeResult::failed(&object.spec.node_name, message));
        Self { results: results.collect(), output: message.to_owned() }
    }

    /// How many were applied.
    pub(super) fn applied(&self) -> usize {
        self.results.iter().filter(|result| result.status == NodeStatus::Applied).count()
    }

    /// The first thing that went wrong.
    pub(super) fn first_problem(&self) -> Option<&str> {
        let mut failed = self.results.iter().filter(|result| result.status == NodeStatus::Failed);
        failed.next().map(|result| result.message.as_str())
    }
}

impl IntoResponse for Outcome {
    fn into_response(self) -> Response {
        let applied = self.applied();
        let problem = self.first_problem().unwrap_or("there is no reason").to_owned();
        let total = self.results.len();
        let (output, results) = (cut_lines(self.output), self.results);
        if applied == 0 {
            let message = format!("none of {total} nodes was applied: {problem}");
            let error = ErrorText { code: "apply_failed", message };
            return (StatusCode::INTERNAL_SERVER_ERROR, Json(Failure { error, applied, output, results }))
                .into_response();
        }
        let status = if applied == total { StatusCode::OK } else { StatusCode::MULTI_STATUS };
        (status, Json(Answer { applied, output, results })).into_response()
    }
}

fn cut_lines(mut output: String) -> String {
    output.truncate(output.trim_end().len());
    if output.len() <= MAX_OUTPUT {
        return output;
    }
    let kept = cut(&output, MAX_OUTPUT);
    let kept = &kept[..kept.rfind('\n').unwrap_or(kept.len())];
    let left = output[kept.len()..].trim_start().lines().count();
    format!("{kept}\n… and {left} more lines")
}

/// The text up to a number of bytes, whole characters only.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_is_cut_at_a_line() {
        let line = "multinicnodeconfig.multinic.io/노드 serverside-applied\n";
        let all = line.repeat(10_000);
        let output = cut_lines(all);
        assert!(output.len() < MAX_OUTPUT + 40);
        let lines: Vec<&str> = output.lines().collect();
        let (last, kept) = lines.split_last().unwrap();
        assert!(kept.iter().all(|kept| *kept == line.trim_end()));
        assert_eq!(*last, format!("… and {} more lines", 10_000 - kept.len()));
        assert_eq!(cut_lines("a\nb\n".to_owned()), "a\nb");
    }

    #[test]
    fn no_character_is_cut_in_two() {
        assert_eq!(cut("노드", 4), "노");
        assert_eq!(cut("노드", 6), "노드");
        assert_eq!(cut("", 3), "");
    }
}
