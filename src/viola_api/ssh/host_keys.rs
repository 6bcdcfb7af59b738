//! Whether the machine that answers is the one that is meant.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use russh::keys::known_hosts::known_host_keys_path;
use russh::keys::{Algorithm, HashAlg, PublicKey};

use crate::viola_api::routing::Bastion;
use crate::viola_api::ssh_options::HostKeyPolicy;

/// Keys that were accepted as new. They are kept for the life of the process, over changes of the routing file:
/// the image has nowhere to write them.
#[derive(Clone, Default)]
pub(in crate::viola_api) struct HostKeys(Arc<Mutex<BTreeMap<(String, u16), PublicKey>>>);

impl HostKeys {
    /// Whether `key` may be the bastion's.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub(super) fn check(&self, bastion: &Bastion, key: &PublicKey) -> Result<(), String> {
        let policy = bastion.options.host_keys;
        if policy == HostKeyPolicy::Any {
            return Ok(());
        }
        let fingerprint = key.fingerprint(HashAlg::Sha256);
        let recorded = recorded(bastion)?;
        if recorded.iter().any(|known| is_same(known, key)) {
            return Ok(());
        }
        let file = bastion.options.known_hosts.as_deref();
        if recorded.iter().any(|known| known.algorithm() == key.algorithm()) {
            return Err(format!(
                "its host key ({fingerprint}) is not the one in {}: somebody may be in between; if the machine \
                 was set up anew, put its new key there",
                shown(file)
            ));
        }
        if policy == HostKeyPolicy::Known {
            return Err(format!(
                "its host key ({fingerprint}) is not known: put it into a file and name that in sshOptions as \
                 UserKnownHostsFile={}, or say StrictHostKeyChecking=accept-new",
                file.map_or("FILE".to_owned(), |file| file.display().to_string())
            ));
        }
        self.learn(bastion, key, &fingerprint.to_string())
    }

    /// The first key that is seen counts from then on.
    fn learn(&self, bastion: &Bastion, key: &PublicKey, fingerprint: &str) -> Result<(), String> {
        let mut learned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match learned.get(&(bastion.host.clone(), bastion.port)) {
            Some(known) if is_same(known, key) => Ok(()),
            Some(_) => Err(format!(
                "its host key ({fingerprint}) is not the one that it had before: somebody may be in between; if \
                 the machine was set up anew, restart this program"
            )),
            None => {
                tracing::warn!(host = bastion.host, fingerprint, "a new host key is accepted");
                learned.insert((bastion.host.clone(), bastion.port), key.clone());
                Ok(())
            }
        }
    }
}

/// The algorithms of the keys that are known of a bastion: those are asked for first.
pub(super) fn known_algorithms(bastion: &Bastion) -> Vec<Algorithm> {
    recorded(bastion).unwrap_or_default().iter().map(PublicKey::algorithm).collect()
}

fn recorded(bastion: &Bastion) -> Result<Vec<PublicKey>, String> {
    let Some(file) = &bastion.options.known_hosts else { return Ok(Vec::new()) };
    // It reads a missing file as an empty one.
    std::fs::File::open(file).map_err(|error| format!("UserKnownHostsFile {}: {error}", file.display()))?;
    let keys = known_host_keys_path(&bastion.host, bastion.port, file)
        .map_err(|error| format!("UserKnownHostsFile {}: {error}", file.display()))?;
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

/// Comments do not count.
fn is_same(a: &PublicKey, b: &PublicKey) -> bool {
    a.key_data() == b.key_data()
}

fn shown(file: Option<&Path>) -> String {
    file.map_or_else(String::new, |file| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::viola_api::ssh_options::SshOptions;

    const ONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILIG2T/B0l0gaqj3puu510tu9N1OkQ4znY3LYuEm5zCF";

    fn key(text: &str) -> PublicKey {
        PublicKey::from_openssh(text).unwrap()
    }

    fn bastion(options: serde_json::Value) -> Bastion {
        Bastion {
            host: "bastion.test".to_owned(),
            port: 22,
            user: "root".to_owned(),
            password: None,
            key: None,
            options: SshOptions::parse(&options).unwrap(),
            kubectl: "kubectl".to_owned(),
        }
    }

    #[test]
    fn a_new_key_counts_from_then_on() {
        let keys = HostKeys::default();
        let bastion = bastion(json!(["StrictHostKeyChecking=accept-new"]));
        assert_eq!(keys.check(&bastion, &key(ONE)), Ok(()));
        assert_eq!(keys.clone().check(&bastion, &key(ONE)), Ok(()));
        let problem = keys.check(&bastion, &key(OTHER)).unwrap_err();
        assert!(problem.contains("not the one that it had before"), "{problem}");
    }

    #[test]
    fn a_file_of_known_hosts_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known_hosts");
        std::fs::write(&file, format!("bastion.test {ONE}\nother.test {OTHER}\n")).unwrap();
        let keys = HostKeys::default();
        let with_file = bastion(json!([format!("UserKnownHostsFile={}", file.display())]));
        assert_eq!(keys.check(&with_file, &key(ONE)), Ok(()));
        let problem = keys.check(&with_file, &key(OTHER)).unwrap_err();
        assert!(problem.contains("is not the one in"), "{problem}");
        std::fs::write(&file, format!("other.test {ONE}\n")).unwrap();
        let problem = keys.check(&with_file, &key(ONE)).unwrap_err();
        assert!(problem.contains("is not known: put it into a file"), "{problem}");
        std::fs::remove_file(&file).unwrap();
        let problem = keys.check(&with_file, &key(ONE)).unwrap_err();
        assert!(problem.starts_with("UserKnownHostsFile "), "{problem}");
    }

    #[test]
    fn without_checking_any_key_will_do() {
        let keys = HostKeys::default();
        let bastion = bastion(json!(["StrictHostKeyChecking=no", "UserKnownHostsFile=/nonexistent"]));
        for text in [ONE, OTHER] {
            assert_eq!(keys.check(&bastion, &key(text)), Ok(()));
        }
    }
}
