//! Brings the CustomResourceDefinition in the cluster up to date, never backwards.
//!
//! Helm installs what stands in `crds/` and never changes it again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps,
};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, CustomResourceExt as _, ResourceExt as _};
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy};
use serde_json::{Value, json};

use super::client::{CALL_TIMEOUT, CallError, call};
use super::openstack_config::OpenstackConfig;
use super::status::FIELD_MANAGER;

/// The operator's version that a definition came with. The previous operator's definition has none.
const VERSION: &str = "multinic.example.com/version";
/// A starting API server may refuse for a while; what it refuses longer than this is not ours to do.
const TRIES: u32 = 6;
const RETRY: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(10));
/// How long a definition may take until it is served.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(200);

/// The definition, with the version of this operator.
pub fn definition() -> CustomResourceDefinition {
    let mut crd = OpenstackConfig::crd();
    let roots = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    for root in roots.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        let spec = root.properties.as_mut().and_then(|properties| properties.get_mut("spec"));
        if let Some(spec) = spec {
            spec.any_of = Some(provider_unless_applied());
        }
    }
    crd.annotations_mut().insert(VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    crd
}

/// `spec.credentials.k8sProviderID` is required, unless `spec.delivery.mode` is `Apply`.
///
/// Not a CEL rule: of a stored object whose field is of another type it cannot be evaluated, and the API server
/// then refuses each status that would say so (seen with 1.37). The first alternative looks at the mode too: the
/// failure that is shown is that of the alternative that fits best.
fn provider_unless_applied() -> Vec<JSONSchemaProps> {
    let of_mode = |modes: &[&str]| JSONSchemaProps {
        required: Some(vec!["mode".to_owned()]),
        ..having(
            "mode",
            JSONSchemaProps {
                enum_: Some(modes.iter().map(|mode| JSON(json!(mode))).collect()),
                ..JSONSchemaProps::default()
            },
        )
    };
    let needs = |field: &str| Some(vec![field.to_owned()]);
    let provider = JSONSchemaProps { required: needs("k8sProviderID"), ..JSONSchemaProps::default() };
    let mut provided = having("credentials", provider);
    provided.properties.get_or_insert_default().insert("delivery".to_owned(), of_mode(&["Apply", "Verify"]));
    let applied = JSONSchemaProps { required: needs("delivery"), ..having("delivery", of_mode(&["Apply"])) };
    vec![provided, applied]
}

fn having(property: &str, schema: JSONSchemaProps) -> JSONSchemaProps {
    let properties = Some(BTreeMap::from([(property.to_owned(), schema)]));
    JSONSchemaProps { properties, ..JSONSchemaProps::default() }
}

/// Brings the cluster's definition up to date. What cannot be done is in the log, and what is there is used: a
/// status is then cut to the fields that it knows.
pub async fn bring_up_to_date(client: &Client, seed: u64) {
    let name = OpenstackConfig::crd_name();
    let mut backoff = Backoff::new(RETRY, seed, Instant::now());
    loop {
        let error = match once(client).await {
            Ok(()) => return,
            Err(error) => error,
        };
        let pause = backoff.next(Instant::now());
        let can_pass = !matches!(error.code(), Some(400 | 409 | 422));
        if backoff.attempts() >= TRIES || !can_pass {
            return tracing::warn!(
                "CustomResourceDefinition {name} is not brought up to date: {}; it is used as it is (give the \
                 operator the right to get and patch it, or apply what `multinic-operator crd` prints)",
                error.detail()
            );
        }
        tracing::info!("CustomResourceDefinition {name}: {}; trying again in {pause:.0?}", error.detail());
        tokio::time::sleep(pause).await;
    }
}

async fn once(client: &Client) -> Result<(), CallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (name, ours) = (OpenstackConfig::crd_name(), definition());
    let there = call(CALL_TIMEOUT, api.get_opt(name)).await?;
    let their_version = there.as_ref().and_then(|crd| crd.annotations().get(VERSION)).cloned();
    if their_version.as_deref().is_some_and(|theirs| is_newer(theirs, env!("CARGO_PKG_VERSION"))) {
        tracing::info!("CustomResourceDefinition {name} is of a newer version and stays as it is");
        return Ok(());
    }
    let applied = apply(&api, name, &ours).await?;
    if there.and_then(|crd| crd.metadata.generation) != applied.metadata.generation {
        let from = their_version.unwrap_or_else(|| "one without a version".to_owned());
        tracing::info!("CustomResourceDefinition {name}: brought up to date from {from}");
    }
    until_established(&api, name).await
}

/// Server-side apply, and what another manager left in the versions is taken out: rules of an older schema
/// would still hold.
async fn apply(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    ours: &CustomResourceDefinition,
) -> Result<CustomResourceDefinition, CallError> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = call(CALL_TIMEOUT, api.patch(name, &params, &Patch::Apply(ours))).await?;
    let versions = |crd: &CustomResourceDefinition| json!(crd.spec.versions);
    if !has_more(&versions(&applied), &versions(ours)) {
        return Ok(applied);
    }
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = json!({"spec": {"versions": versions(ours)}});
    call(CALL_TIMEOUT, api.patch(name, &params, &Patch::Merge(patch))).await
}

async fn until_established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), CallError> {
    let deadline = Instant::now() + ESTABLISH_TIMEOUT;
    loop {
        let crd = call(CALL_TIMEOUT, api.get(name)).await?;
        let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(CallError::Unreadable("it does not become Established".to_owned()));
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Whether `theirs` is a later version than `ours`. What is no version is older than any.
fn is_newer(theirs: &str, ours: &str) -> bool {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let release = text.trim().trim_start_matches('v').split(['-', '+']).next()?;
        release.split('.').map(|number| number.parse().ok()).collect()
    };
    numbers(theirs) > numbers(ours)
}

/// Whether `has` has anything that `wanted` has not, wherever.
fn has_more(has: &Value, wanted: &Value) -> bool {
    match (has, wanted) {
        (Value::Object(has), Value::Object(wanted)) => {
            has.iter().any(|(key, value)| wanted.get(key).is_none_or(|wanted| has_more(value, wanted)))
        }
        (Value::Array(has), Value::Array(wanted)) => {
            has.len() != wanted.len() || has.iter().zip(wanted).any(|(has, wanted)| has_more(has, wanted))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_version_is_one_by_its_numbers() {
        let check = |theirs: &str, ours: &str, expect| assert_eq!(is_newer(theirs, ours), expect, "{theirs}");
        check("0.10.0", "0.9.3", true);
        check("v1.0.0", "0.9.3", true);
        check("0.9.3", "0.9.3", false);
        check("0.9.3-rc1", "0.9.3", false);
        check("0.9", "0.9.3", false);
        check("next", "0.9.3", false);
    }

    #[test]
    fn what_another_manager_left_is_found_wherever_it_is() {
        let ours = json!([{"name": "v1", "schema": {"properties": {"a": {"type": "string"}}}}]);
        assert!(!has_more(&ours, &ours));
        let check = |left: Value| assert!(has_more(&left, &ours), "{left}");
        check(json!([{"name": "v1", "schema": {"properties": {"a": {"type": "string", "default": "x"}}}}]));
        check(json!([{"name": "v1", "schema": {"properties": {"a": {"type": "string"}}}}, {"name": "v2"}]));
        assert!(!has_more(&json!([{"name": "v1"}]), &ours), "what is missing is not more");
    }

    #[test]
    fn the_definition_tells_its_version() {
        assert_eq!(definition().annotations()[VERSION], env!("CARGO_PKG_VERSION"));
    }
}
