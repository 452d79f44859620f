//! The proxy between our parts and the API server, which treats requests as the weather says.

mod forward;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use axum::Router;
use gpushare_rig::Rig;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::fate::{Fate, Kind, Weather, fate};

pub struct Proxy {
    address: SocketAddr,
    way: Arc<Way>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = channel();
        let rig = rig.clone();
        let kubeconfig = rig.kubeconfig();
        let serve = move || async move {
            let mut config = Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
            // Each request carries its own account.
            for user in &mut config.auth_infos {
                user.auth_info = Some(AuthInfo::default());
            }
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(config, &options).await;
            let client = kube::Client::try_from(config.expect("a valid kubeconfig"));
            let way = Arc::new(Way::new(client.expect("a client")));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0");
            let listener = listener.await.expect("a free port");
            let address = listener.local_addr().expect("an address");
            ready
                .send((address, way.clone()))
                .expect("the campaign waits");
            let app = Router::new().fallback(forward::forward).with_state(way);
            tokio::select! {
                _ = axum::serve(listener, app).into_future() => {}
                _ = stopped => {}
            }
        };
        let thread = thread::spawn(move || rig.run(serve));
        let (address, way) = started.recv().expect("the proxy starts");
        Self {
            address,
            way,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// A kubeconfig of an account that leads through this proxy. Its token is the account's name: the real one can be
    /// replaced at any time, as the kubelet replaces a pod's.
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

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
