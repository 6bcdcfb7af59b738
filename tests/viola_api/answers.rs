//! Every answer, and what it means in the cluster.

use std::time::Duration;

use multinic_operator::viola_api::{PATH, Surroundings};
use serde_json::{Value, json};

use crate::cluster::{Behaviour, Cluster};
use crate::server::{Server, local, node};

fn golden(name: &str, answer: &Value) {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let got = serde_json::to_string_pretty(answer).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(&path).unwrap(), "{name}: UPDATE_GOLDEN=1 writes the file anew");
}

fn without(mut node: Value, pointer: &str, field: &str) -> Value {
    node.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field);
    node
}

fn with(mut node: Value, pointer: &str, value: Value) -> Value {
    *node.pointer_mut(pointer).unwrap() = value;
    node
}

#[tokio::test]
async fn nodes_become_objects() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    let (status, answer) = server.post("green", &json!([node("worker-1"), node("Worker_2")])).await;
    assert_eq!(status, 200, "{answer}");
    golden("viola-200", &answer);
    let objects = cluster.objects();
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["biz/worker-1", "biz/worker-2"]);
    let expect = json!({
        "apiVersion": "multinic.io/v1alpha1",
        "kind": "MultiNicNodeConfig",
        "metadata": {"name": "worker-2", "namespace": "biz", "labels": {
            "multinic.io/node-name": "Worker_2",
            "multinic.io/instance-id": "a3c1c0de-0000-4000-8000-000000000001",
            "multinic.io/provider-id": "green",
        }},
        "spec": {
            "nodeName": "Worker_2",
            "instanceId": "a3c1c0de-0000-4000-8000-000000000001",
            "interfaces": [{"id": 0, "name": "multinic0", "macAddress": "fa:16:3e:00:00:01",
                "address": "192.0.2.10", "cidr": "192.0.2.0/24", "mtu": 1450,
                "portId": "d012464a-c95b-4ddf-a9fd-5707d457aed6"}],
        },
    });
    assert_eq!(objects["biz/worker-2"], expect, "only what the resource has");
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_means_nothing_is_refused_as_a_whole() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    let n = || node("a");
    for (body, part) in [
        ("{".to_owned(), "not a JSON array"),
        (n().to_string(), "not a JSON array"),
        ("[]".to_owned(), "is empty"),
        ("[7]".to_owned(), "not a JSON array"),
        (json!([without(n(), "", "nodeName")]).to_string(), "[0].nodeName is missing"),
        (json!([n(), with(n(), "/nodeName", json!(" "))]).to_string(), "[1].nodeName is missing or empty"),
        (json!([with(n(), "/nodeName", json!("___"))]).to_string(), "no object can be named after"),
        (json!([without(n(), "", "instanceId")]).to_string(), "[0].instanceId is missing"),
        (json!([with(n(), "/instanceId", Value::Null)]).to_string(), "[0].instanceId is missing"),
        (json!([without(n(), "", "interfaces")]).to_string(), "[0].interfaces is missing"),
        (json!([with(n(), "/interfaces", json!([]))]).to_string(), "[0].interfaces is missing or empty"),
        (
            json!([without(n(), "/interfaces/0", "macAddress")]).to_string(),
            "[0].interfaces[0].macAddress is missing",
        ),
        (
            json!([with(n(), "/interfaces/0/mtu", json!("big"))]).to_string(),
            "not a JSON array of node configs",
        ),
        (json!([n(), n()]).to_string(), "both make the object \"a\""),
        (
            json!([node("Node_1"), node("node-1")]).to_string(),
            "\"Node_1\" and \"node-1\" both make the object",
        ),
    ] {
        let (status, answer) = server.send(&[("x-provider-id", b"green")], body.clone()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(part), "{body}\n{status} {answer}");
        assert_eq!(answer["error"]["code"], "bad_request");
    }
    let (_, answer) =
        server.send(&[("x-provider-id", b"green")], json!([without(n(), "", "nodeName")]).to_string()).await;
    golden("viola-400", &answer);
    assert_eq!(cluster.patches(), 0);
}

#[tokio::test]
async fn a_request_for_nobody_is_refused() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    let body = json!([node("a")]).to_string();
    for (headers, part) in [
        (vec![], "the header x-provider-id is missing"),
        (vec![("x-provider-id", &b"  "[..])], "the header x-provider-id is missing"),
        (vec![("x-provider-id", &b"red"[..])], "no target has the x-provider-id \"red\""),
        (vec![("x-provider-id", &b"green"[..]), ("x-provider-id", &b"red"[..])], "is there twice"),
        (vec![("x-provider-id", &b"\xff"[..])], "is not UTF-8"),
    ] {
        let (status, answer) = server.send(&headers, body.clone()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(part), "{headers:?} {status} {answer}");
    }
    for header in [&b" green "[..], b"green"] {
        assert_eq!(server.send(&[("x-provider-id", header)], body.clone()).await.0, 200);
    }
}

#[tokio::test]
async fn a_default_serves_who_has_no_target_unless_it_is_strict() {
    let cluster = Cluster::start().await;
    let routing = format!("default: {{namespace: other, kubeApiServer: '{}'}}\ntargets: []", cluster.url);
    let server = Server::start(&routing).await;
    let body = json!([node("a")]).to_string();
    assert_eq!(server.send(&[], body.clone()).await.0, 200);
    assert_eq!(cluster.objects()["other/a"]["metadata"]["labels"].get("multinic.io/provider-id"), None);
    assert_eq!(server.send(&[("x-provider-id", b"unknown")], body.clone()).await.0, 200);
    assert_eq!(cluster.objects()["other/a"]["metadata"]["labels"]["multinic.io/provider-id"], "unknown");
    let strict = Server::start(&format!("strict: true\n{routing}")).await;
    assert_eq!(strict.send(&[], body.clone()).await.0, 400);
    assert_eq!(strict.send(&[("x-provider-id", b"unknown")], body).await.0, 400);
}

#[tokio::test]
async fn one_bad_node_does_not_hold_up_the_others() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    let invalid = "MultiNicNodeConfig.multinic.io \"b\" is invalid: spec.interfaces[0].mtu: Invalid value: 9";
    cluster.behave("b", Behaviour::Refuse(422, invalid.to_owned()));
    let (status, answer) = server.post("green", &json!([node("a"), node("b"), node("c")])).await;
    assert_eq!(status, 207, "{answer}");
    golden("viola-207", &answer);
    assert_eq!(cluster.objects().len(), 2);
}

#[tokio::test]
async fn a_server_that_is_busy_for_a_moment_is_asked_again() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    cluster.behave("a", Behaviour::RefuseAtFirst(429, 2));
    cluster.behave("b", Behaviour::RefuseAtFirst(503, 3));
    let (status, answer) = server.post("green", &json!([node("a"), node("b")])).await;
    assert_eq!(status, 207, "{answer}");
    assert_eq!(
        (&answer["results"][0]["status"], &answer["results"][1]["status"]),
        (&json!("applied"), &json!("failed"))
    );
    assert_eq!(cluster.patches(), 6, "three times each and no more");
}

#[tokio::test]
async fn a_cluster_that_lets_nobody_in_is_not_asked_for_every_node() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    let nodes: Value = (0..1_000).map(|n| node(&format!("node-{n}"))).collect();
    cluster.behave_always(Some(Behaviour::Refuse(401, "Unauthorized".to_owned())));
    assert_eq!(server.post("green", &nodes).await.0, 500);
    assert!(cluster.patches() < 100, "{}", cluster.patches());
    // A webhook refuses single nodes with a 403, and the others want to be applied.
    cluster.behave_always(None);
    for n in 0..100 {
        cluster.behave(&format!("node-{n}"), Behaviour::Refuse(403, "denied by a webhook".to_owned()));
    }
    let (status, answer) = server.post("green", &nodes).await;
    assert_eq!((status, &answer["applied"]), (207, &json!(900)));
}

#[tokio::test]
async fn nothing_applied_is_a_failure_that_says_why() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    let nodes = json!([node("a"), node("b")]);
    cluster.behave_always(Some(Behaviour::Refuse(403, "multinicnodeconfigs is forbidden".to_owned())));
    let (status, answer) = server.post("green", &nodes).await;
    assert_eq!(status, 500, "{answer}");
    golden("viola-500", &answer);
    drop(cluster);
    let gone = Server::start("targets: [{providerId: green, kubeApiServer: 'http://127.0.0.1:1'}]").await;
    let (status, answer) = gone.post("green", &nodes).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert_eq!((status, message), (500, "none of 2 nodes was applied: the API server cannot be reached"));
}

#[tokio::test]
async fn what_kubectl_applied_is_taken_over_and_what_others_apply_is_not() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    cluster.behave("old", Behaviour::Conflict("kubectl-client-side-apply".to_owned(), "Update".to_owned()));
    cluster.behave("other", Behaviour::Conflict("argocd".to_owned(), "Apply".to_owned()));
    let (status, answer) = server.post("green", &json!([node("new"), node("old"), node("other")])).await;
    assert_eq!(status, 207, "{answer}");
    assert_eq!(cluster.forced().into_iter().collect::<Vec<_>>(), ["old"], "and what is new is not forced");
    let message = answer["results"][2]["message"].as_str().unwrap();
    assert!(message.starts_with("argocd applies .spec.interfaces of this object"), "{message}");
    assert_eq!(cluster.objects().len(), 2);
}

#[tokio::test]
async fn a_cluster_that_hangs_holds_up_its_own_requests_only() {
    let (slow, quick) = (Cluster::start().await, Cluster::start().await);
    slow.behave_always(Some(Behaviour::Hang));
    let routing = format!("targets: [{}, {}]", local("slow", &slow), local("quick", &quick));
    let limit = Duration::from_secs(8);
    let server =
        Server::start_with(&routing, Surroundings::default(), |settings| settings.timeout = limit).await;
    let nodes = json!([node("a")]);
    // More than have a turn at once.
    let waiting = (0..10).map(|_| server.post("slow", &nodes));
    let waiting = futures::future::join_all(waiting);
    let meanwhile = async {
        for _ in 0..20 {
            assert_eq!(server.post("quick", &nodes).await.0, 200);
        }
        jiff::Timestamp::now()
    };
    let (answers, quick_done) = tokio::join!(async { (waiting.await, jiff::Timestamp::now()) }, meanwhile);
    let (answers, slow_done) = answers;
    assert!(quick_done < slow_done, "the quick ones waited for the slow ones");
    for (status, answer) in answers {
        let message = answer["error"]["message"].as_str().unwrap();
        match status {
            500 => {
                assert_eq!(message, "none of 1 nodes was applied: not applied within KUBECTL_TIMEOUT (8s)")
            }
            503 => assert!(message.contains("earlier requests"), "{message}"),
            other => panic!("{other} {message}"),
        }
    }
}

#[tokio::test]
async fn the_token_is_asked_for_where_there_is_one() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "secret-token\n").unwrap();
    let surroundings = Surroundings { token_file: Some(token_file), ..Surroundings::default() };
    let routing = format!("targets: [{}]", local("green", &cluster));
    let server = Server::start_with(&routing, surroundings, |_| {}).await;
    let body = json!([node("a")]).to_string();
    let id = ("x-provider-id", &b"green"[..]);
    assert_eq!(server.send(&[id], body.clone()).await.0, 401);
    assert_eq!(server.send(&[id, ("authorization", b"Bearer other")], body.clone()).await.0, 401);
    assert_eq!(server.send(&[id, ("authorization", b"Bearer secret-token")], body).await.0, 200);
    assert_eq!(server.get("/healthz").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn other_paths_and_methods_are_answered_in_json() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    for (path, code) in [(PATH, 405), ("/v1/k8s", 404), ("/", 404)] {
        let (status, text) = server.get(path).await;
        assert_eq!(status, code, "{text}");
        assert!(serde_json::from_str::<Value>(&text).unwrap()["error"]["message"].is_string());
    }
}
