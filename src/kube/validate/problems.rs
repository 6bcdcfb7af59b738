//! Reads fields and collects what is wrong with them. No message repeats a value that could be a secret.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use multinic_actors::domain::reason::Reason;

use super::super::openstack_config::Given;
use super::super::raw_object::is_object_name;
use crate::settings::values;

/// How many problems of one list are told one by one.
const MAX_PER_LIST: usize = 5;

/// The fields in the order in which their problems are told, that of the CRD. A field that is not in
/// it follows the one that it belongs to, in the order of reading.
const ORDER: &[&str] = &[
    "metadata",
    "spec",
    "spec.subnetIDs",
    "spec.subnetID",
    "spec.subnetName",
    "spec.vmNames",
    "spec.paused",
    "spec.credentials",
    "spec.credentials.openstackProviderID",
    "spec.credentials.k8sProviderID",
    "spec.credentials.projectID",
    "spec.settings",
    "spec.settings.contrabassEndpoint",
    "spec.settings.contrabassEncryptKey",
    "spec.settings.contrabassTimeout",
    "spec.settings.contrabassInsecureTLS",
    "spec.settings.violaEndpoint",
    "spec.settings.openstackTimeout",
    "spec.settings.openstackInsecureTLS",
    "spec.settings.openstackNeutronEndpoint",
    "spec.settings.openstackNovaEndpoint",
    "spec.settings.openstackEndpointInterface",
    "spec.settings.openstackEndpointRegion",
    "spec.settings.openstackNodeNameMetadataKey",
    "spec.settings.openstackPortAllowedStatuses",
    "spec.settings.downPortFastRetryMax",
    "spec.settings.pollFastInterval",
    "spec.settings.pollSlowInterval",
    "spec.settings.pollErrorInterval",
    "spec.settings.pollFastWindow",
    "spec.settings.interfaceOrder",
    "spec.settings.changePolicy",
    "spec.settings.includeExistingPorts",
    "spec.settings.portsCreatedAfter",
    "spec.settings.portProject",
    "spec.settings.removalPolicy",
    "spec.settings.resyncInterval",
    "spec.settings.caBundleSecretRef",
    "spec.secrets",
];

/// Where a field stands: at its own place, else at the place of the object or list that it is in.
fn place(field: &str) -> usize {
    let is_within = |known: &str| {
        field.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let places = ORDER.iter().enumerate().filter(|(_, known)| is_within(known));
    places.max_by_key(|(_, known)| known.len()).map_or(ORDER.len(), |(place, _)| place)
}

/// What is wrong with an object so far.
#[derive(Default)]
pub(super) struct Problems {
    /// With the place of the field.
    found: Vec<(usize, String)>,
    fields: BTreeSet<String>,
    is_other_version: bool,
    is_subnet_required: bool,
}

impl Problems {
    /// `what` completes a sentence that begins with the field.
    pub(super) fn add(&mut self, field: &str, what: impl Display) {
        self.fields.insert(field.to_owned());
        self.found.push((place(field), format!("{field}: {what}")));
    }

    /// Something that must be there is not. Not told of an object of another version: that may well do without.
    pub(super) fn missing(&mut self, field: &str, what: impl Display) {
        if !self.is_other_version {
            self.add(field, what);
        }
    }

    pub(super) fn unsupported(&mut self, field: &str) {
        self.is_other_version = true;
        self.add(field, "is not supported by this version of the operator; remove it");
    }

    pub(super) fn subnet_required(&mut self) {
        self.is_subnet_required = true;
    }

    /// Whether something was found wrong with this very field.
    pub(super) fn concern(&self, field: &str) -> bool {
        self.fields.contains(field)
    }

    /// The condition's reason and message, if anything is wrong.
    pub(super) fn into_message(mut self) -> Option<(Reason, String)> {
        let reason = match (self.found.is_empty(), self.is_subnet_required) {
            (true, false) => return None,
            (true, true) => Reason::SubnetRequired,
            (false, _) => Reason::ConfigError,
        };
        if self.is_subnet_required {
            self.add("spec.subnetIDs", "must name at least one subnet (or subnetID, or subnetName)");
        }
        self.found.sort_by_key(|(place, _)| *place);
        let texts: Vec<String> = self.found.into_iter().map(|(_, text)| text).collect();
        Some((reason, texts.join("; ")))
    }

    /// Tells if `given` is of another type than `expected`.
    pub(super) fn type_of<T>(&mut self, field: &str, expected: &str, given: &Given<T>) {
        if let Given::Wrong(found) = given {
            let hint = match (expected, *found) {
                ("text", "a number" | "true or false") => " (put it in quotes)",
                _ => "",
            };
            self.add(field, format!("must be {expected}, not {found}{hint}"));
        }
    }

    pub(super) fn object<T: Clone + Default>(&mut self, field: &str, given: &Given<T>) -> T {
        self.type_of(field, "an object", given);
        given.as_ref().cloned().unwrap_or_default()
    }

    pub(super) fn flag(&mut self, field: &str, given: &Given<bool>) -> bool {
        self.type_of(field, "true or false without quotes", given);
        given.as_ref().copied().unwrap_or(false)
    }

    /// Trimmed; `None` when blank.
    pub(super) fn text(&mut self, field: &str, given: &Given<String>) -> Option<String> {
        self.type_of(field, "text", given);
        let text = given.as_ref()?.trim();
        if text.contains(char::is_control) {
            self.add(field, "must not contain control characters");
        }
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The entries that are not blank, trimmed.
    pub(super) fn texts(&mut self, field: &str, given: &Given<Vec<Given<String>>>) -> Vec<String> {
        self.entries(field, given, |_| None)
    }

    fn entries(
        &mut self,
        field: &str,
        given: &Given<Vec<Given<String>>>,
        problem: fn(&str) -> Option<&'static str>,
    ) -> Vec<String> {
        self.type_of(field, "a list", given);
        let mut own = Self::default();
        let mut texts = Vec::new();
        for (index, entry) in given.as_ref().into_iter().flatten().enumerate() {
            let entry_field = format!("{field}[{index}]");
            let text = own.text(&entry_field, entry);
            if let Some(what) = text.as_deref().and_then(problem).filter(|_| !own.concern(&entry_field)) {
                own.add(&entry_field, what);
            }
            texts.extend(text);
        }
        if !own.found.is_empty() {
            self.fields.insert(field.to_owned());
            let more = own.found.len().saturating_sub(MAX_PER_LIST);
            self.found.extend(own.found.into_iter().take(MAX_PER_LIST));
            if more > 0 {
                self.found.push((place(field), format!("{field}: {more} more entries are wrong")));
            }
        }
        texts
    }

    /// An OpenStack id: part of URLs, so nothing that would change one.
    pub(super) fn id(&mut self, field: &str, given: &Given<String>) -> Option<String> {
        let text = self.text(field, given)?;
        if let Some(what) = id_problem(&text) {
            self.add(field, what);
        }
        Some(text)
    }

    pub(super) fn ids(&mut self, field: &str, given: &Given<Vec<Given<String>>>) -> Vec<String> {
        self.entries(field, given, id_problem)
    }

    fn required(&mut self, field: &str, text: Option<String>) -> String {
        if text.is_none() && !self.concern(field) {
            self.missing(field, "is required");
        }
        text.unwrap_or_default()
    }

    pub(super) fn required_id(&mut self, field: &str, given: &Given<String>) -> String {
        let id = self.id(field, given);
        self.required(field, id)
    }

    /// Sent percent-encoded as one segment of a path; dots alone would climb it, encoded or not.
    pub(super) fn required_segment(&mut self, field: &str, given: &Given<String>) -> String {
        let text = self.text(field, given);
        if text.as_deref().is_some_and(is_dots) {
            self.add(field, "must not be '.' or '..'");
        }
        self.required(field, text)
    }

    /// Sent as the value of an HTTP header.
    pub(super) fn required_header(&mut self, field: &str, given: &Given<String>) -> String {
        let text = self.text(field, given);
        if text.as_deref().is_some_and(|text| !text.is_ascii()) {
            self.add(field, "must consist of ASCII characters, as it is sent in an HTTP header");
        }
        self.required(field, text)
    }

    pub(super) fn secret_name(&mut self, field: &str, given: &Given<String>) -> String {
        let text = self.text(field, given);
        if text.as_deref().is_some_and(|text| !is_object_name(text)) {
            self.add(field, "is not the name of a Secret (lower-case letters, digits, '-' and '.')");
        }
        self.required(field, text)
    }

    pub(super) fn secret_key(&mut self, field: &str, given: &Given<String>) -> String {
        let text = self.text(field, given);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.as_deref().is_some_and(|text| !text.chars().all(is_plain)) {
            self.add(field, "is not a key of a Secret (letters, digits, '-', '_' and '.')");
        }
        self.required(field, text)
    }

    pub(super) fn endpoint(&mut self, field: &str, given: &Given<String>) -> Option<String> {
        let text = self.text(field, given)?;
        self.parsed(field, values::endpoint(&text))
    }

    pub(super) fn duration(&mut self, field: &str, given: &Given<String>) -> Option<Duration> {
        let text = self.text(field, given)?;
        self.parsed(field, values::duration(&text))
    }

    fn parsed<T>(&mut self, field: &str, result: Result<T, String>) -> Option<T> {
        if let Err(problem) = &result {
            // Of a text with a control character that is told already.
            if !self.concern(field) {
                self.add(field, problem);
            }
        }
        result.ok()
    }

    /// One of `choices`, whatever the case; `synonyms` are other words for them, in the same order.
    pub(super) fn choice<T: Copy>(
        &mut self,
        field: &str,
        given: &Given<String>,
        synonyms: &[&str],
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(field, given)?;
        let by_word = choices.iter().position(|(word, _)| word.eq_ignore_ascii_case(&text));
        let by_synonym = || synonyms.iter().position(|word| word.eq_ignore_ascii_case(&text));
        let chosen = by_word.or_else(by_synonym).and_then(|index| choices.get(index));
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.add(field, format!("must be one of {}", words.join(", ")));
        }
        chosen.map(|(_, value)| *value)
    }
}

fn id_problem(text: &str) -> Option<&'static str> {
    if text.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '\\')) {
        Some("is not an id: it contains white space or one of / ? # \\")
    } else if is_dots(text) {
        Some("is not an id")
    } else if text.len() > 255 {
        Some("is not an id: it is longer than 255 characters")
    } else {
        None
    }
}

fn is_dots(text: &str) -> bool {
    matches!(text, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::openstack_config::crd_yaml;

    #[test]
    fn every_field_of_the_crd_has_its_place() {
        let crd: serde_json::Value = yaml_serde::from_str(&crd_yaml().unwrap()).unwrap();
        let schema =
            &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let names = |object: &serde_json::Value| -> Vec<String> {
            object.as_object().unwrap().keys().cloned().collect()
        };
        let mut fields = Vec::new();
        for name in names(schema) {
            match name.as_str() {
                "credentials" | "settings" => {
                    let inner = names(&schema[&name]["properties"]);
                    fields.extend(inner.iter().map(|field| format!("spec.{name}.{field}")));
                }
                _ => fields.push(format!("spec.{name}")),
            }
        }
        assert!(fields.len() > 30, "{fields:?}");
        let lost: Vec<_> = fields.iter().filter(|field| !ORDER.contains(&field.as_str())).collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert_eq!(place("spec.vmNames[3]"), place("spec.vmNames"));
        assert!(place("spec.subnetID") > place("spec.subnetIDs"));
        assert_eq!(place("spec.settings.notifications"), place("spec.settings"));
    }
}
