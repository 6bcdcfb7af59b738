//! One authorised GET: a token, a turn, and one repeat after a 401.

use std::sync::Arc;

use multinic_actors::boundary::{CloudError, Urgency};
use multinic_actors::domain::config::Config;
use multinic_actors::domain::reason::Reason;
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Method, Request, Url};
use serde_json::Value;

use super::errors;
use super::keystone::Token;
use super::service::Service;
use super::sessions::{self, Binding, Need, Session, Sessions};
use crate::upstream::{ErrorKind, UpstreamError};

/// What a config may ask for in one round.
pub(super) struct Api<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) config: &'a Config,
    pub(super) binding: &'a Binding,
    pub(super) urgency: Urgency,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum ApiError {
    /// The service.
    Upstream(Box<UpstreamError>),
    /// The login that it needed.
    Session(Box<CloudError>),
}

impl From<UpstreamError> for ApiError {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(Box::new(error))
    }
}

impl ApiError {
    /// What happened at the service, if it was asked.
    pub(super) fn kind(&self) -> Option<&ErrorKind> {
        match self {
            Self::Upstream(error) => Some(&error.kind),
            Self::Session(_) => None,
        }
    }

    /// With the reason of what was being done; a failed login keeps its own.
    pub(super) fn because(self, reason: Reason) -> CloudError {
        match self {
            Self::Upstream(error) => errors::of(reason, *error),
            Self::Session(error) => *error,
        }
    }
}

impl Api<'_> {
    /// The session and a token to ask with.
    pub(super) async fn session(&self) -> Result<(Arc<Session>, Arc<Token>), CloudError> {
        self.sessions.ready(self.config, self.binding, Need::Usable).await
    }

    /// Gets a JSON document.
    pub(super) async fn get(
        &self,
        service: Service,
        operation: &'static str,
        url: Url,
    ) -> Result<Value, ApiError> {
        let (session, token) = self.session().await.map_err(|e| ApiError::Session(Box::new(e)))?;
        match self.ask(service, operation, &url, &session, &token).await {
            Err(error) if error.kind.status() == Some(401) => {
                let renewed = self
                    .sessions
                    .after_refusal(self.config, self.binding, (&session, &token), service)
                    .await
                    .map_err(|e| ApiError::Session(Box::new(e)))?;
                match renewed {
                    Some((session, token)) => {
                        Ok(self.ask(service, operation, &url, &session, &token).await?)
                    }
                    None => Err(error.into()),
                }
            }
            outcome => Ok(outcome?),
        }
    }

    async fn ask(
        &self,
        service: Service,
        operation: &'static str,
        url: &Url,
        session: &Session,
        token: &Token,
    ) -> Result<Value, UpstreamError> {
        let mut request = Request::new(Method::GET, url.clone());
        request.headers_mut().insert("x-auth-token", token.header.clone());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let turn = sessions::turn(self.config, session, service.name(), self.urgency);
        let call = sessions::call(self.config, session, service.name(), operation);
        let answer = self.sessions.http.send(&turn, &call, request).await?;
        session.patience.accepted(service);
        serde_json::from_slice(&answer.body)
            .map_err(|_| errors::invalid(service.name(), operation, "the answer is not JSON"))
    }
}
