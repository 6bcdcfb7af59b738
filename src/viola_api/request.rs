//! What is posted: read, checked for what has to be there, and cut to what the resource has.
//!
//! What is wrong with one node's values is that node's matter: the API server refuses it, and the others are
//! applied. Only what makes a request meaningless as a whole is refused as a whole.

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

use crate::http::ApiError;
use crate::kube::node_config::object::object_of;
use crate::kube::node_config::{MultiNicNodeConfig, MultiNicNodeConfigSpec, NodeInterface};

/// One node. Fields beyond these are allowed and ignored.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NodeConfigInput)]
pub(crate) struct PostedNode {
    /// Kubernetes name of the node.
    #[schema(value_type = String, required, min_length = 1, example = "worker-1")]
    node_name: Option<String>,
    /// UUID of the VM.
    #[schema(value_type = String, required, min_length = 1, example = "a3c1c0de-0000-4000-8000-000000000001")]
    instance_id: Option<String>,
    /// The node's NICs.
    #[schema(value_type = Vec<PostedInterface>, required, min_items = 1)]
    interfaces: Option<Vec<PostedInterface>>,
}

/// One NIC.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InterfaceInput)]
pub(crate) struct PostedInterface {
    /// Index of the interface.
    #[schema(minimum = 0, maximum = 9, example = 0)]
    id: Option<i64>,
    /// Name that it gets.
    #[schema(pattern = "^multinic[0-9]+$", example = "multinic0")]
    name: Option<String>,
    /// By this the agent finds the NIC.
    #[schema(value_type = String, required, pattern = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$", example = "fa:16:3e:00:00:01")]
    mac_address: Option<String>,
    /// IPv4 address.
    #[schema(example = "192.0.2.10")]
    address: Option<String>,
    /// Subnet of the address.
    #[schema(example = "192.0.2.0/24")]
    cidr: Option<String>,
    /// MTU in bytes.
    #[schema(minimum = 68, maximum = 9000, example = 1450)]
    mtu: Option<i64>,
    /// UUID of the Neutron port.
    port_id: Option<String>,
}

/// The objects that a body asks for, in its order, with the node names as they were sent.
///
/// # Errors
/// 400 with what is wrong with the body.
pub(super) fn objects(
    body: &[u8],
    namespace: &str,
    provider_id: Option<&str>,
) -> Result<Vec<MultiNicNodeConfig>, ApiError> {
    let nodes: Vec<PostedNode> = serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!("the body is not a JSON array of node configs: {error}"))
    })?;
    if nodes.is_empty() {
        return Err(ApiError::bad_request("the array of node configs is empty"));
    }
    let specs = nodes.into_iter().enumerate().map(|(index, node)| spec(index, node));
    let mut names = BTreeMap::new();
    let mut objects = Vec::new();
    for spec in specs {
        let spec = spec?;
        let node = spec.node_name.clone();
        let object = object_of(spec, namespace, provider_id).ok_or_else(|| {
            ApiError::bad_request(format!("no object can be named after the nodeName {node:?}"))
        })?;
        let name = object.metadata.name.clone().unwrap_or_default();
        if let Some(other) = names.insert(name.clone(), node.clone()) {
            let text = format!("the nodeNames {other:?} and {node:?} both make the object {name:?}");
            return Err(ApiError::bad_request(text));
        }
        objects.push(object);
    }
    Ok(objects)
}

fn spec(index: usize, node: PostedNode) -> Result<MultiNicNodeConfigSpec, ApiError> {
    let at = format!("[{index}]");
    let interfaces = node.interfaces.filter(|list| !list.is_empty());
    let interfaces = interfaces.ok_or_else(|| missing(&at, "interfaces"))?;
    let interfaces = interfaces.into_iter().enumerate();
    Ok(MultiNicNodeConfigSpec {
        node_name: required(node.node_name, &at, "nodeName")?,
        instance_id: Some(required(node.instance_id, &at, "instanceId")?),
        interfaces: interfaces
            .map(|(n, interface)| interface.cut(&format!("{at}.interfaces[{n}]")))
            .collect::<Result<_, _>>()?,
    })
}

impl PostedInterface {
    fn cut(self, at: &str) -> Result<NodeInterface, ApiError> {
        Ok(NodeInterface {
            id: self.id,
            name: self.name,
            mac_address: required(self.mac_address, at, "macAddress")?,
            address: self.address,
            cidr: self.cidr,
            mtu: self.mtu,
            port_id: self.port_id,
        })
    }
}

fn required(value: Option<String>, at: &str, field: &str) -> Result<String, ApiError> {
    value.filter(|value| !value.trim().is_empty()).ok_or_else(|| missing(at, field))
}

fn missing(at: &str, field: &str) -> ApiError {
    ApiError::bad_request(format!("{at}.{field} is missing or empty"))
}
