//! A client that sends exactly the bytes it is told, over one connection or several.

#![allow(dead_code)] // Each test binary uses its own part of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A test that waits longer than this hangs: it fails instead.
const DEADLINE: Duration = Duration::from_secs(30);

/// What the client of the recordings sent with every request: front ends count it.
const USUAL: &str = "Accept-Encoding: identity\r\nAccept: application/json\r\nUser-Agent: sim-client1\r\n";

/// An answer as it came.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The `id` of every entry of a list.
    pub fn ids(&self, list: &str) -> Vec<String> {
        let json = self.json();
        let entries = json[list].as_array().unwrap_or_else(|| panic!("no list {list}: {json}")).iter();
        entries.map(|entry| entry["id"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// One keep-alive connection.
pub struct Client {
    host: String,
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects to `http://host:port`.
    pub fn connect(url: &str) -> std::io::Result<Self> {
        let host = url.trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(Self { host, stream: BufReader::new(stream) })
    }

    /// Sends one request and reads its answer.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<Reply> {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{USUAL}", self.host);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        self.stream.get_mut().write_all(text.as_bytes())?;
        self.read()
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn read(&mut self) -> std::io::Result<Reply> {
        let status = self.line()?.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Reply { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

/// One request on a connection of its own.
pub fn request(
    url: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Reply> {
    Client::connect(url)?.send(method, target, headers, body)
}

/// `GET` with a token, on a connection of its own.
pub fn get(url: &str, target: &str, token: &str) -> std::io::Result<Reply> {
    request(url, "GET", target, &[("X-Auth-Token", token)], "")
}
