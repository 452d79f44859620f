//! A minimal HTTP client: blocking, one connection, so that the server is what is measured.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Far longer than any answer takes, so that a hanging server does not hang the run.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Plain or with TLS.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A connection that is kept open.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    answer: Vec<u8>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// A request as it goes over the wire, made once and sent many times.
#[derive(Clone, Debug)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    pub(crate) fn get(path: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes())
    }

    /// `headers` are whole lines, each with its line end.
    pub(crate) fn post(path: &str, headers: &str, body: &[u8]) -> Self {
        let length = body.len();
        let mut text = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{headers}\r\n"
        )
        .into_bytes();
        text.extend_from_slice(body);
        Self(text)
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        Ok(Self::over(Box::new(connect(address)?)))
    }

    /// Opens a connection with TLS to a server with this certificate (PEM).
    pub(crate) fn open_tls(address: SocketAddr, certificate: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerName::from(address.ip());
        let session = ClientConnection::new(Arc::new(config), server)?;
        let stream = StreamOwned::new(session, connect(address)?);
        Ok(Self::over(Box::new(stream)))
    }

    /// Sends the next request at each call, and the first one again after the last.
    pub(crate) fn one_by_one<'a>(
        &'a mut self,
        requests: &'a [Request],
    ) -> impl FnMut() -> Result<()> + 'a {
        let mut next = requests.iter().cycle();
        move || self.send(next.next().context("no request")?).map(drop)
    }

    fn over(stream: Box<dyn Stream>) -> Self {
        Self {
            stream: BufReader::with_capacity(64 * 1024, stream),
            answer: Vec::new(),
        }
    }

    /// Sends a request and reads the whole answer, which must be a success.
    pub(crate) fn send(&mut self, request: &Request) -> Result<&[u8]> {
        self.stream.get_mut().write_all(&request.0)?;
        self.stream.get_mut().flush()?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let good = matches!(line.split(' ').nth(1), Some("200" | "201"));
        let status = line.trim().to_owned();
        let mut length = 0;
        loop {
            line.clear();
            ensure!(
                self.stream.read_line(&mut line)? > 0,
                "the answer ends in its head"
            );
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().context("the answer's length")?;
            }
        }
        self.answer.resize(length, 0);
        self.stream.read_exact(&mut self.answer)?;
        ensure!(good, "{status}: {}", String::from_utf8_lossy(&self.answer));
        Ok(&self.answer)
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}
