//! The binary by its other name, as the chart starts it.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use multinic_operator::settings::values;
use multinic_operator::viola_api::PATH;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::server::{PATIENCE, client, local, node};

/// The container of a rendered chart: its program, arguments and environment.
fn rendered(golden: &str) -> (Vec<String>, BTreeMap<String, String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts/golden").join(golden);
    let text = std::fs::read_to_string(path).unwrap();
    let documents = text.split("\n---\n").map(|text| yaml_serde::from_str::<Value>(text).unwrap());
    let deployment = documents.into_iter().find(|document| document["kind"] == "Deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let list = |field: &str| -> Vec<String> {
        container[field].as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let env = container["env"].as_array().unwrap().iter().map(|variable| {
        // From a Secret: whatever it holds.
        let value = variable["value"].as_str().unwrap_or("a-token");
        (variable["name"].as_str().unwrap().to_owned(), value.to_owned())
    });
    ([list("command"), list("args")].concat(), env.collect())
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn until_healthy(child: &mut Child, url: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(answer) = client().get(format!("{url}/healthz")).send().await {
            assert_eq!(answer.status(), 200);
            return answer.text().await.unwrap();
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        assert!(Instant::now() < deadline, "it never answers");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn start_as_rendered(golden: &str) {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (command, mut env) = rendered(golden);
    assert_eq!(command, ["/viola-test-api"]);
    let program = folder.path().join("viola-test-api");
    symlink(env!("CARGO_BIN_EXE_multinic-operator"), &program).unwrap();
    // Only the machine's own: a port of this test, and the folder where the Secret is mounted.
    let port = free_port();
    let listen = env.insert("LISTEN_ADDR".to_owned(), format!("127.0.0.1:{port}")).unwrap();
    assert!(values::listen_address(&listen).is_ok(), "{listen}");
    if let Some(path) = env.get_mut("ROUTING_CONFIG") {
        let file = folder.path().join(Path::new(&path).file_name().unwrap());
        std::fs::write(&file, format!("strict: true\ntargets: [{}]", local("green", &cluster))).unwrap();
        *path = file.display().to_string();
    }
    let mut child = Command::new(&program)
        .args(&command[1..])
        .env_clear()
        .envs(&env)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(until_healthy(&mut child, &url).await, "ok");
    let body = json!([node("a")]).to_string();
    let answer =
        client().post(format!("{url}{PATH}")).header("x-provider-id", "green").body(body).send().await;
    assert_eq!(answer.unwrap().status(), 200, "{env:?}");
    assert_eq!(cluster.objects().len(), 1);
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn it_runs_as_the_chart_renders_it_and_ends_in_order() {
    start_as_rendered("viola-default.yaml").await;
}

#[tokio::test]
async fn it_runs_with_every_value_of_the_chart_set() {
    start_as_rendered("viola-full.yaml").await;
}

#[test]
fn bad_settings_are_all_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_multinic-operator"))
        .arg("viola-test-api")
        .env_clear()
        .envs([
            ("LISTEN_ADDR", "x"),
            ("KUBECTL_TIMEOUT", "soon"),
            ("TARGET_NAMESPACE", "A"),
            ("KUBE_TOKEN", "hunter2"),
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    for part in ["LISTEN_ADDR: ", "KUBECTL_TIMEOUT: ", "TARGET_NAMESPACE: ", "KUBE_API_SERVER is missing"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("hunter2"), "{said}");
}
