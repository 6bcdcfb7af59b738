//! The routing file while it changes.

use multinic_operator::viola_api::{self, Surroundings};
use serde_json::json;

use crate::cluster::Cluster;
use crate::server::{Server, local, node, settings};

#[tokio::test]
async fn a_changed_file_counts_and_a_bad_one_does_not() {
    let (one, two) = (Cluster::start().await, Cluster::start().await);
    let server = Server::for_cluster(&one).await;
    let nodes = json!([node("a")]);
    assert_eq!(server.post("green", &nodes).await.0, 200);

    server.route("targets: [{providerId: green, kubeApiServer: hunter2}]");
    let text = server.until_health("kubeApiServer: must be a URL", true).await;
    assert!(text.starts_with("ok\nROUTING_CONFIG ") && !text.contains("hunter2"), "{text}");
    assert_eq!(server.post("green", &nodes).await.0, 200, "the last good one counts");

    server.route(&format!("targets: [{}]", local("blue", &two)));
    server.until_health("ROUTING_CONFIG", false).await;
    assert_eq!(server.post("green", &nodes).await.0, 400);
    assert_eq!(server.post("blue", &nodes).await.0, 200);
    assert_eq!((one.patches(), two.patches()), (2, 1));

    std::fs::remove_file(server.routing_file()).unwrap();
    server.until_health("No such file", true).await;
    assert_eq!(server.post("blue", &nodes).await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_file_that_comes_later_is_waited_for_and_a_bad_one_ends_the_start() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later.yaml");
    let server = Server::start_with("", Surroundings::default(), |settings| {
        settings.routing_file = Some(path.clone());
    })
    .await;
    let (status, answer) = server.post("green", &json!([node("a")])).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(status == 400 && message.starts_with("there is no routing: ROUTING_CONFIG "), "{message}");
    std::fs::write(&path, format!("targets: [{}]", local("green", &cluster))).unwrap();
    server.until_health("ROUTING_CONFIG", false).await;
    assert_eq!(server.post("green", &json!([node("a")])).await.0, 200);

    std::fs::write(folder.path().join("routing.yaml"), "targets: 7").unwrap();
    let error = viola_api::start(settings(folder.path()), Surroundings::default()).await.err().unwrap();
    assert!(error.to_string().ends_with("targets: must be a list"), "{error}");
}

#[tokio::test]
async fn a_token_is_sent_and_a_kubeconfig_is_read_again_when_it_changes() {
    let (one, two) = (Cluster::start().await, Cluster::start().await);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let write = |cluster: &Cluster| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: '{}'}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{token: t-2}}}}]\n",
            cluster.url
        );
        std::fs::write(&kubeconfig, text).unwrap();
    };
    write(&one);
    let routing = |comment: &str| {
        format!(
            "{comment}\ntargets:\n- {{providerId: file, kubeconfigPath: '{}'}}\n\
             - {{providerId: token, kubeApiServer: '{}', kubeToken: t-1}}\n",
            kubeconfig.display(),
            one.url
        )
    };
    let server = Server::start(&routing("")).await;
    for id in ["file", "token"] {
        let (status, answer) = server.post(id, &json!([node("a")])).await;
        assert_eq!(status, 200, "{id} {answer}");
    }
    assert_eq!(one.tokens().into_iter().collect::<Vec<_>>(), ["Bearer t-1", "Bearer t-2"]);
    write(&two);
    server.route(&routing("# a notice that there is something to look at"));
    let deadline = std::time::Instant::now() + crate::server::PATIENCE;
    while two.patches() == 0 {
        assert!(std::time::Instant::now() < deadline, "the new kubeconfig is never read");
        assert_eq!(server.post("file", &json!([node("a")])).await.0, 200);
    }
}
