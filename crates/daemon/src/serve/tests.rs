use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::routing::get;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::tls::TlsFiles;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_mins(1);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

fn router() -> Router {
    Router::new().route("/", get(async || "hello from the test"))
}

fn on_loopback() -> (TcpListener, SocketAddr) {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// One request over an open connection.
fn ask(stream: &mut (impl Read + Write)) -> io::Result<String> {
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while !answer.ends_with(b"hello from the test") {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..read]);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn stop(tasks: Tasks) {
    tasks.shutdown().cancel();
    tasks.finished(DRAIN).await.unwrap();
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

struct Counted(tokio::net::TcpStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn each_response_on_a_kept_connection_is_one_write() {
    let (listener, address) = on_loopback();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let writes = Arc::new(AtomicUsize::new(0));
    let asking = tokio::task::spawn_blocking(move || {
        let mut connection = TcpStream::connect(address).unwrap();
        for _ in 0..3 {
            ask(&mut connection).unwrap();
        }
    });
    let (stream, client) = listener.accept().await.unwrap();
    let terms = Terms {
        router: router(),
        limits: Limits::default(),
        traffic: Traffic::default(),
        hang_up: CancellationToken::new(),
    };
    terms
        .drive(Counted(stream, writes.clone()), client.ip())
        .await;
    asking.await.unwrap();
    assert_eq!(writes.load(Ordering::SeqCst), 3);
}

/// Like the connections that kube-scheduler keeps open to an extender.
#[tokio::test]
async fn a_client_that_keeps_its_connection_is_made_to_connect_anew() {
    let (listener, address) = on_loopback();
    let (tasks, connections) = (Tasks::new(), Connections::default());
    let kept = connections.clone();
    spawn(&tasks, "server", listener, None, router(), kept);
    for _ in 0..2 {
        let mut connection = TcpStream::connect(address).unwrap();
        connection = blocking(move || {
            ask(&mut connection).unwrap();
            connection
        })
        .await;
        connections.hang_up();
        // This read returns only when the connection is closed.
        let left = blocking(move || connection.read(&mut [0]).unwrap()).await;
        assert_eq!(left, 0);
    }
    stop(tasks).await;
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_its_connection_ends() {
    let (listener, address) = on_loopback();
    let (tasks, connections) = (Tasks::new(), Connections::default());
    let (arrived, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let router = {
        let (arrived, go) = (arrived.clone(), go.clone());
        let slow = async move || {
            arrived.notify_one();
            go.notified().await;
            "hello from the test"
        };
        Router::new().route("/", get(slow))
    };
    let kept = connections.clone();
    spawn(&tasks, "server", listener, None, router, kept);
    let asking = tokio::task::spawn_blocking(move || {
        let mut connection = TcpStream::connect(address).unwrap();
        let answer = ask(&mut connection);
        (answer, connection.read(&mut [0]))
    });
    arrived.notified().await;
    connections.hang_up();
    go.notify_one();
    let (answer, rest) = asking.await.unwrap();
    assert!(answer.unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(rest.unwrap(), 0);
    stop(tasks).await;
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let (_taken, address) = on_loopback();
    let error = listen(address).unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

/// A CA, and a directory with the files of a server certificate that it issued.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self {
            issuer,
            directory: tempfile::tempdir().unwrap(),
        };
        authority.renew();
        std::fs::write(authority.path("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn signed(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Writes a new server certificate and returns it.
    fn renew(&self) -> String {
        let (certificate, key) = self.signed();
        std::fs::write(self.path("key.pem"), key).unwrap();
        std::fs::write(self.path("cert.pem"), &certificate).unwrap();
        certificate
    }

    fn files(&self, check_clients: bool) -> TlsFiles {
        TlsFiles {
            certificate: self.path("cert.pem"),
            key: self.path("key.pem"),
            client_ca: check_clients.then(|| self.path("ca.pem")),
        }
    }

    fn client(&self, identity: Option<(String, String)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        })
    }
}

fn over_tls(files: TlsFiles, connections: Connections) -> (Tasks, SocketAddr) {
    let (listener, address) = on_loopback();
    let tasks = Tasks::new();
    let tls = Some(Tls::load(files).unwrap());
    spawn(&tasks, "server", listener, tls, router(), connections);
    (tasks, address)
}

/// One request over TLS: the answer, and the certificate that the server presented.
fn ask_tls(address: SocketAddr, client: Arc<ClientConfig>) -> io::Result<(String, Vec<u8>)> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(client, name).map_err(io::Error::other)?;
    let answer = ask(&mut rustls::Stream::new(&mut connection, &mut socket))?;
    let shown = connection.peer_certificates().unwrap()[0].to_vec();
    Ok((answer, shown))
}

#[tokio::test]
async fn with_a_client_ca_only_clients_it_signed_are_served() {
    let authority = Authority::new();
    let (tasks, address) = over_tls(authority.files(true), Connections::default());
    let known = authority.client(Some(authority.signed()));
    let unknown = authority.client(None);
    let foreign = authority.client(Some(Authority::new().signed()));
    blocking(move || {
        let (answer, _) = ask_tls(address, known).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"));
        assert!(ask_tls(address, unknown).is_err());
        assert!(ask_tls(address, foreign).is_err());
    })
    .await;
    stop(tasks).await;
}

#[tokio::test]
async fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let (listener, address) = on_loopback();
    let authority = Authority::new();
    let tasks = Tasks::new();
    let tls = Tls::load(authority.files(false)).unwrap();
    let (config, shutdown) = (Some(tls.config.clone()), tasks.shutdown().clone());
    let connections = Connections::default();
    let serving = serve(listener, config, router(), connections, shutdown);
    tasks.service("server", serving);
    let poll = Duration::from_millis(5);
    tasks.service("reload", tls.follow(poll, tasks.shutdown().clone()));

    let client = authority.client(None);
    let shown = {
        let client = client.clone();
        move || {
            let client = client.clone();
            blocking(move || ask_tls(address, client).unwrap().1)
        }
    };
    std::fs::write(authority.path("cert.pem"), "half a certifi").unwrap();
    shown().await;
    let renewed = CertificateDer::from_pem_slice(authority.renew().as_bytes()).unwrap();
    let until_renewed = async {
        while shown().await != renewed.as_ref() {
            tokio::time::sleep(poll).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_renewed).await.unwrap();
    stop(tasks).await;
}

/// Clients that take all places and never finish their handshakes must not keep others out for long.
#[tokio::test]
async fn handshakes_that_do_not_end_are_closed_and_their_places_are_free_again() {
    let authority = Authority::new();
    let limits = Limits {
        connections: 4,
        handshake: Duration::from_millis(100),
        ..Limits::default()
    };
    let connections = Connections::default().within(limits);
    let (tasks, address) = over_tls(authority.files(false), connections);
    let client = authority.client(None);
    blocking(move || {
        // The first bytes of a ClientHello, and none at all.
        let begun = [&[22, 3, 1, 2, 0][..], &[]];
        let mut silent: Vec<TcpStream> = begun
            .iter()
            .cycle()
            .take(4)
            .map(|bytes| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(bytes).unwrap();
                stream
            })
            .collect();
        for stream in &mut silent {
            let end = stream.read(&mut [0; 64]);
            let closed = matches!(&end, Ok(0))
                || matches!(&end, Err(error) if error.kind() != io::ErrorKind::WouldBlock);
            assert!(closed, "{end:?}");
        }
        let deadline = std::time::Instant::now() + PATIENCE;
        while let Err(error) = ask_tls(address, client.clone()) {
            assert!(std::time::Instant::now() < deadline, "{error}");
        }
    })
    .await;
    stop(tasks).await;
}

#[test]
fn a_file_that_is_missing_or_not_pem_is_named() {
    let authority = Authority::new();
    let mut files = authority.files(true);
    files.client_ca = Some(authority.path("absent.pem"));
    let error = Tls::load(files).unwrap_err().to_string();
    assert!(error.contains("absent.pem"), "{error}");

    std::fs::write(authority.path("cert.pem"), "").unwrap();
    let error = Tls::load(authority.files(false)).unwrap_err().to_string();
    let expected = "cert.pem holds no usable PEM certificate";
    assert!(error.contains(expected), "{error}");
}
