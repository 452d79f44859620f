//! The two gRPC APIs of the kubelet that gpushare speaks: device plugin and pod resources.
//!
//! Generated types of both sides, the constants of the contract that protobuf cannot express, and the way to a socket.
//! The agent is a server to the kubelet and a client of it; the sandbox and tests play the kubelet (`stand_in`, behind
//! the feature of that name).

pub mod socket;
#[cfg(feature = "stand-in")]
pub mod stand_in;

#[expect(clippy::pedantic, reason = "generated code")]
pub mod deviceplugin {
    tonic::include_proto!("v1beta1");

    /// The only version of the API that kubelets accept.
    pub const VERSION: &str = "v1beta1";
    pub const HEALTHY: &str = "Healthy";
    pub const UNHEALTHY: &str = "Unhealthy";
    /// The kubelet's socket in the plugin directory.
    pub const KUBELET_SOCKET: &str = "kubelet.sock";
    /// The kubelet's own file in the plugin directory: what it allocated to which container.
    pub const CHECKPOINT: &str = "kubelet_internal_checkpoint";
    /// gRPC's default, which the kubelet keeps: a larger message ends the connection.
    pub const LARGEST_MESSAGE: usize = 4 * 1024 * 1024;
}

#[expect(clippy::pedantic, reason = "generated code")]
pub mod podresources {
    tonic::include_proto!("v1");
}
