//! The routing file: which provider id goes to which cluster, and how.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::fields::Fields;
use super::settings::{Secret, ServerSettings, Settings};
use super::ssh_options::SshOptions;
use crate::settings::values;

/// Where requests may go.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Routing {
    /// For requests without a provider id or with one that no target has. None with `strict`.
    pub(super) default: Option<Target>,
    /// One for each provider id.
    pub(super) targets: Vec<Target>,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    /// Whose requests; none for the default.
    pub(super) provider_id: Option<String>,
    /// Where the objects go.
    pub(super) namespace: String,
    /// How they get there.
    pub(super) mode: Mode,
}

/// How objects get into a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mode {
    /// Through its API server.
    Local(Cluster),
    /// By kubectl on a machine that reaches it.
    Ssh(Box<Bastion>),
}

/// How an API server is found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cluster {
    /// By these kubeconfigs; none: this process is a pod of it, else the user's own.
    Kubeconfig(Vec<PathBuf>),
    /// By its address.
    Server(ServerSettings),
}

/// A machine with kubectl.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bastion {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<Secret>,
    pub(super) key: Option<PathBuf>,
    pub(super) options: SshOptions,
    /// As a shell there finds it; may have arguments.
    pub(super) kubectl: String,
}

impl Routing {
    /// Without a routing file: everything to one cluster.
    pub(super) fn to_one(settings: &Settings, kubeconfig: Vec<PathBuf>) -> Self {
        let cluster = match &settings.server {
            Some(server) => Cluster::Server(server.clone()),
            None => Cluster::Kubeconfig(kubeconfig),
        };
        let namespace = settings.namespace.clone();
        let default = Target { provider_id: None, namespace, mode: Mode::Local(cluster) };
        Self { default: Some(default), targets: Vec::new() }
    }

    /// Reads a routing file.
    ///
    /// # Errors
    /// Everything that is wrong with it; never a value of it.
    pub(super) fn parse(text: &str, settings: &Settings) -> Result<Self, Vec<String>> {
        let value: Value = yaml_serde::from_str(text).map_err(|error| {
            // The parser's own text may show what stands there.
            let place = error.location();
            vec![match place {
                Some(place) => format!("no YAML, line {} column {}", place.line(), place.column()),
                None => "no YAML".to_owned(),
            }]
        })?;
        let Value::Object(file) = value else {
            return Err(vec!["must be a mapping with strict, default and targets".to_owned()]);
        };
        let mut problems = Vec::new();
        let routing = read_file(&file, settings, &mut problems);
        if problems.is_empty() { Ok(routing) } else { Err(problems) }
    }

    /// The files that the targets name beside it: what they hold is a part of the routing.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let targets = self.targets.iter().chain(&self.default);
        let files = targets.flat_map(|target| match &target.mode {
            Mode::Local(Cluster::Kubeconfig(files)) => files.clone(),
            // A CA is read again by the client itself.
            Mode::Local(Cluster::Server(_)) => Vec::new(),
            // A key and known hosts are read at each login.
            Mode::Ssh(_) => Vec::new(),
        });
        files.collect()
    }
}

fn read_file(file: &Map<String, Value>, settings: &Settings, problems: &mut Vec<String>) -> Routing {
    let mut fields = Fields::new(String::new(), file, problems);
    let is_strict = fields.boolean("strict").unwrap_or(false);
    let default = fields.get("default");
    let listed = match fields.get("targets") {
        None => &[],
        Some(Value::Array(list)) => list.as_slice(),
        Some(_) => {
            fields.problem("targets", "must be a list");
            &[]
        }
    };
    fields.finish();
    let mut targets = Vec::new();
    for (index, value) in listed.iter().enumerate() {
        let at = format!("targets[{index}]");
        let target = read_target(&at, value, settings, problems);
        if target.as_ref().is_some_and(|target| target.provider_id.is_none()) {
            problems.push(format!("{at}.providerId: is missing"));
        }
        targets.extend(target);
    }
    let mut seen = BTreeSet::new();
    for id in targets.iter().filter_map(|target| target.provider_id.as_deref()) {
        if !seen.insert(id) {
            problems.push(format!("targets: two have the providerId {id:?}"));
        }
    }
    let default = read_default(default, &targets, settings, problems);
    Routing { default: default.filter(|_| !is_strict), targets }
}

/// A target like the others, or the provider id of one of them.
fn read_default(
    value: Option<&Value>,
    targets: &[Target],
    settings: &Settings,
    problems: &mut Vec<String>,
) -> Option<Target> {
    let Some(Value::String(id)) = value else {
        return read_target("default", value?, settings, problems);
    };
    let named = targets.iter().find(|target| target.provider_id.as_deref() == Some(id.trim()));
    if named.is_none() {
        problems.push("default: must be a target, or the providerId of one of the targets".to_owned());
    }
    named.cloned()
}

fn read_target(at: &str, value: &Value, settings: &Settings, problems: &mut Vec<String>) -> Option<Target> {
    let Value::Object(target) = value else {
        problems.push(format!("{at}: must be a mapping"));
        return None;
    };
    let before = problems.len();
    let mut fields = Fields::new(format!("{at}."), target, problems);
    let provider_id = fields.text("providerId");
    let namespace = fields.parsed("namespace", values::namespace);
    let mode = fields.text("mode");
    let local = read_local(&mut fields);
    let ssh = read_ssh(&mut fields, settings);
    let mode = match mode.as_deref() {
        Some("ssh") => {
            if local.is_given {
                fields.problem(
                    "mode",
                    "ssh does not go with kubeApiServer, kubeToken, kubeCaPath or kubeconfigPath",
                );
            }
            ssh.complete(&mut fields).map(|bastion| Mode::Ssh(Box::new(bastion)))
        }
        None | Some("local") => {
            if ssh.is_given() {
                fields.problem("mode", "must be ssh where sshHost, sshUser or another ssh field is given");
            }
            local.complete(&mut fields).map(Mode::Local)
        }
        Some(_) => {
            fields.problem("mode", "must be local or ssh");
            None
        }
    };
    fields.finish();
    let mode = mode.filter(|_| problems.len() == before)?;
    Some(Target { provider_id, namespace: namespace.unwrap_or_else(|| settings.namespace.clone()), mode })
}

struct Local {
    is_given: bool,
    url: Option<String>,
    token: Option<Secret>,
    ca_file: Option<PathBuf>,
    kubeconfig: Option<PathBuf>,
}

fn read_local(fields: &mut Fields<'_, '_>) -> Local {
    let names = ["kubeApiServer", "kubeToken", "kubeCaPath", "kubeconfigPath"];
    Local {
        is_given: names.into_iter().any(|name| fields.get(name).is_some()),
        url: fields.parsed("kubeApiServer", values::endpoint),
        token: fields.text("kubeToken").map(|token| Secret::new(&token)),
        ca_file: fields.text("kubeCaPath").map(PathBuf::from),
        kubeconfig: fields.text("kubeconfigPath").map(PathBuf::from),
    }
}

impl Local {
    fn complete(self, fields: &mut Fields<'_, '_>) -> Option<Cluster> {
        match (self.url, self.kubeconfig) {
            (Some(_), Some(_)) => {
                fields.problem("kubeconfigPath", "does not go with kubeApiServer");
                None
            }
            (Some(url), None) => {
                Some(Cluster::Server(ServerSettings { url, token: self.token, ca_file: self.ca_file }))
            }
            (None, kubeconfig) => {
                if self.token.is_some() || self.ca_file.is_some() {
                    fields.problem("kubeApiServer", "is missing: kubeToken and kubeCaPath are for it");
                }
                Some(Cluster::Kubeconfig(kubeconfig.into_iter().collect()))
            }
        }
    }
}

struct Ssh {
    host: Option<String>,
    user: Option<String>,
    port: Option<u16>,
    password: Option<Secret>,
    key: Option<PathBuf>,
    options: Option<SshOptions>,
    kubectl: String,
}

fn read_ssh(fields: &mut Fields<'_, '_>, settings: &Settings) -> Ssh {
    let options = fields.get("sshOptions").and_then(|given| {
        let options = SshOptions::parse(given);
        options.map_err(|problem| fields.problem("sshOptions", &problem)).ok()
    });
    Ssh {
        host: fields.text("sshHost"),
        user: fields.text("sshUser"),
        port: fields.port("sshPort"),
        password: fields.text("sshPass").map(|password| Secret::new(&password)),
        key: fields.text("sshKeyPath").map(PathBuf::from),
        options,
        // Given in local mode it means nothing: its predecessor ran kubectl there too.
        kubectl: fields.text("kubectlPath").unwrap_or_else(|| settings.kubectl_path.clone()),
    }
}

impl Ssh {
    fn is_given(&self) -> bool {
        self.host.is_some() || self.user.is_some() || self.password.is_some() || self.key.is_some()
    }

    fn complete(self, fields: &mut Fields<'_, '_>) -> Option<Bastion> {
        for (name, is_missing) in [("sshHost", self.host.is_none()), ("sshUser", self.user.is_none())] {
            if is_missing {
                fields.problem(name, "is missing");
            }
        }
        if self.password.is_none() && self.key.is_none() {
            fields.problem("sshPass", "is missing; or give sshKeyPath, the file of a private key");
        }
        Some(Bastion {
            host: self.host?,
            port: self.port.unwrap_or(22),
            user: self.user?,
            password: self.password,
            key: self.key,
            options: self.options.unwrap_or_default(),
            kubectl: self.kubectl,
        })
    }
}

#[cfg(test)]
mod tests;
