//! Reads the fields of a YAML mapping and collects what is wrong. No problem repeats a value: it may be a
//! password that was written in the wrong place.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The fields of one mapping.
pub(super) struct Fields<'f, 'p> {
    at: String,
    fields: &'f Map<String, Value>,
    known: BTreeSet<&'static str>,
    problems: &'p mut Vec<String>,
}

impl<'f, 'p> Fields<'f, 'p> {
    /// `at` is where it stands: `targets[2].`, or nothing.
    pub(super) fn new(at: String, fields: &'f Map<String, Value>, problems: &'p mut Vec<String>) -> Self {
        Self { at, fields, known: BTreeSet::new(), problems }
    }

    pub(super) fn problem(&mut self, field: &str, problem: &str) {
        self.problems.push(format!("{}{field}: {problem}", self.at));
    }

    /// What stands there; `null` is nothing.
    pub(super) fn get(&mut self, field: &'static str) -> Option<&'f Value> {
        self.known.insert(field);
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A text without the white space round it; an empty one is none.
    pub(super) fn text(&mut self, field: &'static str) -> Option<String> {
        match self.get(field)? {
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            _ => {
                self.problem(field, "must be a text (in quotes, if it looks like a number)");
                None
            }
        }
    }

    /// A text that has to be something.
    pub(super) fn parsed<T>(
        &mut self,
        field: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(field)?;
        parse(&text).map_err(|problem| self.problem(field, &problem)).ok()
    }

    pub(super) fn boolean(&mut self, field: &'static str) -> Option<bool> {
        let value = self.get(field)?;
        if !value.is_boolean() {
            self.problem(field, "must be true or false");
        }
        value.as_bool()
    }

    /// A TCP port; a number in quotes counts.
    pub(super) fn port(&mut self, field: &'static str) -> Option<u16> {
        let value = self.get(field)?;
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        let port = number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0);
        if port.is_none() {
            self.problem(field, "must be a port from 1 to 65535");
        }
        port
    }

    /// A field that nobody asked for is a mistake: a misspelt one would be ignored, and with it where to write.
    pub(super) fn finish(mut self) {
        let unknown: Vec<&String> =
            self.fields.keys().filter(|field| !self.known.contains(field.as_str())).collect();
        let known = self.known.iter().copied().collect::<Vec<_>>().join(", ");
        for field in unknown {
            self.problem(field, &format!("there is no such field; known are {known}"));
        }
    }
}
