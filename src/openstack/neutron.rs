//! The ports of a config's servers: all of them, or an error.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use multinic_actors::boundary::CloudError;
use multinic_actors::domain::ids::VmId;
use multinic_actors::domain::port::ListedPort;
use multinic_actors::domain::reason::Reason;
use reqwest::Url;

use super::api::{Api, ApiError};
use super::chunks::{self, Learned};
use super::errors;
use super::pages::{PageError, Pages};
use super::ports::{self, Listed};
use super::service::Service;
use crate::upstream::ErrorKind;

const OPERATION: &str = "list ports";
/// Requests of one list at once. The cloud's own limit holds as well.
const AT_ONCE: usize = 4;
/// How often a list is begun anew because ports vanished under it.
const STARTS: usize = 3;

/// Every port of every one of `vms`, whatever its owner.
pub(super) async fn list_ports(
    api: &Api<'_>,
    root: &Url,
    vms: &[VmId],
    request_bytes: usize,
    learned: &Learned,
) -> Result<BTreeMap<VmId, Vec<ListedPort>>, CloudError> {
    let vms: Vec<VmId> = vms.iter().collect::<std::collections::BTreeSet<_>>().into_iter().cloned().collect();
    let (_, token) = api.session().await?;
    let room = chunks::room(root, token.header.len(), request_bytes);
    let parts = chunks::split(&vms, room, learned.most(root).unwrap_or(usize::MAX));
    let lists: Vec<Vec<(VmId, ListedPort)>> = stream::iter(parts)
        .map(|part| halving(api, root, part, learned))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
        .map_err(|error| error.because(Reason::NeutronPortError))?;
    let mut ports: BTreeMap<VmId, Vec<ListedPort>> = vms.into_iter().map(|vm| (vm, Vec::new())).collect();
    for (vm, port) in lists.into_iter().flatten() {
        ports.entry(vm).or_default().push(port);
    }
    Ok(ports)
}

/// Why a part has no list.
enum PartError {
    /// It may have been too long a request.
    TooLong(ApiError),
    /// Fewer servers would not help.
    Failed(ApiError),
}

/// The ports of some servers: asked for at once, or in halves where that is too long for the front end.
async fn halving(
    api: &Api<'_>,
    root: &Url,
    vms: Vec<VmId>,
    learned: &Learned,
) -> Result<Vec<(VmId, ListedPort)>, ApiError> {
    let mut found = Vec::new();
    // Parts to ask for, and for those that a longer request led to, the length that is now being tried.
    let mut todo = vec![(vms, None)];
    while let Some((part, tried)) = todo.pop() {
        match whole(api, root, &part).await {
            Ok(ports) => {
                found.extend(ports);
                if let Some(ids) = tried {
                    learned.note(root, ids);
                }
            }
            Err(PartError::TooLong(_)) if part.len() > 1 => {
                let half = part.len().div_ceil(2);
                let (first, second) = part.split_at(half);
                todo.push((second.to_vec(), Some(half)));
                todo.push((first.to_vec(), Some(half)));
            }
            Err(PartError::TooLong(error) | PartError::Failed(error)) => return Err(error),
        }
    }
    Ok(found)
}

/// The ports of some servers in one request (and its pages).
async fn whole(api: &Api<'_>, root: &Url, vms: &[VmId]) -> Result<Vec<(VmId, ListedPort)>, PartError> {
    let asked: HashSet<&VmId> = vms.iter().collect();
    let mut start = 1;
    'start: loop {
        let mut pages = Pages::new(api, Service::Neutron, OPERATION, "ports", chunks::url(root, vms));
        let mut found = Found::default();
        loop {
            match pages.next().await {
                Ok(Some(page)) => found.add(page.iter().map(ports::read), &asked)?,
                Ok(None) => return Ok(found.ports),
                Err(PageError::MarkerGone(_)) if start < STARTS => {
                    start += 1;
                    continue 'start;
                }
                Err(PageError::Failed(error)) if is_too_long(&error) => {
                    return Err(PartError::TooLong(error));
                }
                // Where the filter is lost and every port happens to be asked for, only the pages tell.
                Err(PageError::Circle(error)) => return Err(PartError::TooLong(error)),
                Err(PageError::MarkerGone(error) | PageError::Failed(error)) => {
                    return Err(PartError::Failed(error));
                }
            }
        }
    }
}

/// The answers of front ends to a URL that is too long for them.
fn is_too_long(error: &ApiError) -> bool {
    matches!(
        error.kind(),
        Some(
            ErrorKind::ConnectionLost { answer_began: false }
                | ErrorKind::Status { code: 400 | 413 | 414 | 431, .. }
        )
    )
}

#[derive(Default)]
struct Found {
    ports: Vec<(VmId, ListedPort)>,
    /// Where a port is in `ports`: one that moves between pages while they are read comes twice.
    places: HashMap<String, usize>,
}

impl Found {
    fn add(&mut self, page: impl Iterator<Item = Listed>, asked: &HashSet<&VmId>) -> Result<(), PartError> {
        let page: Vec<Listed> = page.collect();
        let invalid = |problem: String| ApiError::from(errors::invalid("neutron", OPERATION, problem));
        let is_foreign =
            |listed: &Listed| listed.device.as_ref().is_some_and(|device| !asked.contains(device));
        if page.iter().any(is_foreign) {
            return Err(PartError::TooLong(invalid(
                "the answer has ports of other devices: the filter was lost on the way".to_owned(),
            )));
        }
        for Listed { id, device, port } in page {
            let Some(device) = device else {
                return Err(PartError::Failed(invalid(format!(
                    "port {id:?} has no device_id that can be read"
                ))));
            };
            match self.places.get(&id) {
                Some(place) => self.ports[*place] = (device, port),
                None => {
                    if !id.is_empty() {
                        self.places.insert(id, self.ports.len());
                    }
                    self.ports.push((device, port));
                }
            }
        }
        Ok(())
    }
}
