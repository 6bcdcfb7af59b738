//! What the Viola test API is told by its environment: the variables of its predecessor.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::Reader;
use super::values::{self, ListenAddress};
use crate::viola_api::{Secret, ServerSettings, Settings};

pub(super) fn read(reader: &mut Reader<'_>) -> Settings {
    let text = |text: &str| Ok(text.trim().to_owned());
    let path = |text: &str| Ok(PathBuf::from(text.trim()));
    let secret = |text: &str| Ok(Secret::new(text.trim()));
    let url = reader.variable("KUBE_API_SERVER", values::endpoint);
    let token = reader.variable("KUBE_TOKEN", secret);
    let ca_file = reader.variable("KUBE_CA_PATH", path);
    if url.is_none() && (token.is_some() || ca_file.is_some()) {
        reader.problem("KUBE_TOKEN and KUBE_CA_PATH are for an API server: KUBE_API_SERVER is missing");
    }
    // No object could be applied within zero: it counts as not set.
    let timeout = reader.variable("KUBECTL_TIMEOUT", values::duration).filter(|timeout| !timeout.is_zero());
    Settings {
        address: reader.variable("LISTEN_ADDR", values::listen_address).unwrap_or(ListenAddress::any(8080)),
        routing_file: reader.variable("ROUTING_CONFIG", path),
        namespace: reader
            .variable("TARGET_NAMESPACE", values::namespace)
            .unwrap_or_else(|| "multinic-system".to_owned()),
        timeout: timeout.unwrap_or(Duration::from_secs(30)),
        kubectl_path: reader.variable("KUBECTL_PATH", text).unwrap_or_else(|| "kubectl".to_owned()),
        server: url.map(|url| ServerSettings { url, token, ca_file }),
    }
}
