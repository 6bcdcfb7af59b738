//! Which namespace may use which providers, projects and hosts: what `--policy-file` says.
//!
//! The first rule whose namespaces fit counts; a namespace without one may use nothing. [`Policy`] decides, without
//! IO; [`PolicyFile`] reads it and keeps it up to date.

mod file;
mod pattern;

use std::sync::Arc;

use multinic_actors::domain::config::{Config, CredentialSource, Declared, InvalidConfig};
use multinic_actors::domain::reason::Reason;
use serde::Deserialize;
use tokio::sync::watch;
use url::Url;

pub use file::PolicyFile;
use pattern::NO_HOST;
pub use pattern::{HostPattern, Pattern};

/// All rules, in order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// What some namespaces may use. A list that is not there allows everything, an empty one nothing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    /// For messages.
    name: Option<String>,
    namespaces: Vec<Pattern>,
    #[serde(rename = "openstackProviderIDs")]
    openstack_provider_ids: Option<Vec<Pattern>>,
    #[serde(rename = "k8sProviderIDs")]
    k8s_provider_ids: Option<Vec<Pattern>>,
    #[serde(rename = "projectIDs")]
    project_ids: Option<Vec<Pattern>>,
    endpoints: Option<Vec<HostPattern>>,
}

impl Policy {
    /// Reads YAML.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let policy: Self = yaml_serde::from_str(text).map_err(|error| said(&error))?;
        match policy.rules.iter().position(|rule| rule.namespaces.is_empty()) {
            Some(index) => Err(format!("rule {} has no namespaces", index + 1)),
            None => Ok(policy),
        }
    }

    /// The rule of a namespace, and what it is called.
    fn rule(&self, namespace: &str) -> Result<(&Rule, String), String> {
        let fits = |rule: &Rule| rule.namespaces.iter().any(|pattern| pattern.fits(namespace));
        let (index, rule) = self
            .rules
            .iter()
            .enumerate()
            .find(|(_, rule)| fits(rule))
            .ok_or_else(|| format!("no rule of the policy is for namespace {namespace:?}"))?;
        let name = rule.name.as_ref().map_or_else(|| (index + 1).to_string(), |name| format!("{name:?}"));
        Ok((rule, name))
    }

    /// Whether a request on behalf of a config of `namespace` may go to the host of `url`.
    ///
    /// # Errors
    /// Why not.
    pub fn permits(&self, namespace: &str, url: &Url) -> Result<(), String> {
        let (rule, name) = self.rule(namespace)?;
        match allows_host(rule, url) {
            true => Ok(()),
            false => Err(format!(
                "rule {name} of the policy does not let namespace {namespace:?} reach {}",
                authority(url)
            )),
        }
    }

    /// Everything in `config` that the policy does not allow, field by field. The operator's own Viola is always
    /// allowed.
    fn problems(&self, config: &Config, own_viola: Option<&str>) -> Vec<String> {
        let (rule, name) = match self.rule(&config.id.name.namespace) {
            Ok(found) => found,
            Err(problem) => return vec![problem],
        };
        let CredentialSource::Contrabass { endpoint, provider_id, .. } = &config.cloud.source;
        let mut problems = Vec::new();
        let mut refuse = |field: &str, value: &str| {
            problems.push(format!("spec.{field}: {value:?} is not allowed by rule {name} of the policy"));
        };
        let cluster = config.delivery.direct();
        let own_cluster = cluster.map(|to| format!("{}/{}", config.id.name.namespace, to.kubeconfig.name));
        for (field, value, allowed) in [
            ("credentials.openstackProviderID", provider_id.as_str(), &rule.openstack_provider_ids),
            ("credentials.k8sProviderID", config.provider.as_str(), &rule.k8s_provider_ids),
            ("credentials.projectID", config.cloud.project.as_str(), &rule.project_ids),
        ] {
            // Without a `k8sProviderID` that is the namespace's own Secret.
            if own_cluster.as_deref() == Some(value) && field == "credentials.k8sProviderID" {
                continue;
            }
            if allowed.as_ref().is_some_and(|allowed| !allowed.iter().any(|pattern| pattern.fits(value))) {
                refuse(field, value);
            }
        }
        let viola = Some(config.viola_endpoint.as_str());
        let viola = viola.filter(|viola| own_viola != Some(*viola) && cluster.is_none());
        for (field, value) in [
            ("settings.contrabassEndpoint", Some(endpoint.as_str())),
            ("settings.openstackNeutronEndpoint", config.cloud.neutron_endpoint.as_deref()),
            ("settings.openstackNovaEndpoint", config.cloud.nova_endpoint.as_deref()),
            ("settings.violaEndpoint", viola),
        ] {
            let Some(value) = value else { continue };
            if !Url::parse(value).is_ok_and(|url| allows_host(rule, &url)) {
                refuse(field, value);
            }
        }
        problems
    }
}

/// The parser's words without what stands in the file, which may be another one than meant: with a secret.
fn said(error: &yaml_serde::Error) -> String {
    let text = error.to_string();
    let at = error.location().map(|at| format!(" at line {} column {}", at.line(), at.column()));
    let at = at.unwrap_or_default();
    match (text.find("invalid "), text.rfind(", expected ")) {
        (Some(start), Some(end)) if start < end => {
            format!("{}another type or value than expected{}", &text[..start], &text[end..])
        }
        _ if text.contains("unknown field") || text.contains("missing field") || text.contains(NO_HOST) => {
            text
        }
        _ => format!("no policy in YAML{at}"),
    }
}

fn allows_host(rule: &Rule, url: &Url) -> bool {
    rule.endpoints.as_ref().is_none_or(|allowed| allowed.iter().any(|pattern| pattern.fits(url)))
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The policy as it is now. Without one everything is allowed.
#[derive(Clone, Debug)]
pub struct PolicyHandle {
    policy: watch::Receiver<Option<Arc<Policy>>>,
    /// The operator's own Viola.
    own_viola: Option<Arc<str>>,
}

impl Default for PolicyHandle {
    fn default() -> Self {
        Self { policy: watch::channel(None).1, own_viola: None }
    }
}

impl PolicyHandle {
    /// One that never changes.
    pub fn fixed(policy: Policy, own_viola: Option<&str>) -> Self {
        Self { policy: watch::channel(Some(Arc::new(policy))).1, own_viola: own_viola.map(Arc::from) }
    }

    fn now(&self) -> Option<Arc<Policy>> {
        self.policy.borrow().clone()
    }

    /// Waits for another policy.
    pub async fn changed(&mut self) {
        if self.policy.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether a request on behalf of a config of `namespace` may go to the host of `url`.
    ///
    /// # Errors
    /// Why not.
    pub fn permits(&self, namespace: &str, url: &Url) -> Result<(), String> {
        self.now().map_or(Ok(()), |policy| policy.permits(namespace, url))
    }

    /// The same for a delivery: the operator's own Viola is always allowed. Nothing else may go there: a
    /// catalog that names it would be sent tokens.
    ///
    /// # Errors
    /// Why not.
    pub fn permits_delivery(&self, namespace: &str, url: &Url) -> Result<(), String> {
        let own = self.own_viola.as_deref().and_then(|own| Url::parse(own).ok());
        if own.is_some_and(|own| own.origin() == url.origin()) {
            return Ok(());
        }
        self.permits(namespace, url)
    }

    /// The object as it may be used: one outside the policy is invalid.
    pub fn judge(&self, declared: Declared) -> Declared {
        let (Declared::Valid(config), Some(policy)) = (&declared, self.now()) else {
            return declared;
        };
        let problems = policy.problems(config, self.own_viola.as_deref());
        match problems.is_empty() {
            true => declared,
            false => Declared::Invalid(InvalidConfig {
                id: config.id.clone(),
                generation: config.generation,
                reason: Reason::ConfigError,
                message: problems.join("; "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use multinic_actors::testing::config;

    use super::*;

    const POLICY: &str = r#"
rules:
  - name: teams
    namespaces: [team-*]
    openstackProviderIDs: [prov-1]
    k8sProviderIDs: ["biz-*"]
    projectIDs: []
    endpoints: ["*.cloud.example.com", "10.0.0.5:5000"]
  - namespaces: ["*"]
    endpoints: [only.example.com]
"#;

    fn policy() -> Policy {
        Policy::parse(POLICY).unwrap()
    }

    #[test]
    fn the_first_rule_for_a_namespace_counts() {
        let check = |namespace: &str, url: &str, expect: Result<(), &str>| {
            let found = policy().permits(namespace, &Url::parse(url).unwrap());
            assert_eq!(found, expect.map_err(str::to_owned), "{namespace} {url}");
        };
        check("team-a", "https://nova.cloud.example.com/v2", Ok(()));
        check("team-a", "http://10.0.0.5:5000/v3", Ok(()));
        let refused =
            "rule \"teams\" of the policy does not let namespace \"team-a\" reach only.example.com:443";
        check("team-a", "https://only.example.com", Err(refused));
        check("other", "https://only.example.com", Ok(()));
        let refused = "rule 2 of the policy does not let namespace \"other\" reach 10.0.0.5:5000";
        check("other", "http://10.0.0.5:5000/v3", Err(refused));
        let none = Policy::parse("rules: []").unwrap();
        let url = Url::parse("http://a").unwrap();
        let problem = "no rule of the policy is for namespace \"a\"";
        assert_eq!(none.permits("a", &url), Err(problem.to_owned()));
    }

    #[test]
    fn a_config_outside_the_policy_is_told_every_field_and_the_rule() {
        let declared = Declared::from(config("a"));
        let handle = PolicyHandle::default();
        assert!(matches!(handle.judge(declared.clone()), Declared::Valid(_)), "without a policy");
        let text = "rules: [{namespaces: ['*'], projectIDs: [], k8sProviderIDs: [none], endpoints: []}]";
        let handle = PolicyHandle::fixed(Policy::parse(text).unwrap(), None);
        let Declared::Invalid(invalid) = handle.judge(declared.clone()) else { panic!("it is allowed") };
        assert_eq!(invalid.reason, Reason::ConfigError);
        for field in [
            "spec.credentials.k8sProviderID: ",
            "spec.credentials.projectID: ",
            "spec.settings.contrabassEndpoint: ",
            "spec.settings.violaEndpoint: ",
        ] {
            assert!(invalid.message.contains(field), "{}", invalid.message);
        }
        assert!(invalid.message.contains("is not allowed by rule 1 of the policy"), "{}", invalid.message);
        assert!(!invalid.message.contains("openstackProviderID"), "a list that is not there allows all");
    }

    #[test]
    fn the_operators_own_viola_is_always_allowed_and_for_deliveries_only() {
        let text = "rules: [{namespaces: ['*'], endpoints: [nothing.example.com]}]";
        let handle = PolicyHandle::fixed(Policy::parse(text).unwrap(), Some("http://viola.example.com:8080"));
        let permits = |url: &str| handle.permits_delivery("n", &Url::parse(url).unwrap()).is_ok();
        assert!(permits("http://viola.example.com:8080/v1/k8s"));
        assert!(handle.permits("n", &Url::parse("http://viola.example.com:8080/v3").unwrap()).is_err());
        assert!(!permits("http://viola.example.com:8081/v1/k8s"));
    }

    #[test]
    fn a_file_that_is_no_policy_is_not_shown() {
        for text in [
            "hunter2",
            "rules: hunter2",
            "rules: [{namespaces: hunter2}]",
            "rules: [{namespaces: [a], endpoints: [[hunter2]]}]",
            "kind: Secret\ndata: {token: hunter2}",
            "token: \"hunter2\nrules: []",
            "rules: *hunter2",
        ] {
            let problem = Policy::parse(text).unwrap_err();
            assert!(!problem.contains("hunter2"), "{text}: {problem}");
        }
    }

    #[test]
    fn a_bad_policy_is_refused_with_what_is_wrong() {
        let check = |text: &str, part: &str| {
            let problem = Policy::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        };
        check("rules: [{namespaces: []}]", "rule 1 has no namespaces");
        check("rules: [{namespace: [a]}]", "unknown field `namespace`");
        check("rules: [{namespaces: [a], endpoints: ['https://a']}]", "is no host");
        check("rule: []", "unknown field `rule`");
        check("", "");
    }
}
