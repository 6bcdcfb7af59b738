//! One command on a bastion: connect, log in, run, capture what it says.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use russh::client::{self, AuthResult, Handle, KeyboardInteractiveAuthResponse};

use russh::keys::{PrivateKeyWithHashAlg, PublicKeyOrCertificate, load_secret_key};
use russh::{Channel, ChannelMsg, Disconnect, Preferred};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::host_keys::{HostKeys, known_algorithms};
use crate::viola_api::routing::Bastion;
use crate::viola_api::settings::Secret;

/// What is kept of each of the two outputs: ten thousand lines of kubectl. The rest is read and dropped.
const MAX_CAPTURE: usize = 1024 * 1024;

/// A command that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// None: by a signal, or the connection ended first.
    pub(super) exit_code: Option<u32>,
}

/// Why a command did not run, for a person; no secret, nothing that varies.
#[derive(Debug, thiserror::Error)]
pub(super) enum SshError {
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Protocol(#[from] russh::Error),
}

/// Runs a command with `input` as its standard input.
///
/// # Errors
/// When it cannot be started. Whatever it does itself is in [`Done`].
pub(super) async fn run(
    bastion: &Bastion,
    host_keys: &HostKeys,
    command: &str,
    input: Vec<u8>,
) -> Result<Done, SshError> {
    let mut handle = connect(bastion, host_keys).await?;
    log_in(&mut handle, bastion).await?;
    let channel = handle.channel_open_session().await?;
    channel.exec(true, command).await?;
    let done = talk(channel, input).await;
    // It is said goodbye to at most; nothing depends on it.
    let _ = handle.disconnect(Disconnect::ByApplication, "", "en").await;
    done
}

async fn connect(bastion: &Bastion, host_keys: &HostKeys) -> Result<Handle<Client>, SshError> {
    let limit = bastion.options.connect_timeout;
    let too_late = |_| SshError::Refused(format!("no SSH connection within ConnectTimeout ({limit:?})"));
    let connecting = async {
        let stream = TcpStream::connect((bastion.host.as_str(), bastion.port)).await;
        let stream = stream.map_err(|error| SshError::Refused(format!("port {}: {error}", bastion.port)))?;
        let client = Client { bastion: bastion.clone(), host_keys: host_keys.clone() };
        client::connect_stream(Arc::new(config(bastion)), stream, client).await
    };
    timeout(limit, connecting).await.map_err(too_late)?
}

fn config(bastion: &Bastion) -> client::Config {
    let mut preferred = Preferred::default();
    // A machine has several keys: the one that is on record is the one to ask for.
    let known = known_algorithms(bastion);
    let (mut first, rest): (Vec<_>, Vec<_>) =
        preferred.key.iter().cloned().partition(|algorithm| known.contains(algorithm));
    first.extend(rest);
    preferred.key = Cow::Owned(first);
    client::Config {
        preferred,
        keepalive_interval: bastion.options.alive_interval,
        keepalive_max: bastion.options.alive_count,
        nodelay: true,
        ..client::Config::default()
    }
}

struct Client {
    bastion: Bastion,
    host_keys: HostKeys,
}

impl client::Handler for Client {
    type Error = SshError;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, SshError> {
        match key {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.host_keys.check(&self.bastion, key).map_err(SshError::Refused)?;
                Ok(true)
            }
            // Not asked for.
            PublicKeyOrCertificate::Certificate(_) => Ok(false),
        }
    }
}

/// By key where there is one, then by password.
async fn log_in(handle: &mut Handle<Client>, bastion: &Bastion) -> Result<(), SshError> {
    let mut tried = Vec::new();
    if let Some(path) = &bastion.key {
        tried.push("the key");
        if by_key(handle, &bastion.user, path).await? {
            return Ok(());
        }
    }
    if let Some(password) = &bastion.password {
        tried.push("the password");
        if by_password(handle, &bastion.user, password).await? {
            return Ok(());
        }
    }
    let tried = tried.join(" and ");
    Err(SshError::Refused(format!("the login as {:?} was refused with {tried}", bastion.user)))
}

async fn by_key(handle: &mut Handle<Client>, user: &str, path: &Path) -> Result<bool, SshError> {
    let refused = |problem: String| SshError::Refused(format!("sshKeyPath {}: {problem}", path.display()));
    let path_again = path.to_owned();
    let loading = tokio::task::spawn_blocking(move || load_secret_key(path_again, None));
    let key = loading.await.map_err(|error| refused(error.to_string()))?;
    let key =
        key.map_err(|error| refused(format!("{error}; it must be an unencrypted Ed25519 or ECDSA key")))?;
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), None);
    Ok(handle.authenticate_publickey(user, key).await?.success())
}

/// Many servers ask for a password only in the interactive way.
async fn by_password(handle: &mut Handle<Client>, user: &str, password: &Secret) -> Result<bool, SshError> {
    if let AuthResult::Success = handle.authenticate_password(user, password.expose()).await? {
        return Ok(true);
    }
    let mut answer = handle.authenticate_keyboard_interactive_start(user, None).await?;
    // A server may ask in several steps, of which one has no question.
    for _ in 0..3 {
        match answer {
            KeyboardInteractiveAuthResponse::Success => return Ok(true),
            KeyboardInteractiveAuthResponse::Failure { .. } => return Ok(false),
            KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                let answers = prompts.iter().map(|_| password.expose().to_owned()).collect();
                answer = handle.authenticate_keyboard_interactive_respond(answers).await?;
            }
        }
    }
    Ok(matches!(answer, KeyboardInteractiveAuthResponse::Success))
}

/// Writes the input while it reads the output: neither side waits for the other.
async fn talk(channel: Channel<client::Msg>, input: Vec<u8>) -> Result<Done, SshError> {
    let (mut reader, writer) = channel.split();
    let writing = async {
        // A command that does not read to its end says why by its exit code.
        if writer.data(input.as_slice()).await.is_ok() {
            let _ = writer.eof().await;
        }
    };
    let reading = async {
        let (mut stdout, mut stderr, mut exit_code) = (Vec::new(), Vec::new(), None);
        while let Some(message) = reader.wait().await {
            match message {
                ChannelMsg::Data { data } => keep(&mut stdout, &data),
                ChannelMsg::ExtendedData { data, .. } => keep(&mut stderr, &data),
                // More output may follow.
                ChannelMsg::ExitStatus { exit_status } => exit_code = Some(exit_status),
                ChannelMsg::Failure => {
                    return Err(SshError::Refused("the machine does not let commands be run".to_owned()));
                }
                ChannelMsg::Close => break,
                _ => {}
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Done { stdout: text(stdout), stderr: text(stderr), exit_code })
    };
    tokio::pin!(writing, reading);
    tokio::select! {
        done = &mut reading => return done,
        () = &mut writing => {}
    }
    reading.await
}

fn keep(kept: &mut Vec<u8>, data: &[u8]) {
    let room = MAX_CAPTURE.saturating_sub(kept.len());
    kept.extend_from_slice(&data[..data.len().min(room)]);
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
