//! `limit` and `continue`: a list in parts.
//!
//! The continuation names the last entry that was given, so it stays good while entries come and go, over
//! restarts, and at another replica.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::ApiError;
use super::query::Query;

/// What sorts an entry: `[providerId, nodeName]`, `[namespace, name]`, …
pub(super) type SortKey = Vec<String>;

/// Which part of a list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    limit: Option<usize>,
    after: Option<SortKey>,
}

impl Page {
    pub(super) fn of(query: &Query) -> Result<Self, ApiError> {
        let limit = query.get("limit").map(|text| match text.parse() {
            Ok(limit) if limit > 0 => Ok(limit),
            _ => Err(ApiError::bad_request("limit must be a whole number above 0")),
        });
        Ok(Self { limit: limit.transpose()?, after: query.get("continue").map(decode).transpose()? })
    }

    /// The part of `sorted`, and the continuation if there is more.
    pub(super) fn cut<T>(&self, mut sorted: Vec<T>, key: impl Fn(&T) -> SortKey) -> (Vec<T>, Option<String>) {
        if let Some(after) = &self.after {
            let start = sorted.partition_point(|entry| key(entry) <= *after);
            sorted.drain(..start);
        }
        let limit = self.limit.unwrap_or(usize::MAX);
        let is_cut = sorted.len() > limit;
        sorted.truncate(limit);
        let more = sorted.last().filter(|_| is_cut).map(|last| encode(&key(last)));
        (sorted, more)
    }
}

fn encode(key: &SortKey) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::json!(key).to_string())
}

fn decode(text: &str) -> Result<SortKey, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| ApiError::bad_request("continue is not one that this API gave"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Result<Page, ApiError> {
        Page::of(&Query::parse(query))
    }

    fn cut(query: &str, list: &[&str]) -> (Vec<String>, Option<String>) {
        let list = list.iter().map(|s| (*s).to_owned()).collect();
        page(query).unwrap().cut(list, |s: &String| vec![s.clone()])
    }

    #[test]
    fn parts_follow_each_other_without_gap_or_double() {
        let all = ["a", "b", "c", "d", "e"];
        let mut seen = Vec::new();
        let mut query = "limit=2".to_owned();
        loop {
            let (part, more) = cut(&query, &all);
            seen.extend(part);
            match more {
                Some(more) => query = format!("limit=2&continue={more}"),
                None => break,
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn a_continuation_outlives_the_entry_it_names() {
        let (_, more) = cut("limit=2", &["a", "b", "c"]);
        let query = format!("continue={}", more.unwrap());
        assert_eq!(cut(&query, &["a", "c", "d"]).0, ["c", "d"]);
    }

    #[test]
    fn what_is_no_limit_or_continuation_is_refused() {
        for query in ["limit=0", "limit=-1", "limit=x", "continue=%21", "continue=e30"] {
            assert!(page(query).is_err(), "{query}");
        }
    }
}
