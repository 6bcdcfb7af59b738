//! What a service said, as one short line of stable text.

use serde_json::{Map, Value};

/// How much of a message is kept.
const LONGEST: usize = 300;
/// A word without a space that is longer than this is a token or a key, never prose.
const LONGEST_WORD: usize = 100;

/// The service's own words in the body of an error answer, or nothing.
pub(super) fn of_body(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let said = match serde_json::from_str::<Value>(&text) {
        Ok(json) => of_json(&json).unwrap_or_default(),
        Err(_) => text.into_owned(),
    };
    tidy(&without_markup(&said))
}

/// OpenStack's error shapes: `{"error": {"message"}}` (Keystone), `{"NeutronError": {"message"}}`,
/// `{"itemNotFound": {"message"}}` and the like (Nova), `{"message", "code", "title"}` (middleware),
/// `{"errors": [{"detail"}]}` (Placement, Magnum), and texts in their places.
fn of_json(json: &Value) -> Option<String> {
    match json {
        Value::String(text) => Some(text.clone()),
        Value::Object(object) => words(object).or_else(|| object.values().find_map(inner)),
        Value::Array(list) => list.iter().find_map(inner),
        _ => None,
    }
}

fn words(object: &Map<String, Value>) -> Option<String> {
    ["message", "detail", "description", "faultstring", "error", "title"]
        .iter()
        .filter_map(|key| object.get(*key)?.as_str())
        .find(|text| !text.trim().is_empty())
        .map(str::to_owned)
}

fn inner(value: &Value) -> Option<String> {
    match value {
        Value::Object(object) => words(object).or_else(|| object.values().find_map(inner)),
        Value::Array(list) => list.iter().find_map(inner),
        _ => None,
    }
}

/// The type that Neutron gives an error: `PortNotFound`, …
pub(super) fn error_type(body: &[u8]) -> Option<Box<str>> {
    let json: Value = serde_json::from_slice(body).ok()?;
    json.get("NeutronError")?.get("type")?.as_str().map(Box::from)
}

fn without_markup(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let whole_page = lower.contains("<html") || lower.trim_start().starts_with("<!doctype");
    // A page repeats its title in the body; a script or a style sheet says nothing.
    let text = match (whole_page, lower.find("<title>"), lower.find("</title>")) {
        (true, Some(start), Some(end)) if start + 7 <= end => &text[start + 7..end],
        _ => text,
    };
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        plain.push_str(before);
        let is_tag = tag[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!');
        match tag.find('>') {
            Some(end) if is_tag => {
                plain.push(' ');
                rest = &tag[end + 1..];
            }
            _ => {
                plain.push('<');
                rest = &tag[1..];
            }
        }
    }
    plain.push_str(rest);
    for (entity, character) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        plain = plain.replace(entity, character);
    }
    plain
}

/// One line, without what differs from one time to the next or must not be shown.
pub(crate) fn tidy(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace().filter(|word| !is_request_id(word)) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&tidy_word(word));
        if line.len() > LONGEST {
            break;
        }
    }
    line.retain(|c| !c.is_control());
    let line = line.trim_end_matches(" (Request-ID:").trim();
    cut(line, LONGEST)
}

fn is_request_id(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    word.strip_prefix("req-")
        .is_some_and(|id| id.len() == 36 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
}

fn tidy_word(word: &str) -> String {
    if word.len() > LONGEST_WORD {
        return "…".to_owned();
    }
    match word.find('?') {
        Some(start) if word[start..].contains('=') => word[..start].to_owned(),
        _ => without_ephemeral_port(word),
    }
}

/// `10.0.0.1:54321` → `10.0.0.1`: a client's port is another one at every connection.
fn without_ephemeral_port(word: &str) -> String {
    let mut kept = String::with_capacity(word.len());
    for (number, part) in word.split(':').enumerate() {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let is_ephemeral = part[..digits].parse().is_ok_and(|port: u32| (32_768..65_536).contains(&port));
        if number > 0 && is_ephemeral && kept.ends_with(|c: char| c.is_ascii_digit() || c == ']') {
            kept.push_str(&part[digits..]);
            continue;
        }
        if number > 0 {
            kept.push(':');
        }
        kept.push_str(part);
    }
    kept
}

fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = (0..=longest - 3).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}…", text[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expect: &str) {
        assert_eq!(of_body(body.as_bytes()), expect);
    }

    #[test]
    fn every_openstack_shape_gives_its_message() {
        check(
            r#"{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}"#,
            "The request you have made requires authentication.",
        );
        check(
            r#"{"NeutronError": {"type": "PortNotFound", "message": "Port 8605 could not be found.", "detail": ""}}"#,
            "Port 8605 could not be found.",
        );
        check(r#"{"NeutronError": "boom"}"#, "");
        check(
            r#"{"itemNotFound": {"code": 404, "message": "Instance x could not be found."}}"#,
            "Instance x could not be found.",
        );
        check(
            r#"{"message": "The server is currently unavailable. Please try again at a later time.<br /><br />\nThe Keystone service is temporarily unavailable.\n\n", "code": "503 Service Unavailable", "title": "Service Unavailable"}"#,
            "The server is currently unavailable. Please try again at a later time. The Keystone service is temporarily unavailable.",
        );
        check(r#"{"code": 404, "title": "Not Found", "description": null}"#, "Not Found");
        check(
            r#"{"errors": [{"status": 404, "title": "Not Found", "detail": "No such cluster"}]}"#,
            "No such cluster",
        );
        check(r#"{"error": "no such provider"}"#, "no such provider");
        check(r#"{"ports": []}"#, "");
    }

    #[test]
    fn html_is_reduced_to_what_it_says() {
        check(
            "<html>\r\n<head><title>414 Request-URI Too Large</title></head>\r\n<body>\r\n<center><h1>414 Request-URI Too Large</h1></center>\r\n</body></html>",
            "414 Request-URI Too Large",
        );
        check(
            "<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body></html>\n",
            "400 Bad request Your browser sent an invalid request.",
        );
    }

    #[test]
    fn what_varies_or_is_secret_is_left_out() {
        check("failed (Request-ID: req-5c7a387a-10ec-44cc-a14a-d2fb4a816355)", "failed");
        check("peer 10.0.0.1:54321: reset", "peer 10.0.0.1: reset");
        check("db 10.0.0.1:3306 away", "db 10.0.0.1:3306 away");
        check("no route /v3/x?token=abc here", "no route /v3/x here");
        check(&format!("bad token {}", "g".repeat(180)), "bad token …");
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let cut = of_body("가나 ".repeat(200).as_bytes());
        assert!(cut.len() <= LONGEST && cut.ends_with('…'), "{cut}");
    }
}
