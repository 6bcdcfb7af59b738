//! Label selectors as Kubernetes writes them: `a=b,c!=d,e in (f, g),h notin (i),j,!k`.

use std::fmt;

/// A label selector that the API server takes. It is checked here so that a bad one ends the start with all other
/// bad settings, not with a watch that is refused for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(String);

impl LabelSelector {
    /// Reads a selector; surrounding white space is ignored.
    ///
    /// # Errors
    /// What is wrong with which requirement.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        for requirement in requirements(text)? {
            check(requirement.trim())?;
        }
        Ok(Self(text.to_owned()))
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The parts between commas that stand in no parentheses.
fn requirements(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_in_set) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' if !is_in_set => is_in_set = true,
            ')' if is_in_set => is_in_set = false,
            '(' | ')' => return Err(format!("{text:?} has a parenthesis too many")),
            ',' if !is_in_set => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_in_set {
        return Err(format!("{text:?} has a parenthesis that is not closed"));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn check(requirement: &str) -> Result<(), String> {
    let expected = || {
        format!(
            "{requirement:?} is none of key=value, key!=value, key in (a, b), key notin (a, b), key, !key"
        )
    };
    if let Some(key) = requirement.strip_prefix('!') {
        return check_key(key.trim());
    }
    if let Some((left, set)) = requirement.split_once('(') {
        let (set, after) = set.split_once(')').ok_or_else(expected)?;
        let mut words = left.split_whitespace();
        let (key, operator) = (words.next(), words.next());
        let is_operator = matches!(operator, Some("in" | "notin"));
        if !is_operator || words.next().is_some() || !after.trim().is_empty() {
            return Err(expected());
        }
        check_key(key.unwrap_or_default())?;
        return set.split(',').try_for_each(|value| check_value(value.trim()));
    }
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = requirement.split_once(operator) {
            check_key(key.trim())?;
            return check_value(value.trim());
        }
    }
    if requirement.contains(char::is_whitespace) || requirement.is_empty() {
        return Err(expected());
    }
    check_key(requirement)
}

/// `[prefix/]name`, the prefix a DNS subdomain.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_prefix_right = prefix.is_none_or(super::raw_object::is_object_name);
    match is_prefix_right && !name.is_empty() && is_name(name) {
        true => Ok(()),
        false => Err(format!("{key:?} is not the key of a label")),
    }
}

fn check_value(value: &str) -> Result<(), String> {
    match is_name(value) {
        true => Ok(()),
        false => Err(format!("{value:?} is not the value of a label")),
    }
}

fn is_name(text: &str) -> bool {
    let is_end = |b: &u8| b.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.first().is_none_or(is_end)
        && bytes.last().is_none_or(is_end)
        && bytes.iter().all(|b| is_end(b) || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_takes_is_taken() {
        for text in [
            "shard=a",
            "shard==a",
            "shard!=a",
            "shard in (a,b), example.com/tier notin ( x )",
            "shard,!old",
            "shard=",
            "shard in (a,)",
        ] {
            assert_eq!(LabelSelector::parse(text).map(|s| s.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_wrong() {
        let check = |text: &str, part: &str| {
            let problem = LabelSelector::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text:?}: {problem}");
        };
        check("a b", "is none of");
        check("a=b,", "is none of");
        check("a in b", "is none of");
        check("a in (b", "not closed");
        check("a in (b))", "too many");
        check("a like (b)", "is none of");
        check("a=b c", "not the value");
        check("-a=b", "not the key");
        check("/a", "not the key");
        check("=b", "not the key");
    }
}
