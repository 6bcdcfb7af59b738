//! The documents of both servers: as checked in, true to the answers, and readable where there is no internet.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

#[path = "e2e_support/mod.rs"]
mod e2e_support;

use std::collections::BTreeSet;

use e2e_support::{GLANCE, Operator, PATIENCE};
use multinic_operator::settings::values::ListenAddress;
use multinic_operator::viola_api::{self, Settings, Surroundings};
use serde_json::Value;

/// Both servers: name and URL.
struct Servers {
    operator: Operator,
    viola: viola_api::Running,
}

impl Servers {
    async fn start() -> Self {
        let mut operator = Operator::new();
        operator.start().await;
        let settings = Settings {
            address: ListenAddress { host: Some("127.0.0.1".to_owned()), port: 0 },
            routing_file: None,
            namespace: "biz".to_owned(),
            timeout: PATIENCE,
            kubectl_path: "kubectl".to_owned(),
            server: None,
        };
        let viola = viola_api::start(settings, Surroundings::default()).await;
        Self { operator, viola: viola.unwrap_or_else(|error| panic!("{error}")) }
    }

    fn all(&self) -> [(&'static str, String); 2] {
        [
            ("multinic-operator", format!("http://{}", self.operator.running().api)),
            ("viola-test-api", format!("http://{}", self.viola.address)),
        ]
    }

    async fn get(&self, url: &str) -> (u16, String) {
        self.operator.get_text(url).await
    }

    async fn document(&self, url: &str) -> Value {
        serde_json::from_str(&self.get(&format!("{url}/openapi.json")).await.1).unwrap()
    }

    async fn stop(mut self) {
        self.viola.stop().await;
        self.operator.stop().await;
    }
}

fn golden(path: &str, got: &str) {
    let file = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, got).unwrap();
    }
    let checked_in = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(checked_in == got, "{path} is stale: UPDATE_GOLDEN=1 writes it anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_are_the_checked_in_ones() {
    let servers = Servers::start().await;
    for (name, url) in servers.all() {
        let (status, yaml) = servers.get(&format!("{url}/openapi.yaml")).await;
        assert_eq!(status, 200);
        golden(&format!("docs/openapi/{name}.yaml"), &yaml);
        let from_yaml: Value = yaml_serde::from_str(&yaml).unwrap();
        assert_eq!(from_yaml, servers.document(&url).await, "YAML and JSON say the same");
        assert!(from_yaml["openapi"].as_str().unwrap().starts_with("3.1."));
    }
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_actors_of_an_operator_without_configs_are_the_example() {
    let servers = Servers::start().await;
    let deadline = std::time::Instant::now() + PATIENCE;
    let actors = loop {
        let (_, actors) = servers.operator.get("/v1/actors").await;
        if actors["phase"] == "running" && actors["children"][0]["phase"] != "loading" {
            break actors;
        }
        assert!(std::time::Instant::now() < deadline, "{actors:#}");
        tokio::time::sleep(GLANCE).await;
    };
    golden("tests/golden/actors.json", &(serde_json::to_string_pretty(&actors).unwrap() + "\n"));
    servers.stop().await;
}

/// What of `value` does not fit `schema`.
fn misfits(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let target = document.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("no {name}"));
        return misfits(document, target, value, at, found);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = |choice: &Value| {
            let mut misfit = Vec::new();
            misfits(document, choice, value, at, &mut misfit);
            misfit.is_empty()
        };
        if !choices.iter().any(fits) {
            found.push(format!("{at}: none of the choices"));
        }
        return;
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    if schema.get("type").is_some() && !kinds.iter().any(|allowed| allowed == kind) {
        found.push(format!("{at}: {kind}, not {kinds:?}"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        misfits(document, &schema["items"], item, &format!("{at}[{index}]"), found);
    }
    if let Some(fields) = value.as_object() {
        fields_misfit(document, schema, fields, at, found);
    }
}

fn fields_misfit(
    document: &Value,
    schema: &Value,
    fields: &serde_json::Map<String, Value>,
    at: &str,
    found: &mut Vec<String>,
) {
    let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    let mut known = BTreeSet::new();
    for part in &parts {
        let part = match part["$ref"].as_str() {
            Some(name) => document.pointer(name.trim_start_matches('#')).unwrap(),
            None => part,
        };
        for required in part["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(required.as_str().unwrap()) {
                found.push(format!("{at}: {required} is missing"));
            }
        }
        for (name, schema) in part["properties"].as_object().into_iter().flatten() {
            known.insert(name.clone());
            if let Some(value) = fields.get(name) {
                misfits(document, schema, value, &format!("{at}.{name}"), found);
            }
        }
        if let Some(schema) = part.get("additionalProperties") {
            for (name, value) in fields {
                known.insert(name.clone());
                misfits(document, schema, value, &format!("{at}.{name}"), found);
            }
        }
    }
    found.extend(
        fields
            .keys()
            .filter(|name| !known.contains(*name))
            .map(|name| format!("{at}.{name}: not documented")),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn real_answers_fit_their_schemas_and_every_success_has_one() {
    let servers = Servers::start().await;
    for (name, url) in servers.all() {
        let document = servers.document(&url).await;
        let mut examples = 0;
        for (path, item) in document["paths"].as_object().unwrap() {
            let operations =
                item.as_object().unwrap().iter().filter(|(key, _)| ["get", "post"].contains(&key.as_str()));
            for (code, answer) in
                operations.flat_map(|(_, operation)| operation["responses"].as_object().unwrap())
            {
                let Some(content) = answer["content"].get("application/json") else { continue };
                let Some(example) = content.get("example") else {
                    assert_ne!(code, "200", "{path} has no example");
                    continue;
                };
                let mut found = Vec::new();
                misfits(&document, &content["schema"], example, "", &mut found);
                assert!(found.is_empty(), "{name} {path} {code}: {found:#?}");
                examples += 1;
            }
        }
        assert!(examples >= 4, "{name}: {examples} examples");
    }
    servers.stop().await;
}

/// The values of attributes and functions by which a page loads something.
fn loaded(text: &str) -> Vec<String> {
    let marks = ["src=\"", "href=\"", "src='", "href='", "url(", "@import \"", "@import '"];
    let after = |mark: &'static str| text.match_indices(mark).map(move |(at, _)| &text[at + mark.len()..]);
    let until_end = |rest: &str| rest.split(['"', '\'', ')']).next().unwrap_or_default().to_owned();
    marks.into_iter().flat_map(after).map(|rest| until_end(rest.trim_start_matches(['"', '\'']))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_all_it_loads_come_from_this_server() {
    let servers = Servers::start().await;
    for (name, url) in servers.all() {
        // The client follows the redirect to the folder, to which the page's files are relative.
        let (status, page) = servers.get(&format!("{url}/docs")).await;
        assert_eq!(status, 200, "{page}");
        let files = loaded(&page);
        assert!(files.len() >= 4, "{files:?}");
        let mut texts = vec![page];
        for file in files {
            assert!(!file.contains("//"), "{name} loads {file}");
            let (status, text) = servers.get(&format!("{url}/docs/{}", file.trim_start_matches("./"))).await;
            assert_eq!(status, 200, "{file}");
            // Scripts name addresses in plenty, for links and namespaces; what they may load, the policy says.
            if file.ends_with(".css") {
                texts.push(text);
            } else if file.ends_with("swagger-initializer.js") {
                assert!(
                    text.contains("\"../openapi.json\"") && text.contains("\"validatorUrl\": \"none\""),
                    "{text}"
                );
                assert!(!text.contains("http"), "{text}");
            }
        }
        for text in texts {
            for file in loaded(&text) {
                let is_inside = file.starts_with("data:") || !file.contains("//");
                assert!(is_inside, "{name} loads {file}");
            }
        }
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.get(format!("{url}/docs/")).send().await.unwrap();
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("http"), "{policy}");
        assert_eq!(servers.get(&format!("{url}/docs/none.js")).await.0, 404);
    }
    servers.stop().await;
}
