//! What an answer of Viola means.

use std::collections::BTreeMap;

use multinic_actors::domain::ids::NodeName;
use multinic_actors::domain::post::{NodeResult, PostAnswer, PostError, PostFailure};
use serde::Deserialize;
use serde_json::Value;

use crate::upstream::{ErrorKind, UpstreamError, stable_text};

#[derive(Deserialize)]
struct Body {
    results: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    node_name: String,
    status: Option<String>,
    message: Option<String>,
}

/// Reads a 2xx body. One without results, whatever it is, means that all nodes were taken.
pub(super) fn accepted(body: &[u8]) -> PostAnswer {
    let results = serde_json::from_slice::<Body>(body).ok().and_then(|body| body.results).unwrap_or_default();
    if results.is_empty() {
        return PostAnswer::AllAccepted;
    }
    let mut nodes: BTreeMap<NodeName, Result<(), String>> = BTreeMap::new();
    // An entry that cannot be read leaves its node unmentioned, and so not taken.
    let entries = results.into_iter().filter_map(|entry| Entry::deserialize(entry).ok());
    for entry in entries {
        let Ok(node) = NodeName::new(&entry.node_name) else {
            continue;
        };
        let result = entry.result();
        // Of two entries for one node, the refusal counts.
        nodes
            .entry(node)
            .and_modify(|known| {
                if known.is_ok() {
                    *known = result.clone();
                }
            })
            .or_insert(result);
    }
    let results = nodes.into_iter().map(|(node, result)| NodeResult { node, result, is_conflict: false });
    PostAnswer::PerNode(results.collect())
}

impl Entry {
    fn result(&self) -> Result<(), String> {
        let status = self.status.as_deref().unwrap_or_default();
        if status.eq_ignore_ascii_case("applied") {
            return Ok(());
        }
        let said = stable_text(self.message.as_deref().unwrap_or_default());
        Err(match (said.is_empty(), status) {
            (false, _) => said,
            (true, "") => "refused without a reason".to_owned(),
            (true, status) => format!("refused with status {:?}", stable_text(status)),
        })
    }
}

/// What a POST without a usable answer means for the nodes of its batch.
pub(super) fn failed(error: &UpstreamError) -> PostError {
    PostError { failure: failure(&error.kind), message: error.to_string(), retry_after: error.retry_after }
}

fn failure(kind: &ErrorKind) -> PostFailure {
    match kind {
        ErrorKind::Timeout(_) | ErrorKind::ConnectionLost { .. } => PostFailure::UnknownOutcome,
        ErrorKind::Connect { .. } | ErrorKind::Tls { .. } | ErrorKind::Paused { .. } => {
            PostFailure::Unavailable
        }
        ErrorKind::Status { code, .. } => match code {
            408 | 502..=504 => PostFailure::UnknownOutcome,
            429 => PostFailure::Unavailable,
            400 | 409 | 413 | 422 => PostFailure::Refused,
            500 => PostFailure::ServerError,
            _ => PostFailure::Rejected,
        },
        // Not a Viola: no HTTP, or a URL that is none; or not one for this namespace.
        ErrorKind::NotPermitted(_) | ErrorKind::Invalid(_) | ErrorKind::TooLarge(_) => PostFailure::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_node(body: &str) -> Vec<(String, Result<(), String>)> {
        match accepted(body.as_bytes()) {
            PostAnswer::AllAccepted => panic!("all accepted: {body}"),
            PostAnswer::PerNode(results) => {
                results.into_iter().map(|node| (node.node.to_string(), node.result)).collect()
            }
        }
    }

    #[test]
    fn a_2xx_body_without_results_means_that_all_were_taken() {
        for body in [
            "",
            "ok",
            "[]",
            "null",
            r#"{"applied":3,"output":"multinicnodeconfig.multinic.io/node-1 configured"}"#,
            r#"{"results":null}"#,
            r#"{"results":[]}"#,
            r#"{"results":"three"}"#,
        ] {
            assert_eq!(accepted(body.as_bytes()), PostAnswer::AllAccepted, "{body}");
        }
    }

    #[test]
    fn only_applied_nodes_count() {
        let body = r#"{"applied":1,"results":[
            {"nodeName":"node-1","status":"applied","message":""},
            {"nodeName":"Node-2","status":"failed","message":"spec.interfaces[0].mtu: too low\nfor 10.0.0.1:54321"},
            {"nodeName":"node-3","status":"failed"},
            {"nodeName":"node-4"},
            {"nodeName":"node-5","status":"Applied"},
            {"nodeName":"no_node","status":"applied"},
            {"status":"applied"},
            7]}"#;
        let refused = |text: &str| Err(text.to_owned());
        let expected = [
            ("node-1", Ok(())),
            ("node-2", refused("spec.interfaces[0].mtu: too low for 10.0.0.1")),
            ("node-3", refused("refused with status \"failed\"")),
            ("node-4", refused("refused without a reason")),
            ("node-5", Ok(())),
        ];
        assert_eq!(per_node(body), expected.map(|(node, result)| (node.to_owned(), result)));
    }

    #[test]
    fn of_two_entries_for_a_node_the_refusal_counts() {
        let applied = r#"{"nodeName":"a","status":"applied"}"#;
        let failed = r#"{"nodeName":"a","status":"failed","message":"no"}"#;
        for (first, second) in [(applied, failed), (failed, applied)] {
            let nodes = per_node(&format!(r#"{{"results":[{first},{second}]}}"#));
            assert_eq!(nodes, [("a".to_owned(), Err("no".to_owned()))]);
        }
    }

    #[test]
    fn every_status_has_one_meaning() {
        let check = |codes: &[u16], expected: PostFailure| {
            for code in codes {
                let kind = ErrorKind::Status {
                    code: *code,
                    message: String::new(),
                    body: crate::upstream::Body::Empty,
                    error_type: None,
                };
                assert_eq!(failure(&kind), expected, "{code}");
            }
        };
        check(&[408, 502, 503, 504], PostFailure::UnknownOutcome);
        check(&[429], PostFailure::Unavailable);
        check(&[400, 409, 413, 422], PostFailure::Refused);
        check(&[500], PostFailure::ServerError);
        check(&[301, 302, 307, 308, 401, 403, 404, 405, 410, 501, 505], PostFailure::Rejected);
    }
}
