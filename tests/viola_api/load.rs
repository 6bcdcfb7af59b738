//! Large bodies, many nodes.

use futures::stream;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::server::{Server, node};

const LIMIT: usize = 4 * 1024 * 1024;

/// A body of this many bytes, of one node.
fn body(length: usize) -> Vec<u8> {
    let mut body = json!([node("a")]).to_string().into_bytes();
    body.resize(length, b' ');
    body
}

#[tokio::test]
async fn four_mebibytes_are_taken_and_a_byte_more_is_not() {
    let cluster = Cluster::start().await;
    let server = Server::for_cluster(&cluster).await;
    let id = [("x-provider-id", &b"green"[..])];
    let chunked = |length: usize| {
        let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
            body(length).chunks(100_000).map(|chunk| Ok(chunk.to_vec())).collect();
        reqwest::Body::wrap_stream(stream::iter(chunks))
    };
    assert_eq!(server.send(&id, body(LIMIT)).await.0, 200);
    assert_eq!(server.send(&id, chunked(LIMIT)).await.0, 200);
    for (status, answer) in
        [server.send(&id, body(LIMIT + 1)).await, server.send(&id, chunked(LIMIT + 1)).await]
    {
        assert_eq!(status, 413);
        assert_eq!(answer["error"]["code"], "payload_too_large");
    }
    assert_eq!(cluster.patches(), 2);
}

#[tokio::test]
async fn ten_thousand_nodes_go_in_one_request() {
    let cluster = Cluster::start().await;
    let server = Server::start_with(
        &format!("targets: [{}]", crate::server::local("green", &cluster)),
        Default::default(),
        |settings| settings.timeout = std::time::Duration::from_secs(300),
    )
    .await;
    let nodes: Value = (0..10_000).map(|n| node(&format!("node-{n}"))).collect();
    let (status, answer) = server.post("green", &nodes).await;
    assert_eq!((status, &answer["applied"]), (200, &json!(10_000)));
    let results = answer["results"].as_array().unwrap();
    let in_order = results.iter().enumerate().all(|(n, result)| result["nodeName"] == format!("node-{n}"));
    assert!(in_order && results.len() == 10_000);
    assert!(answer["output"].as_str().unwrap().ends_with(" more lines"));
    assert_eq!((cluster.objects().len(), cluster.patches()), (10_000, 10_000));
}
