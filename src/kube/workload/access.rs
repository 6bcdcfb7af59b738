//! The way into one workload cluster: a client made from the kubeconfig in a Secret, and made anew when that
//! is another.

use std::sync::Arc;

use kube::Client;
use kube::config::Kubeconfig;
use multinic_actors::domain::config::SecretKeyRef;
use reqwest::Url;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, Semaphore};

use crate::kube::client::connect_with;
use crate::policy::PolicyHandle;
use crate::secrets::SecretSource;

/// Batches to one cluster at a time; each applies several objects at once.
const TURNS: usize = 2;

/// The way into one workload cluster.
pub(super) struct Access {
    namespace: String,
    secret: SecretKeyRef,
    secrets: Arc<dyn SecretSource>,
    policy: PolicyHandle,
    current: Mutex<Option<Current>>,
    /// For batches: a cluster that is slow holds up its own configs only.
    pub(super) turns: Semaphore,
}

struct Current {
    digest: [u8; 32],
    /// Where the API server is.
    server: Option<Url>,
    client: Client,
}

impl Access {
    pub(super) fn new(
        namespace: String,
        secret: SecretKeyRef,
        secrets: Arc<dyn SecretSource>,
        policy: PolicyHandle,
    ) -> Self {
        Self { namespace, secret, secrets, policy, current: Mutex::new(None), turns: Semaphore::new(TURNS) }
    }

    /// What it is called: by its Secret.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.namespace, self.secret.name)
    }

    /// The client of the kubeconfig as it is now. The Secret is read each time: whoever rotates it need tell
    /// nobody.
    pub(super) async fn client(&self) -> Result<Client, String> {
        let (namespace, name) = (&self.namespace, &self.secret.name);
        let secret = self.secrets.get(namespace, name).await.map_err(|error| error.to_string())?;
        let told = |problem: &str| format!("secret {namespace}/{name} {problem}");
        let data = secret.ok_or_else(|| {
            told("with the workload cluster's kubeconfig is not there; create it, or name another in spec.delivery")
        })?;
        let text = data.text(&self.secret.key).map_err(|problem| told(&problem.to_string()))?;
        let digest: [u8; 32] = Sha256::digest(text.expose_secret()).into();
        let mut current = self.current.lock().await;
        if let Some(known) = current.as_ref().filter(|known| known.digest == digest) {
            self.permit(known.server.as_ref())?;
            return Ok(known.client.clone());
        }
        let kubeconfig = read(text.expose_secret()).map_err(|problem| told(&problem))?;
        let server = server_of(&kubeconfig);
        self.permit(server.as_ref())?;
        let client =
            connect_with(kubeconfig).await.map_err(|error| told(&format!("is of no use: {error}")))?;
        if current.is_some() {
            tracing::info!(
                "the kubeconfig in secret {namespace}/{name} is another one and is used from now on"
            );
        }
        *current = Some(Current { digest, server, client: client.clone() });
        Ok(client)
    }
}

impl Access {
    /// Whether the operator's policy lets the namespace reach the API server.
    fn permit(&self, server: Option<&Url>) -> Result<(), String> {
        server.map_or(Ok(()), |server| self.policy.permits(&self.namespace, server))
    }
}

/// The API server of the current context; what else is wrong with it is told when it is used.
fn server_of(kubeconfig: &Kubeconfig) -> Option<Url> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    Url::parse(cluster.server.as_ref()?).ok()
}

/// Reads a kubeconfig that somebody else wrote: what it names is used, but no program is run and no file of
/// this machine is read for it.
fn read(text: &str) -> Result<Kubeconfig, String> {
    // Without the parser's words, which may repeat what stands there.
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| "holds no kubeconfig".to_owned())?;
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let is_program = |user: &kube::config::AuthInfo| user.exec.is_some() || user.auth_provider.is_some();
    if users.clone().any(is_program) {
        return Err("has a kubeconfig that runs a program (exec, auth-provider); put a token or a client certificate in it"
            .to_owned());
    }
    let is_file = users.clone().any(|user| {
        user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some()
    });
    if is_file || clusters.clone().any(|cluster| cluster.certificate_authority.is_some()) {
        return Err("has a kubeconfig that names files; put their contents in it (kubectl config view --raw --flatten)"
            .to_owned());
    }
    Ok(kubeconfig)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'{cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             current-context: c\n"
        )
    }

    #[test]
    fn a_kubeconfig_of_somebody_else_runs_no_program_and_reads_no_file() {
        assert!(read(&kubeconfig("", "token: t")).is_ok());
        for (cluster, user, part) in [
            ("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", "runs a program"),
            ("", "auth-provider: {name: gcp, config: {}}", "runs a program"),
            ("", "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", "names files"),
            ("", "client-certificate: /etc/passwd", "names files"),
            ("", "client-key: /etc/passwd", "names files"),
            (", certificate-authority: /etc/passwd", "token: t", "names files"),
        ] {
            let problem = read(&kubeconfig(cluster, user)).unwrap_err();
            assert!(problem.contains(part), "{user}: {problem}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_repeated() {
        let problem = read("users: s3cr3t").unwrap_err();
        assert!(!problem.contains("s3cr3t"), "{problem}");
    }
}
