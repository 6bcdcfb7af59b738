//! Where traces are sent: OpenTelemetry's own variables, since whoever runs a collector sets them for everything.

use url::Url;

use super::reader::Reader;

/// OTLP's path for traces, below the endpoint that all kinds of telemetry share.
const PATH: &str = "v1/traces";

/// No endpoint: no traces, though the specification knows a default.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Url> {
    let is_word = |text: &str, word: &str| text.trim().eq_ignore_ascii_case(word);
    let is_off = reader.variable("OTEL_SDK_DISABLED", |text| Ok(is_word(text, "true")));
    let is_none = reader.variable("OTEL_TRACES_EXPORTER", |text| Ok(is_word(text, "none")));
    if is_off == Some(true) || is_none == Some(true) {
        return None;
    }
    let whole = reader.variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", |text| url(text.trim()));
    let shared = reader.variable("OTEL_EXPORTER_OTLP_ENDPOINT", |text| {
        let mut url = url(text.trim())?;
        url.set_path(&format!("{}/{PATH}", url.path().trim_end_matches('/')));
        Ok(url)
    });
    let endpoint = whole.or(shared)?;
    let protocol = |text: &str| match text.trim() {
        "http/protobuf" => Ok(()),
        other => Err(format!("{other:?} is not spoken: give http/protobuf, and the port for it (4318)")),
    };
    // The protocol of traces goes before the one of all telemetry.
    let variable = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    let set = variable.into_iter().find(|name| reader.variable(name, |_| Ok(())).is_some());
    if let Some(name) = set {
        reader.variable(name, protocol);
    }
    Some(endpoint)
}

fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    url.ok_or_else(|| "must be a URL such as http://collector:4318".to_owned())
}
