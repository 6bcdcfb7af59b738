//! The recorder behind the `metrics` macros.
//!
//! The exporter's own recorder cannot delete a series; a deleted config would be reported for ever. So
//! the registry is ours, the exporter only formats, and what belongs to a config is not in the registry at
//! all but collected from [`super::ConfigMetrics`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Label, Level, Metadata, Recorder, SharedString,
    Unit,
};
use metrics_exporter_prometheus::{LabelSet, formatting};
use metrics_util::registry::{Registry, Storage};
use multinic_actors::ACTOR_KINDS;

use super::families::{Collector, Families};
use super::names::{self, Kind};
use super::process;

const METADATA: Metadata<'static> = Metadata::new("multinic_operator", Level::INFO, None);

/// The metrics of this process, rendered for Prometheus.
#[derive(Clone)]
pub struct MetricsHandle {
    registry: Arc<Registry<Key, Series>>,
    collectors: Vec<Arc<dyn Collector>>,
}

impl fmt::Debug for MetricsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsHandle")
    }
}

/// Another recorder is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another metrics recorder is installed already")]
pub struct InstallError;

/// Makes the `metrics` macros of this process write here. Later calls give the same handle.
///
/// # Errors
/// When somebody else's recorder is in place.
pub fn install() -> Result<MetricsHandle, InstallError> {
    static INSTALLED: OnceLock<Result<MetricsHandle, InstallError>> = OnceLock::new();
    INSTALLED
        .get_or_init(|| {
            let handle = MetricsHandle::new();
            metrics::set_global_recorder(handle.clone()).map_err(|_| InstallError)?;
            Ok(handle)
        })
        .clone()
}

impl Default for MetricsHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricsHandle {
    /// Metrics of their own, not written to by the macros unless made the (local) recorder.
    pub fn new() -> Self {
        let handle = Self { registry: Arc::new(Registry::new(Series)), collectors: Vec::new() };
        for (name, labels) in names::FROM_ZERO {
            handle.start_at_zero(name, labels);
        }
        for kind in ACTOR_KINDS {
            handle.start_at_zero(names::ACTOR_HANDLE, &[("kind", kind)]);
        }
        handle.gauge(names::BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        handle
    }

    fn start_at_zero(&self, name: &'static str, labels: &[(&'static str, &str)]) {
        let key = key(name, labels);
        match names::find(name).map(|metric| metric.kind) {
            Some(Kind::Histogram(_)) => drop(self.register_histogram(&key, &METADATA)),
            _ => drop(self.register_counter(&key, &METADATA)),
        }
    }

    /// The same metrics, and what these collectors read at each look.
    pub fn with(&self, collectors: impl IntoIterator<Item = Arc<dyn Collector>>) -> Self {
        Self { registry: Arc::clone(&self.registry), collectors: collectors.into_iter().collect() }
    }

    /// Sets a gauge.
    pub fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.register_gauge(&key(name, labels), &METADATA).set(value);
    }

    /// Puts a value into a histogram.
    pub fn observe(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.register_histogram(&key(name, labels), &METADATA).record(value);
    }

    /// Everything in Prometheus' text format 0.0.4, sorted.
    pub fn render(&self) -> String {
        let mut families = Families::default();
        let mut add = |key: &Key, lines: String| {
            families.lines(&formatting::sanitize_metric_name(key.name()), lines);
        };
        self.registry.visit_counters(|key, value| add(key, line(key, Type::Counter, value)));
        self.registry.visit_gauges(|key, value| add(key, line(key, Type::Gauge, value)));
        self.registry.visit_histograms(|key, value| add(key, value.lines(key)));
        process::collect(&mut families);
        for collector in &self.collectors {
            collector.collect(&mut families);
        }
        families.text()
    }
}

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let labels: Vec<Label> =
        labels.iter().map(|(label, value)| Label::new(*label, (*value).to_owned())).collect();
    Key::from_parts(name, labels)
}

#[derive(Clone, Copy)]
enum Type {
    Counter,
    Gauge,
}

fn labels(key: &Key) -> LabelSet {
    LabelSet::from_key_and_global(key, &Default::default())
}

fn line(key: &Key, kind: Type, value: &AtomicU64) -> String {
    let mut out = String::new();
    let name = formatting::sanitize_metric_name(key.name());
    let raw = value.load(Ordering::Relaxed);
    let labels = labels(key);
    match kind {
        Type::Counter => {
            formatting::write_metric_line::<&str, u64>(&mut out, &name, None, &labels, None, raw, None)
        }
        Type::Gauge => {
            let value = f64::from_bits(raw);
            formatting::write_metric_line::<&str, f64>(&mut out, &name, None, &labels, None, value, None);
        }
    }
    out
}

impl Recorder for MetricsHandle {
    // Help and units stand in `names`, in one place.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.registry.get_or_create_counter(key, |counter| counter.clone().into())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.registry.get_or_create_gauge(key, |gauge| gauge.clone().into())
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.registry.get_or_create_histogram(key, |histogram| histogram.clone().into())
    }
}

/// How a series is kept.
struct Series;

impl Storage<Key> for Series {
    type Counter = Arc<AtomicU64>;
    type Gauge = Arc<AtomicU64>;
    type Histogram = Arc<Buckets>;

    fn counter(&self, _: &Key) -> Self::Counter {
        Arc::default()
    }

    fn gauge(&self, _: &Key) -> Self::Gauge {
        Arc::default()
    }

    fn histogram(&self, key: &Key) -> Self::Histogram {
        let bounds = match names::find(key.name()).map(|metric| metric.kind) {
            Some(Kind::Histogram(bounds)) => bounds,
            _ => names::SECONDS,
        };
        Arc::new(Buckets {
            bounds,
            counts: bounds.iter().map(|_| AtomicU64::new(0)).collect(),
            beyond: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        })
    }
}

/// A histogram with fixed bounds. Each value is counted in one bucket; the sums are made when rendered.
struct Buckets {
    bounds: &'static [f64],
    counts: Vec<AtomicU64>,
    beyond: AtomicU64,
    sum: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        let bucket = self.counts.get(index).unwrap_or(&self.beyond);
        bucket.fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Buckets {
    fn lines(&self, key: &Key) -> String {
        let mut out = String::new();
        let name = formatting::sanitize_metric_name(key.name());
        let labels = labels(key);
        let mut count = 0;
        for (bound, in_bucket) in self.bounds.iter().zip(&self.counts) {
            count += in_bucket.load(Ordering::Relaxed);
            let le = Some(("le", *bound));
            formatting::write_metric_line(&mut out, &name, Some("bucket"), &labels, le, count, None);
        }
        count += self.beyond.load(Ordering::Relaxed);
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let le = Some(("le", "+Inf"));
        formatting::write_metric_line(&mut out, &name, Some("bucket"), &labels, le, count, None);
        formatting::write_metric_line::<&str, f64>(&mut out, &name, Some("sum"), &labels, None, sum, None);
        formatting::write_metric_line::<&str, u64>(
            &mut out,
            &name,
            Some("count"),
            &labels,
            None,
            count,
            None,
        );
        out
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
