//! `kubectl logs`: the text of one container of a pod.

use hyper::Response;
use serde_json::Value;

use super::handler::Request;
use super::reply::{Body, plain_reply};
use crate::failure::Failure;
use crate::json::Path;

impl Request<'_> {
    pub(super) fn log(&self) -> Result<Response<Body>, Failure> {
        let pod = self.registry.get(&self.route.target)?;
        let container = self.container(pod.value())?;
        let (namespace, name) = (&self.route.target.namespace, &self.route.target.name);
        let text = self
            .logs
            .and_then(|logs| logs.read(namespace, name, &container));
        let text = text.ok_or_else(|| {
            Failure::bad_request(format!(
                "container {container:?} in pod {name:?} is waiting to start: ContainerCreating"
            ))
        })?;
        let text = match self.query.number::<usize>("tailLines")? {
            None => text,
            Some(lines) => tail(&text, lines),
        };
        Ok(plain_reply(text))
    }

    /// The container whose log is requested: the named one, or the only one.
    fn container(&self, pod: &Value) -> Result<String, Failure> {
        let name = &self.route.target.name;
        let names = |list: &str| {
            let containers = pod.list(list).iter();
            containers
                .map(|container| container.text("name").to_owned())
                .collect::<Vec<_>>()
        };
        let apps = names("spec.containers");
        match (self.query.get("container"), apps.as_slice()) {
            (None, [only]) => Ok(only.clone()),
            (None, several) => Err(Failure::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                several.join(" ")
            ))),
            (Some(wanted), _) => {
                let all = apps.into_iter().chain(names("spec.initContainers"));
                let mut found = all.filter(|container| container == wanted);
                found.next().ok_or_else(|| {
                    Failure::bad_request(format!("container {wanted} is not valid for pod {name}"))
                })
            }
        }
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let kept = all.iter().skip(all.len().saturating_sub(lines));
    kept.flat_map(|line| [*line, "\n"]).collect()
}
