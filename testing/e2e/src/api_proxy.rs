//! A proxy between the extender and the API server. A test can act at the exact moment of a bind, or hide from the
//! extender for a while what happens in the cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::follower::Background;
use crate::world::{World, client};

/// The kubeconfig that leads through the proxy.
const THROUGH: &str = "through-proxy";

/// What the proxy does with binds from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binds {
    /// Forward them.
    Pass,
    /// Hold the first bind before the API server sees it, until the test decides what becomes of it. Later binds
    /// never get through.
    HoldBefore,
    /// Forward the first bind and hold its answer, until the test decides what becomes of it. Later binds never
    /// get through.
    HoldAfter,
}

/// A bind that the proxy holds.
#[derive(Debug)]
pub struct HeldBind {
    delivered: oneshot::Sender<bool>,
    answered: oneshot::Receiver<StatusCode>,
}

impl HeldBind {
    /// Lets the bind continue, as if nothing had happened.
    pub fn deliver(self) {
        let _ = self.delivered.send(true);
    }

    /// As [`Self::deliver`], and returns the API server's answer, whether or not the sender still waits.
    pub fn deliver_late(self) -> StatusCode {
        let _ = self.delivered.send(true);
        self.answered
            .blocking_recv()
            .expect("the API server answers")
    }

    /// Breaks the connection, as if the bind or its answer were lost.
    pub fn lose(self) {
        let _ = self.delivered.send(false);
    }
}

struct Shared {
    client: kube::Client,
    mode: Mutex<Mode>,
    held: Sender<HeldBind>,
    /// Whether watches pass events on.
    watches: watch::Sender<bool>,
}

struct Mode {
    binds: Binds,
    /// The first bind has arrived.
    caught: bool,
}

pub struct ApiProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    held: Receiver<HeldBind>,
    _serving: Background,
}

impl std::fmt::Debug for ApiProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiProxy({})", self.address)
    }
}

impl ApiProxy {
    /// Listens on the rig's loopback, and restarts the world's extender, which follows the world through this proxy
    /// from now on.
    pub fn in_front_of(world: &mut World) -> Self {
        let proxy = Self::start(world);
        proxy.write_kubeconfig(world);
        world.restart_extender();
        proxy
    }

    fn start(world: &World) -> Self {
        let (held, receiver) = channel();
        let kubeconfig = world.kubeconfig("gpushare-extender");
        let serve = async move |ready: Sender<(SocketAddr, Arc<Shared>)>| {
            let shared = Arc::new(Shared {
                client: client(&kubeconfig).await,
                mode: Mutex::new(Mode {
                    binds: Binds::Pass,
                    caught: false,
                }),
                held,
                watches: watch::Sender::new(true),
            });
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
            let listener = listener.expect("a free port");
            let address = listener.local_addr().expect("an address");
            let began = ready.send((address, shared.clone()));
            began.expect("the test waits");
            let app = Router::new().fallback(forward).with_state(shared);
            let _ended = axum::serve(listener, app).await;
        };
        let (serving, (address, shared)) = Background::start(world.rig(), serve);
        Self {
            address,
            shared,
            held: receiver,
            _serving: serving,
        }
    }

    fn write_kubeconfig(&self, world: &mut World) {
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "proxy", "user": {}}],
        });
        let file = world.kubeconfig(THROUGH);
        std::fs::write(file, config.to_string()).expect("the kubeconfig is written");
        world.extenders_kubeconfig = THROUGH;
    }

    pub fn set(&self, binds: Binds) {
        *self.shared.mode.lock() = Mode {
            binds,
            caught: false,
        };
    }

    /// Holds back the events of all watches from now on, until the watches are released.
    pub fn hold_watches(&self) {
        self.shared.watches.send_replace(false);
    }

    pub fn let_watches_go(&self) {
        self.shared.watches.send_replace(true);
    }

    /// The bind that the proxy holds, once it has arrived.
    pub fn caught(&self) -> HeldBind {
        self.held
            .recv_timeout(crate::wait::PATIENCE)
            .expect("a bind comes")
    }
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|part| part == "watch=true") {
        let open = shared.watches.subscribe();
        return delayed(send(shared.client.clone(), request).await, open);
    }
    if !request.uri().path().ends_with("/binding") {
        return send(shared.client.clone(), request).await;
    }
    let (binds, first) = {
        let mut mode = shared.mode.lock();
        (mode.binds, !std::mem::replace(&mut mode.caught, true))
    };
    if binds != Binds::Pass && !first {
        // The sender is about to die; until then it gets no answer.
        return std::future::pending().await;
    }
    // A separate task, so that the sender's death does not cancel what the test lets through.
    let handling = tokio::spawn(async move {
        let mut tell = None;
        if binds == Binds::HoldBefore {
            tell = hold(&shared).await;
            if tell.is_none() {
                return Broken.into_response();
            }
        }
        let answer = send(shared.client.clone(), request).await;
        if binds == Binds::HoldAfter {
            tell = hold(&shared).await;
            if tell.is_none() {
                return Broken.into_response();
            }
        }
        if let Some(tell) = tell {
            // Most tests do not ask for the answer.
            let _ = tell.send(answer.status());
        }
        answer
    });
    handling.await.expect("handling ends")
}

/// The same answer, but its data stops while the watches are held.
fn delayed(answer: Response, open: watch::Receiver<bool>) -> Response {
    answer.map(|body| {
        let parts = (body.into_data_stream(), open);
        Body::from_stream(futures::stream::unfold(
            parts,
            async |(mut data, mut open)| {
                let part = data.next().await?;
                open.wait_for(|open| *open).await.ok()?;
                Some((part, (data, open)))
            },
        ))
    })
}

/// Returns where to report the answer of a bind that continues, or `None` if the bind is lost.
async fn hold(shared: &Shared) -> Option<oneshot::Sender<StatusCode>> {
    let (delivered, decided) = oneshot::channel();
    let (tell, answered) = oneshot::channel();
    let held = HeldBind {
        delivered,
        answered,
    };
    shared.held.send(held).expect("the test waits");
    decided.await.unwrap_or(false).then_some(tell)
}

async fn send(client: kube::Client, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .expect("a whole request");
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut copy = axum::http::Request::builder()
        .method(parts.method)
        .uri(path);
    for (name, value) in &parts.headers {
        if !["host", "authorization", "content-length"].contains(&name.as_str()) {
            copy = copy.header(name, value);
        }
    }
    let copy = copy
        .body(kube::client::Body::from(body))
        .expect("a valid request");
    match client.send(copy).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => {
            let text = format!("the API server does not answer: {error}");
            (StatusCode::BAD_GATEWAY, text).into_response()
        }
    }
}

/// A body that fails at once, which makes the server cut the connection.
struct Broken;

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        let fail = futures::stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("cut")) });
        Response::new(Body::from_stream(fail))
    }
}
