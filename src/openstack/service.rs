use multinic_actors::domain::reason::Reason;

/// The services that take our token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Neutron,
    Nova,
}

impl Service {
    pub(super) const ALL: [Self; 2] = [Self::Neutron, Self::Nova];

    /// In error texts and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Neutron => "neutron",
            Self::Nova => "nova",
        }
    }

    /// In the catalog.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Neutron => "network",
            Self::Nova => "compute",
        }
    }

    /// Why a round fails when the catalog has no usable endpoint.
    pub(super) fn endpoint_reason(self) -> Reason {
        match self {
            Self::Neutron => Reason::NeutronEndpointError,
            Self::Nova => Reason::NovaError,
        }
    }

    pub(super) fn index(self) -> usize {
        match self {
            Self::Neutron => 0,
            Self::Nova => 1,
        }
    }
}
