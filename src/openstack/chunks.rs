//! How many servers' ports are asked for in one request. Front ends limit the length of a URL, some of
//! them by closing the connection or by losing the filter, so the bytes are counted before and what a
//! front end really takes is remembered.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use multinic_actors::domain::ids::VmId;
use reqwest::Url;
use tokio::time::Instant;
use url::form_urlencoded::byte_serialize;

use super::ports::FIELDS;

/// Ports per page. Servers that give fewer say so with a link.
const PAGE: usize = 500;
/// Request line and headers without host and token, with some room for what proxies add.
const OTHER_HEADERS: usize = 190;
/// A limit that was learned is tried again after this time: it may have been a restart.
const RELEARN_AFTER: Duration = Duration::from_secs(3600);

/// What each endpoint was found to take.
#[derive(Debug, Default)]
pub(super) struct Learned {
    most: Mutex<HashMap<String, (usize, Instant)>>,
}

impl Learned {
    /// How many ids the endpoint takes, as far as is known.
    pub(super) fn most(&self, root: &Url) -> Option<usize> {
        let most = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, at) = most.get(root.as_str())?;
        (at.elapsed() < RELEARN_AFTER).then_some(*most)
    }

    /// A request with more ids failed, and one with `ids` went through.
    pub(super) fn note(&self, root: &Url, ids: usize) {
        let mut most = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        most.retain(|_, (_, at)| at.elapsed() < RELEARN_AFTER);
        let entry = most.entry(root.to_string()).or_insert((ids, Instant::now()));
        if ids < entry.0 {
            *entry = (ids, Instant::now());
        }
    }
}

/// The URL that lists the ports of these servers.
pub(super) fn url(root: &Url, vms: &[VmId]) -> Url {
    let mut url = super::url_parts::join(root, "ports");
    let mut query: String = FIELDS.iter().map(|field| format!("fields={field}&")).collect();
    query.push_str(&format!("limit={PAGE}"));
    for vm in vms {
        query.push_str("&device_id=");
        query.extend(byte_serialize(vm.as_str().as_bytes()));
    }
    url.set_query(Some(&query));
    url
}

/// How many bytes of `device_id=` filters keep 2 × request target + headers within `bytes`: uWSGI keeps
/// the target and its query string.
pub(super) fn room(root: &Url, token: usize, bytes: usize) -> usize {
    let bare = url(root, &[]);
    let host = root.host_str().map_or(0, str::len) + 6;
    let target = bare.path().len() + 1 + bare.query().map_or(0, str::len);
    (bytes.saturating_sub(OTHER_HEADERS + host + token) / 2).saturating_sub(target)
}

/// Splits `vms` so that each part fits into `room` bytes and has at most `most` ids; at least one id.
pub(super) fn split(vms: &[VmId], room: usize, most: usize) -> Vec<Vec<VmId>> {
    let mut parts: Vec<Vec<VmId>> = Vec::new();
    let mut left = 0;
    for vm in vms {
        let needs = "&device_id=".len() + byte_serialize(vm.as_str().as_bytes()).map(str::len).sum::<usize>();
        match parts.last_mut() {
            Some(part) if needs <= left && part.len() < most => {
                part.push(vm.clone());
                left -= needs;
            }
            _ => {
                parts.push(vec![vm.clone()]);
                left = room.saturating_sub(needs);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vms(n: usize) -> Vec<VmId> {
        (0..n).map(|i| VmId::new(format!("00000000-0000-0000-0000-{i:012}"))).collect()
    }

    fn root() -> Url {
        "http://127.0.0.1:9696/v2.0".parse().unwrap()
    }

    #[test]
    fn fifty_servers_take_two_requests_with_the_default_budget() {
        let parts = split(&vms(50), room(&root(), 183, 3800), usize::MAX);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [32, 18]);
        // What uWSGI with its default buffer of 4,096 bytes has to hold.
        let url = url(&root(), &parts[0]);
        let target = url.path().len() + 1 + url.query().unwrap().len();
        assert!(2 * target + 183 + OTHER_HEADERS < 3800, "{target}");
    }

    #[test]
    fn a_larger_token_leaves_room_for_fewer() {
        let parts = |token| split(&vms(100), room(&root(), token, 3800), usize::MAX).len();
        assert!(parts(1000) > parts(100));
        assert_eq!(parts(100_000), 100, "one by one, never none");
    }

    #[test]
    fn what_was_learned_caps_every_part() {
        let parts = split(&vms(10), 1 << 20, 4);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(split(&[], 100, 4).len(), 0);
    }

    #[test]
    fn fields_are_repeated_and_odd_ids_are_encoded() {
        let url = url(&root(), &[VmId::new("a b&c")]);
        let query = url.query().unwrap();
        assert!(query.contains("fields=id&fields=mac_address&"), "{query}");
        assert!(query.ends_with("&device_id=a+b%26c"), "{query}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_smallest_limit_is_remembered_for_a_while() {
        let learned = Learned::default();
        assert_eq!(learned.most(&root()), None);
        learned.note(&root(), 16);
        learned.note(&root(), 8);
        learned.note(&root(), 12);
        assert_eq!(learned.most(&root()), Some(8));
        tokio::time::sleep(RELEARN_AFTER).await;
        assert_eq!(learned.most(&root()), None);
    }
}
