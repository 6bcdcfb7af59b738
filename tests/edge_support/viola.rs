//! A config, and a server with a certificate that nobody knows.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use multinic_actors::domain::config::{
    AllowedStatuses, Baseline, ChangePolicy, CloudAccess, Config, CredentialSource, EncryptKeySource,
    InterfaceOrder, Polling, RemovalPolicy, SelectionRules, SubnetSelector,
};
use multinic_actors::domain::ids::ConfigId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// A config that is delivered to `endpoint`.
pub fn config(endpoint: &str) -> Config {
    Config {
        id: ConfigId::new("ns", "a", "u"),
        generation: 1,
        revision: 1,
        created: Timestamp::UNIX_EPOCH,
        paused: false,
        vms: Vec::new(),
        subnets: SubnetSelector::Ids(Vec::new()),
        provider: "5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a01".into(),
        cloud: CloudAccess {
            source: CredentialSource::Contrabass {
                endpoint: "http://contrabass.invalid".to_owned(),
                provider_id: "provider".to_owned(),
                key: EncryptKeySource { secret: None, inline: None },
                timeout: Duration::from_secs(30),
                insecure_tls: false,
            },
            project: "project".into(),
            timeout: Duration::from_secs(30),
            insecure_tls: false,
            neutron_endpoint: None,
            nova_endpoint: None,
            interface: None,
            region: None,
            node_name_metadata_key: None,
            ca_bundle: None,
        },
        rules: SelectionRules {
            statuses: AllowedStatuses::All,
            baseline: Baseline::Any,
            project: None,
            order: InterfaceOrder::Sticky,
            rewiring_grace: Duration::from_secs(180),
        },
        change_policy: ChangePolicy::Auto,
        approvals: Default::default(),
        removal_policy: RemovalPolicy::Retain,
        polling: Polling::default(),
        down_port_fast_retry_max: 5,
        viola_endpoint: endpoint.to_owned(),
        delivery: Default::default(),
        force_reconcile: None,
    }
}

/// Answers every request with an empty 200, over TLS.
pub struct TlsServer {
    pub url: String,
    pub ca_pem: String,
}

impl TlsServer {
    pub async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (config, ca_pem) = certificate();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let Ok(mut connection) = acceptor.accept(connection).await else {
                    continue; // a client that does not trust us
                };
                let mut request = Vec::new();
                while !request.ends_with(b"}]}]")
                    && matches!(connection.read_buf(&mut request).await, Ok(1..))
                {}
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = connection.write_all(answer).await;
                let _ = connection.shutdown().await;
            }
        });
        Self { url, ca_pem }
    }
}

fn certificate() -> (ServerConfig, String) {
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = rcgen::Issuer::from_params(&params, &ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    (config, ca.pem())
}
