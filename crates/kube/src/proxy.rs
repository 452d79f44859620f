//! Proxies in front of the API server: none is used if it is on this machine.
//!
//! Clients take `HTTPS_PROXY` from the environment for every server, and fail if they were built without proxy
//! support. kubectl uses no proxy for loopback addresses, such as the sandbox or a port-forward; neither do we.

use std::net::IpAddr;

use kube::Config;

/// Removes the proxy if the server is on this machine.
#[must_use]
pub fn none_to_loopback(mut config: Config) -> Config {
    let host = config.cluster_url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address: Result<IpAddr, _> = host.parse();
    if host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        config.proxy_url = None;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_kept_for_every_server_but_those_of_this_machine() {
        for (server, kept) in [
            ("http://127.0.0.1:6443/token", false),
            ("https://[::1]:6443", false),
            ("https://localhost:6443", false),
            ("https://10.0.0.1:6443", true),
            ("https://localhost.example.com", true),
        ] {
            let mut config = Config::new(server.parse().unwrap());
            config.proxy_url = Some("http://proxy.example.com:3128".parse().unwrap());
            let proxy = none_to_loopback(config).proxy_url;
            assert_eq!(proxy.is_some(), kept, "{server}");
        }
    }
}
