//! Traces over OTLP (HTTP, protobuf): a round is one trace, with a span for each request to another system.
//!
//! Finished spans wait in a bounded queue for a thread of their own; what does not fit is dropped, so that a
//! collector that is away costs nothing but its traces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use multinic_actors::trace::TARGET;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;
use url::Url;

/// How long a collector may take for one batch.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last spans may take at the end of the process.
const LAST_SPANS: Duration = Duration::from_secs(3);
const SERVICE: &str = "multinic-operator";

/// Traces cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent to {to}: {problem}")]
pub struct TraceSetupError {
    to: String,
    problem: String,
}

/// The way to a collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Sends spans to this address. What else the specification's variables say (headers, sampler, resource
    /// attributes, batches) is taken from the environment.
    ///
    /// # Errors
    /// When the CA bundle has no certificate, or a variable cannot be read.
    pub fn start(endpoint: &Url, ca_bundle: Option<&str>) -> Result<Self, TraceSetupError> {
        let to = authority(endpoint);
        let failed = |problem: String| TraceSetupError { to: to.clone(), problem };
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client(ca_bundle).map_err(failed)?)
            .with_endpoint(endpoint.as_str())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let exporter = Watched { inner: exporter, to: to.clone(), is_failing: AtomicBool::new(false) };
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        Ok(Self { provider })
    }

    /// What takes the spans in.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let spans_of_ours = Targets::new().with_target(TARGET, LevelFilter::DEBUG);
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(spans_of_ours)
    }

    /// Sends what is left.
    pub fn stop(&self) {
        // What went wrong was told when it began to.
        let _ = self.provider.shutdown_with_timeout(LAST_SPANS);
    }
}

/// A client of its own, since the exporter's thread has no runtime. It is made on a thread too: within a runtime
/// it must not be.
fn client(ca_bundle: Option<&str>) -> Result<reqwest::blocking::Client, String> {
    let bundle = match ca_bundle {
        Some(pem) => reqwest::Certificate::from_pem_bundle(pem.as_bytes()),
        None => Ok(Vec::new()),
    };
    let bundle = bundle.map_err(|_| "the CA bundle has no usable certificate".to_owned())?;
    let builder = || {
        reqwest::blocking::Client::builder()
            .tls_backend_rustls()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
    };
    let build = move || {
        // As for all other requests: without any root certificate http:// still works.
        let client = builder().tls_certs_merge(bundle.clone()).build();
        client.or_else(|_| builder().tls_certs_only(bundle).build())
    };
    let built = std::thread::spawn(build).join().map_err(|_| "no HTTP client can be made".to_owned())?;
    built.map_err(|error| error.to_string())
}

fn resource() -> Resource {
    let given = Resource::builder().build();
    let is_unnamed = given
        .get(&Key::from_static_str("service.name"))
        .is_none_or(|name| name.as_str().starts_with("unknown_service"));
    let mut attributes = vec![KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    if is_unnamed {
        attributes.push(KeyValue::new("service.name", SERVICE));
    }
    if let Ok(host) = std::env::var("HOSTNAME") {
        attributes.push(KeyValue::new("service.instance.id", host));
    }
    Resource::builder().with_attributes(attributes).build()
}

fn authority(endpoint: &Url) -> String {
    let host = endpoint.host_str().unwrap_or_default();
    endpoint.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Tells when the collector begins to refuse, and when it takes spans again.
#[derive(Debug)]
struct Watched<E> {
    inner: E,
    to: String,
    is_failing: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let outcome = self.inner.export(batch).await;
        let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
        match &outcome {
            Err(error) if !was_failing => {
                tracing::warn!("traces are lost, {} does not take them: {error}", self.to);
            }
            Ok(()) if was_failing => tracing::info!("{} takes traces again", self.to),
            Ok(()) | Err(_) => {}
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
