//! What kubectl is given, and what its output means for each node.

use std::collections::BTreeSet;

use serde_json::json;

use super::session::Done;
use crate::kube::node_config::MultiNicNodeConfig;
use crate::viola_api::outcome::{NodeResult, Outcome};

/// What kubectl writes behind the name of an object that stands as it should.
const DONE: [&str; 4] = ["created", "configured", "unchanged", "serverside-applied"];

/// All objects as one list.
pub(super) fn manifest(objects: &[MultiNicNodeConfig]) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
}

/// kubectl goes on after an object that is refused, so its lines tell which ones were applied.
pub(super) fn outcome(objects: &[MultiNicNodeConfig], done: &Done) -> Outcome {
    let applied: BTreeSet<&str> = done.stdout.lines().filter_map(applied_name).collect();
    let results = objects.iter().map(|object| {
        let (node, name) = (&object.spec.node_name, object.metadata.name.as_deref().unwrap_or_default());
        // A wrapper round kubectl may have words of its own; what it says with its exit code counts.
        match done.exit_code == Some(0) || applied.contains(name) {
            true => NodeResult::applied(node),
            false => NodeResult::failed(node, &problem(name, done)),
        }
    });
    let output = [done.stdout.trim(), done.stderr.trim()].join("\n");
    Outcome { results: results.collect(), output: output.trim().to_owned() }
}

/// `multinicnodeconfig.multinic.io/NAME configured`.
fn applied_name(line: &str) -> Option<&str> {
    let (object, word) = line.trim().split_once(' ')?;
    let (kind, name) = object.split_once('/')?;
    (kind == "multinicnodeconfig.multinic.io" && DONE.contains(&word)).then_some(name)
}

/// The line of kubectl's errors that is about an object; else all of them.
fn problem(name: &str, done: &Done) -> String {
    let stderr = done.stderr.trim();
    let quoted = format!("\"{name}\"");
    let about = stderr.lines().find(|line| line.contains(&quoted));
    match (about, stderr.is_empty()) {
        (Some(line), _) => line.trim().to_owned(),
        (None, false) => stderr.to_owned(),
        (None, true) => match done.exit_code {
            Some(code) => format!("kubectl ended with code {code} and no word about it"),
            None => "kubectl was ended by a signal, or the connection by the bastion".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::node_config::object::object_of;
    use crate::kube::node_config::{MultiNicNodeConfigSpec, NodeInterface};
    use crate::viola_api::outcome::NodeStatus;

    fn objects(nodes: &[&str]) -> Vec<MultiNicNodeConfig> {
        let object = |node: &&str| {
            let spec = MultiNicNodeConfigSpec {
                node_name: (*node).to_owned(),
                instance_id: None,
                interfaces: vec![NodeInterface::default()],
            };
            object_of(spec, "biz", None).unwrap()
        };
        nodes.iter().map(object).collect()
    }

    fn check(stdout: &str, stderr: &str, exit_code: Option<u32>, expect: &[(&str, NodeStatus, &str)]) {
        let objects = objects(&["Node_1", "node-2"]);
        let done = Done { stdout: stdout.to_owned(), stderr: stderr.to_owned(), exit_code };
        let outcome = outcome(&objects, &done);
        let found: Vec<_> =
            outcome.results.iter().map(|r| (r.node_name.as_str(), r.status, r.message.as_str())).collect();
        assert_eq!(found, expect, "{stdout} {stderr}");
    }

    #[test]
    fn kubectl_tells_which_nodes_were_applied() {
        use NodeStatus::{Applied, Failed};
        let one = "multinicnodeconfig.multinic.io/node-1 configured\n";
        let refused =
            "The MultiNicNodeConfig \"node-2\" is invalid: spec.interfaces[0].mtu: Invalid value: 9\n";
        check(one, refused, Some(1), &[("Node_1", Applied, ""), ("node-2", Failed, refused.trim())]);
        check("done", "", Some(0), &[("Node_1", Applied, ""), ("node-2", Applied, "")]);
        let lost = "error: no connection to the server";
        check("", lost, Some(1), &[("Node_1", Failed, lost), ("node-2", Failed, lost)]);
        let silent = "kubectl ended with code 127 and no word about it";
        check("", "", Some(127), &[("Node_1", Failed, silent), ("node-2", Failed, silent)]);
        // A line that merely looks like it.
        let other = "node.multinic.io/node-1 configured\nmultinicnodeconfig.multinic.io/node-1 pruned";
        check(other, "no", Some(1), &[("Node_1", Failed, "no"), ("node-2", Failed, "no")]);
    }

    #[test]
    fn the_manifest_is_a_list_of_whole_objects() {
        let manifest: serde_json::Value =
            serde_json::from_slice(&manifest(&objects(&["a"])).unwrap()).unwrap();
        assert_eq!(manifest["kind"], "List");
        let item = &manifest["items"][0];
        assert_eq!(
            (&item["apiVersion"], &item["kind"]),
            (&json!("multinic.io/v1alpha1"), &json!("MultiNicNodeConfig"))
        );
        assert_eq!(item["metadata"]["namespace"], "biz");
    }
}
