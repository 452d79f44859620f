//! The proxy between our parts and the API server, which treats requests as the weather says.

mod forward;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use gpushare_rig::Rig;
use kube::config::AuthInfo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::fate::{Fate, Kind, Weather, fate};
use crate::follower::Background;
use crate::world::client_config;

pub struct Proxy {
    address: SocketAddr,
    way: Arc<Way>,
    _serving: Background,
}

/// What all requests share.
struct Way {
    client: kube::Client,
    state: Mutex<State>,
    /// Changes when every open watch must break.
    cut: watch::Sender<u64>,
}

struct State {
    weather: Weather,
    seed: u64,
    /// How many requests of each kind were sent in this weather.
    numbers: [u64; 4],
    /// The real token of each account that our parts name.
    tokens: BTreeMap<String, String>,
    /// Requests that are still to be forwarded, at least once more.
    under_way: usize,
    fates: BTreeMap<&'static str, usize>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({})", self.address)
    }
}

impl Proxy {
    /// Listens on the rig's loopback.
    pub fn start(rig: &Arc<Rig>) -> Self {
        let kubeconfig = rig.kubeconfig();
        let serve = async move |ready: Sender<(SocketAddr, Arc<Way>)>| {
            let mut config = client_config(&kubeconfig).await;
            // Each request carries its own account.
            config.auth_info = AuthInfo::default();
            let client = kube::Client::try_from(config).expect("a client");
            let way = Arc::new(Way::new(client));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
            let listener = listener.expect("a free port");
            let address = listener.local_addr().expect("an address");
            let began = ready.send((address, way.clone()));
            began.expect("the campaign waits");
            let app = Router::new().fallback(forward::forward).with_state(way);
            let _ended = axum::serve(listener, app).await;
        };
        let (serving, (address, way)) = Background::start(rig, serve);
        Self {
            address,
            way,
            _serving: serving,
        }
    }

    /// A kubeconfig that leads an account through this proxy. Its token is the account's name, because the real token
    /// can be replaced at any time, as the kubelet replaces a pod's.
    pub fn kubeconfig(&self, account: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "proxy", "user": {"token": account}}],
        })
    }

    pub fn set_token(&self, account: &str, token: &str) {
        let mut state = self.way.state.lock();
        state.tokens.insert(account.to_owned(), token.to_owned());
    }

    /// Sets how requests are treated from now on.
    pub fn set_weather(&self, weather: Weather, seed: u64) {
        let mut state = self.way.state.lock();
        (state.weather, state.seed, state.numbers) = (weather, seed, [0; 4]);
    }

    /// Breaks every open watch.
    pub fn cut_watches(&self) {
        self.way.cut.send_modify(|count| *count += 1);
    }

    /// How many requests were held back and have not arrived yet.
    pub fn under_way(&self) -> usize {
        self.way.state.lock().under_way
    }

    /// How many requests met which fate.
    pub fn fates(&self) -> BTreeMap<&'static str, usize> {
        self.way.state.lock().fates.clone()
    }
}

impl Way {
    fn new(client: kube::Client) -> Self {
        let state = State {
            weather: Weather::Fair,
            seed: 0,
            numbers: [0; 4],
            tokens: BTreeMap::new(),
            under_way: 0,
            fates: BTreeMap::new(),
        };
        Self {
            client,
            state: Mutex::new(state),
            cut: watch::Sender::new(0),
        }
    }

    /// The fate of the next request of a kind.
    fn next(&self, kind: Kind) -> Fate {
        let mut state = self.state.lock();
        let number = state.numbers[kind as usize];
        state.numbers[kind as usize] += 1;
        let fate = fate(state.weather, state.seed, kind, number);
        let name = match (fate, kind) {
            (Fate::Late(_), Kind::Bind) => "bind late",
            _ => fate.name(),
        };
        *state.fates.entry(name).or_default() += 1;
        fate
    }

    /// The real token of the account that a part names.
    fn token(&self, account: &str) -> String {
        let state = self.state.lock();
        let token = state.tokens.get(account);
        token.cloned().unwrap_or_else(|| account.to_owned())
    }
}
