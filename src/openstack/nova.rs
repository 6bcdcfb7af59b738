//! Looking servers up in as few requests as it takes: one by its id, many by the list.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::{StreamExt, stream};
use multinic_actors::domain::ids::VmId;
use multinic_actors::domain::port::Server;
use multinic_actors::domain::reason::Reason;
use reqwest::Url;
use serde_json::Value;

use super::api::{Api, ApiError};
use super::errors;
use super::pages::{PageError, Pages};
use super::service::Service;
use super::url_parts;
use crate::upstream::{Body, ErrorKind};

const GET: &str = "get server";
const LIST: &str = "list servers";
/// Servers per page; about 2 KiB each. Servers that give fewer say so with a link.
const PAGE: usize = 500;
/// Look-ups by id at once. The cloud's own limit holds as well.
const AT_ONCE: usize = 4;
/// How often the list is begun anew because servers vanished under it.
const STARTS: usize = 3;

/// What a look-up found out.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Found or not found: those asked for, and whatever else the list had.
    pub(super) servers: HashMap<VmId, Server>,
    /// What went wrong for those that are missing.
    pub(super) failure: Option<String>,
    /// How many pages of the list were read, if it was asked for.
    pub(super) pages: Option<usize>,
}

/// Looks `vms` up. `pages`: how long the list was last time.
pub(super) async fn look_up(api: &Api<'_>, root: &Url, vms: Vec<VmId>, pages: usize) -> Looked {
    let mut wanted: BTreeSet<VmId> = vms.into_iter().collect();
    let mut looked = Looked::default();
    if wanted.len() > pages.max(1)
        && let Err(error) = list(api, root, &mut wanted, &mut looked).await
    {
        looked.failure = Some(text(error));
        return looked;
    }
    one_by_one(api, root, wanted, &mut looked).await;
    looked
}

fn text(error: ApiError) -> String {
    error.because(Reason::NovaError).message
}

/// Reads the list until all of `wanted` are found, or as many pages are read as look-ups would remain.
async fn list(
    api: &Api<'_>,
    root: &Url,
    wanted: &mut BTreeSet<VmId>,
    looked: &mut Looked,
) -> Result<(), ApiError> {
    let mut url = url_parts::join(root, "servers/detail");
    url.set_query(Some(&format!("limit={PAGE}")));
    let mut count = 0;
    'start: for start in 1..=STARTS {
        let mut pages = Pages::new(api, Service::Nova, LIST, "servers", url.clone());
        while count == 0 || wanted.len() > count {
            let page = match pages.next().await {
                Ok(Some(page)) => page,
                Ok(None) => break 'start,
                Err(PageError::MarkerGone(_)) if start < STARTS => continue 'start,
                Err(PageError::MarkerGone(error) | PageError::Circle(error) | PageError::Failed(error)) => {
                    return Err(error);
                }
            };
            count += 1;
            for (vm, server) in page.iter().filter_map(read) {
                wanted.remove(&vm);
                looked.servers.insert(vm, server);
            }
        }
        break;
    }
    looked.pages = Some(count);
    Ok(())
}

/// What an id's look-up says.
enum One {
    Server(Server),
    /// For this one only: the others may still be had.
    Failed(ApiError),
    /// Nova does not answer: no use in asking on.
    GaveUp(ApiError),
}

async fn one_by_one(api: &Api<'_>, root: &Url, wanted: BTreeSet<VmId>, looked: &mut Looked) {
    let mut failures: BTreeMap<VmId, String> = BTreeMap::new();
    let mut answers = stream::iter(wanted)
        .map(|vm| async {
            let one = by_id(api, root, &vm).await;
            (vm, one)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((vm, one)) = answers.next().await {
        match one {
            One::Server(server) => {
                looked.servers.insert(vm, server);
            }
            One::Failed(error) => {
                failures.insert(vm, text(error));
            }
            One::GaveUp(error) => {
                failures.insert(vm, text(error));
                break;
            }
        }
    }
    // Of several, always the same: the text may stand in a status.
    looked.failure = failures.into_values().next();
}

async fn by_id(api: &Api<'_>, root: &Url, vm: &VmId) -> One {
    let Some(segment) = url_parts::segment(vm.as_str()) else {
        return One::Server(Server::NotFound);
    };
    let url = url_parts::join(root, &format!("servers/{segment}"));
    match api.get(Service::Nova, GET, url).await {
        Ok(answer) => match answer.get("server").and_then(read) {
            Some((_, server)) => One::Server(server),
            None => {
                One::Failed(errors::invalid("nova", GET, "the answer has no server that can be read").into())
            }
        },
        Err(error) => match error.kind() {
            // A front end's 404 says nothing about the server.
            Some(ErrorKind::Status { code: 404, body, .. }) if *body != Body::Html => {
                One::Server(Server::NotFound)
            }
            // Nova itself has trouble with this one.
            Some(ErrorKind::Status { code, body: Body::Json, .. })
                if !matches!(code, 401 | 403 | 429 | 502..=504) =>
            {
                One::Failed(error)
            }
            _ => One::GaveUp(error),
        },
    }
}

fn read(json: &Value) -> Option<(VmId, Server)> {
    let id = json.get("id")?.as_str()?;
    let metadata = json.get("metadata").and_then(Value::as_object);
    let metadata = metadata
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let server = Server::Found {
        name: json.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        metadata: metadata.collect(),
    };
    Some((VmId::new(id), server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_server_is_read() {
        let exchange = include_str!("../../tests/fixtures/openstack/nova-server.http");
        let (_, body) = exchange.rsplit_once("\n\n{").unwrap();
        let body: Value = serde_json::from_str(&format!("{{{}", body.trim())).unwrap();
        let (vm, server) = read(&body["server"]).unwrap();
        assert_eq!(vm.as_str(), "0f2a5ddd-331d-4fa1-b5ad-0bb01e8c97b1");
        let Server::Found { name, metadata } = server else { panic!("{server:?}") };
        assert_eq!((name.as_str(), metadata.len()), ("vm-1", 0));
    }

    #[test]
    fn metadata_that_is_no_text_is_left_out() {
        let json = serde_json::json!({"id": "A", "name": null, "metadata": {"node": "n1", "odd": 7}});
        let (vm, server) = read(&json).unwrap();
        assert_eq!(vm.as_str(), "a");
        let metadata = BTreeMap::from([("node".to_owned(), "n1".to_owned())]);
        assert_eq!(server, Server::Found { name: String::new(), metadata });
    }
}
