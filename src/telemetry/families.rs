//! Samples by metric, and Prometheus' text format of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use metrics_exporter_prometheus::formatting;

use super::names::{self, Kind};

/// Whatever is read when somebody asks, instead of being counted as it happens.
pub trait Collector: Send + Sync {
    /// Adds the samples as they are now.
    fn collect(&self, families: &mut Families);
}

/// Samples by metric.
#[derive(Debug, Default)]
pub struct Families(BTreeMap<String, Vec<String>>);

impl Families {
    /// One sample; `labels` is what stands between the braces, see [`label`].
    pub fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let mut line = String::with_capacity(name.len() + labels.len() + 24);
        // Writing into a `String` cannot fail.
        let _ = match labels {
            "" => writeln!(line, "{name} {value}"),
            _ => writeln!(line, "{name}{{{labels}}} {value}"),
        };
        self.lines(name, line);
    }

    /// Lines that are written already.
    pub(super) fn lines(&mut self, name: &str, lines: String) {
        match self.0.get_mut(name) {
            Some(family) => family.push(lines),
            None => drop(self.0.insert(name.to_owned(), vec![lines])),
        }
    }

    /// Everything in text format 0.0.4, sorted.
    pub(super) fn text(self) -> String {
        let mut out = String::with_capacity(self.0.values().flatten().map(String::len).sum::<usize>() + 8192);
        for (name, mut series) in self.0 {
            header(&mut out, &name, &series);
            series.sort_unstable();
            out.extend(series);
        }
        out
    }
}

/// `name="value"`, escaped.
pub fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", formatting::sanitize_label_value(value))
}

/// The type comes from the table, not from the macro: a counter of seconds has to be a `gauge!` that only
/// grows, since the counters of `metrics` are whole numbers.
fn header(out: &mut String, name: &str, series: &[String]) {
    let known = names::find(name);
    if let Some(metric) = known {
        formatting::write_help_line(out, name, None, None, metric.help);
    }
    let kind = match known.map(|metric| metric.kind) {
        Some(kind) => kind.as_str(),
        None if series.iter().any(|lines| lines.contains("_bucket")) => "histogram",
        None => "untyped",
    };
    formatting::write_type_line(out, name, None, None, kind);
}

impl Kind {
    /// Prometheus' word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}
