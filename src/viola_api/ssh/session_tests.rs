//! Against an SSH server in this process, for what a real sshd is hard to bring to: passwords, much output.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::keys::PrivateKey;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};
use russh::server::{self, Auth, ChannelOpenHandle, Msg, Response, Session};
use russh::{Channel, ChannelId};
use serde_json::json;

use super::*;
use crate::viola_api::ssh_options::SshOptions;

/// Which login the server takes.
#[derive(Clone, Copy, PartialEq)]
enum Login {
    Password,
    Interactive,
}

#[derive(Clone)]
struct Bastions {
    login: Login,
    /// What the command was given.
    input: Arc<Mutex<Vec<u8>>>,
}

impl server::Handler for Bastions {
    type Error = russh::Error;

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, russh::Error> {
        let is_right = self.login == Login::Password && (user, password) == ("deploy", "right");
        Ok(if is_right { Auth::Accept } else { Auth::reject() })
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _: &str,
        _: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, russh::Error> {
        if self.login != Login::Interactive {
            return Ok(Auth::reject());
        }
        let Some(mut response) = response else {
            let prompts = vec![("Password: ".into(), false)].into();
            return Ok(Auth::Partial { name: "".into(), instructions: "".into(), prompts });
        };
        let is_right = response.next().is_some_and(|answer| *answer == *b"right");
        Ok(if is_right { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        if command == b"forbidden" {
            return session.channel_failure(channel);
        }
        session.channel_success(channel)?;
        if command == b"talkative" {
            // Before it reads a byte of its input.
            for _ in 0..48 {
                session.data(channel, vec![b'x'; 32 * 1024])?;
            }
        }
        Ok(())
    }

    async fn data(&mut self, _: ChannelId, data: &[u8], _: &mut Session) -> Result<(), russh::Error> {
        self.input.lock().unwrap().extend_from_slice(data);
        Ok(())
    }

    async fn channel_eof(&mut self, channel: ChannelId, session: &mut Session) -> Result<(), russh::Error> {
        session.extended_data(channel, 1, b"so many words".to_vec())?;
        session.exit_status_request(channel, 3)?;
        session.close(channel)
    }
}

struct World {
    bastion: Bastion,
    input: Arc<Mutex<Vec<u8>>>,
    _task: OnDrop,
}

/// Ends the server with its test.
struct OnDrop(tokio::task::JoinHandle<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn world(login: Login, password: &str) -> World {
    let key = PrivateKey::new(KeypairData::Ed25519(Ed25519Keypair::from_seed(&[7; 32])), "").unwrap();
    let config = Arc::new(server::Config {
        keys: vec![key],
        auth_rejection_time: Duration::ZERO,
        ..server::Config::default()
    });
    let input = Arc::new(Mutex::new(Vec::new()));
    let handler = Bastions { login, input: Arc::clone(&input) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(session) = server::run_stream(Arc::clone(&config), stream, handler.clone()).await {
                tokio::spawn(session);
            }
        }
    });
    let bastion = Bastion {
        host: "127.0.0.1".to_owned(),
        port,
        user: "deploy".to_owned(),
        password: Some(Secret::new(password)),
        key: None,
        options: SshOptions::parse(&json!([])).unwrap(),
        kubectl: String::new(),
    };
    World { bastion, input, _task: OnDrop(task) }
}

#[tokio::test]
async fn a_password_is_given_in_either_way() {
    for login in [Login::Password, Login::Interactive] {
        let world = world(login, "right").await;
        let done = run(&world.bastion, &HostKeys::default(), "apply", b"nodes".to_vec()).await.unwrap();
        let expect = Done { stdout: String::new(), stderr: "so many words".to_owned(), exit_code: Some(3) };
        assert_eq!(done, expect);
        assert_eq!(*world.input.lock().unwrap(), b"nodes");
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_shown() {
    for login in [Login::Password, Login::Interactive] {
        let world = world(login, "hunter2").await;
        let error = run(&world.bastion, &HostKeys::default(), "apply", Vec::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "the login as \"deploy\" was refused with the password");
    }
}

#[tokio::test]
async fn a_server_that_runs_no_commands_is_no_silence() {
    let world = world(Login::Password, "right").await;
    let error = run(&world.bastion, &HostKeys::default(), "forbidden", Vec::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "the machine does not let commands be run");
}

#[tokio::test]
async fn more_output_than_is_kept_holds_up_neither_side() {
    let world = world(Login::Password, "right").await;
    let input = vec![b'i'; 5 * 1024 * 1024];
    let done = run(&world.bastion, &HostKeys::default(), "talkative", input.clone()).await.unwrap();
    assert_eq!((done.stdout.len(), done.exit_code), (MAX_CAPTURE, Some(3)));
    assert!(*world.input.lock().unwrap() == input);
}

#[tokio::test]
async fn a_machine_that_is_silent_ends_in_the_connect_timeout() {
    // Accepts by the kernel and never says a word.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut world = world(Login::Password, "right").await;
    world.bastion.port = listener.local_addr().unwrap().port();
    world.bastion.options.connect_timeout = Duration::from_millis(50);
    let error = run(&world.bastion, &HostKeys::default(), "apply", Vec::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "no SSH connection within ConnectTimeout (50ms)");
}
