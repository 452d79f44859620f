//! One function per verb: reads the options, calls the registry, and builds the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Response};
use serde_json::{Value, json};

use super::options::{
    content_type, delete_options, filter, from_object, get_options, list_options, watch_options,
    write_options,
};
use super::query::Query;
use super::reply::{Body, json_reply, list_json, list_metadata, success, with_warnings};
use super::route::ResourceRoute;
use super::stream::{failed_watch_reply, watch_reply};
use super::webhooks::Admission;
use crate::failure::{Cause, Failure};
use crate::json::Path;
use crate::logs::Logs;
use crate::object::Object;
use crate::patch::Patch;
use crate::protobuf;
use crate::registry::{
    DecodedObject, DeleteOutcome, Registry, ServedResource, Stamp, Target, Write, WriteOutcome,
    decode_body, parse, seconds,
};
use crate::request::Verb;
use crate::resource::Subresource;
use crate::rules::Part;
use crate::table::{Include, table};

/// A request with everything that answering it needs.
pub(crate) struct Request<'r> {
    pub(crate) registry: &'r Arc<Registry>,
    pub(crate) route: ResourceRoute<'r>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) stamp: Stamp,
    pub(crate) bookmark_interval: Duration,
    pub(crate) logs: Option<&'r dyn Logs>,
    /// What admission webhooks answered about the write.
    pub(crate) admission: Admission,
}

impl Request<'_> {
    pub(crate) fn answer(&self) -> Result<Response<Body>, Failure> {
        match (self.route.verb, self.route.subresource) {
            (Verb::Create, Some(Subresource::Binding)) => self.bind(),
            (Verb::Create, Some(Subresource::Eviction)) => self.evict(),
            (Verb::Create, Some(Subresource::Token)) => self.token(),
            (Verb::Get, Some(Subresource::Log)) => self.log(),
            (_, Some(Subresource::Log)) => Err(Failure::method_not_allowed()),
            (_, Some(Subresource::Scale)) => self.scale(),
            (Verb::Get, _) => self.get(),
            (Verb::List, _) => self.list(),
            (Verb::Watch, _) => self.watch(),
            (Verb::Create | Verb::Update | Verb::Patch, _) => {
                Ok(self.written_reply(&self.write_object(false)?))
            }
            (Verb::Delete, _) => self.delete(),
            (Verb::DeleteCollection, _) => self.delete_collection(),
        }
    }

    fn target(&self) -> &Target<'_> {
        &self.route.target
    }

    fn served(&self) -> &ServedResource {
        self.route.target.served
    }

    fn part(&self) -> Part {
        match self.route.subresource {
            Some(Subresource::Status) => Part::Status,
            Some(Subresource::Finalize) => Part::Finalize,
            _ => Part::Main,
        }
    }

    pub(super) fn content_type(&self) -> &str {
        content_type(&self.headers)
    }

    /// Bodies are JSON, YAML or protobuf; a missing content type means JSON.
    fn accepted_content_type(&self) -> Result<&str, Failure> {
        match self.content_type() {
            "" | "application/json" => Ok("application/json"),
            "application/yaml" => Ok("application/yaml"),
            protobuf::CONTENT_TYPE => Ok(protobuf::CONTENT_TYPE),
            _ => Err(Failure::unsupported_media_type(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }

    fn get(&self) -> Result<Response<Body>, Failure> {
        get_options(&self.query, self.registry.store().version())?;
        let object = self.registry.get(self.target())?;
        if let Some(include) = self.wants_table() {
            let metadata = json!({"resourceVersion": object.version().to_string()});
            return Ok(self.table_reply(&[object.value()], &metadata, include));
        }
        Ok(self.object_reply(200, &object))
    }

    fn list(&self) -> Result<Response<Body>, Failure> {
        let filter = filter(self.served(), &self.target().namespace, &self.query)?;
        let (version, paging) = list_options(&self.query)?;
        let listed = self
            .registry
            .list(self.served(), &filter, version, &paging)?;
        if let Some(include) = self.wants_table() {
            let items = listed.items.iter();
            let items: Vec<&Value> = items.map(|object| object.value()).collect();
            return Ok(self.table_reply(&items, &list_metadata(&listed), include));
        }
        Ok(json_reply(200, list_json(self.served(), &listed)))
    }

    fn watch(&self) -> Result<Response<Body>, Failure> {
        let filter = filter(self.served(), &self.target().namespace, &self.query)?;
        let options = watch_options(&self.query)?;
        match self.registry.watch(self.served(), filter, options.start) {
            Ok(watch) => {
                let registry = Arc::clone(self.registry);
                let include = self.wants_table();
                Ok(watch_reply(
                    registry,
                    self.served(),
                    watch,
                    &options,
                    self.bookmark_interval,
                    include,
                ))
            }
            Err(failure) if failure.code == 410 => Ok(failed_watch_reply(&failure)),
            Err(failure) => Err(failure),
        }
    }

    /// Does the write, or with `try_only` a dry run of it.
    pub(super) fn write_object(&self, try_only: bool) -> Result<WriteOutcome, Failure> {
        match self.route.verb {
            Verb::Create => self.create(try_only),
            Verb::Update => self.update(try_only),
            _ => self.patch(try_only),
        }
    }

    pub(super) fn write(&self, part: Part, try_only: bool) -> Result<Write, Failure> {
        let mut write = write_options(&self.query, &self.headers, self.stamp, part)?;
        write.dry_run |= try_only;
        write.mutations.clone_from(&self.admission.mutations);
        Ok(write)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.query.get("dryRun") == Some("All")
    }

    fn create(&self, try_only: bool) -> Result<WriteOutcome, Failure> {
        let write = self.write(Part::Main, try_only)?;
        let decoded = self.decoded(&write)?;
        self.registry.create(self.target(), decoded, &write)
    }

    fn update(&self, try_only: bool) -> Result<WriteOutcome, Failure> {
        let write = self.write(self.part(), try_only)?;
        let decoded = self.decoded(&write)?;
        self.registry.replace(self.target(), decoded, &write)
    }

    /// The whole object that is to be written.
    fn decoded(&self, write: &Write) -> Result<DecodedObject, Failure> {
        let content_type = self.accepted_content_type()?;
        let resource = &self.served().resource;
        decode_body(resource, &self.body, content_type, write.unknown_fields)
    }

    fn patch(&self, try_only: bool) -> Result<WriteOutcome, Failure> {
        let write = self.write(self.part(), try_only)?;
        let force = self.query.flag("force");
        let patch = Patch::parse(self.content_type(), &self.body, force)?;
        let applies = matches!(patch, Patch::Apply { .. });
        let cause = match (
            applies,
            self.query.get("fieldManager"),
            self.query.get("force"),
        ) {
            (true, None, _) => Some(Cause::required(
                "fieldManager",
                "is required for apply patch",
            )),
            (false, _, Some(_)) => Some(Cause::forbidden(
                "force",
                "may not be specified for non-apply patch",
            )),
            _ => None,
        };
        if let Some(cause) = cause {
            return Err(Failure::invalid_options("PatchOptions", vec![cause]));
        }
        self.registry.patch(self.target(), &patch, &write)
    }

    fn delete(&self) -> Result<Response<Body>, Failure> {
        let mut write = write_options(&self.query, &self.headers, self.stamp, Part::Main)?;
        let (options, dry_run) = delete_options(&self.query, &self.body)?;
        write.dry_run |= dry_run;
        let deleted = self.registry.delete(self.target(), &options, &write)?;
        let resource = &self.served().resource;
        let echoed = resource.habits.returns_deleted || matches!(deleted, DeleteOutcome::Dying(_));
        if echoed {
            return Ok(self.object_reply(200, deleted.object()));
        }
        let mut details = json!({
            "name": self.target().name,
            "kind": resource.plural,
            "uid": deleted.object().value().text("metadata.uid"),
        });
        if !resource.group.is_empty() {
            details.put("group", resource.group);
        }
        Ok(success(200, Some(details)))
    }

    fn delete_collection(&self) -> Result<Response<Body>, Failure> {
        let filter = filter(self.served(), &self.target().namespace, &self.query)?;
        let mut write = write_options(&self.query, &self.headers, self.stamp, Part::Main)?;
        let (options, dry_run) = delete_options(&self.query, &self.body)?;
        write.dry_run |= dry_run;
        let listed = self
            .registry
            .delete_collection(self.target(), &filter, &options, &write)?;
        Ok(json_reply(200, list_json(self.served(), &listed)))
    }

    fn bind(&self) -> Result<Response<Body>, Failure> {
        let binding = self.action_body("Binding", "v1")?;
        let mut target = self.target().clone();
        if target.name.is_empty() {
            binding.text("metadata.name").clone_into(&mut target.name);
        }
        let dry_run = self.is_dry_run();
        self.registry
            .bind(&target, &binding, &self.stamp, dry_run)?;
        Ok(success(201, None))
    }

    fn evict(&self) -> Result<Response<Body>, Failure> {
        let eviction = self.action_body("Eviction", "policy/v1")?;
        if eviction.text("metadata.name") != self.target().name {
            let message = "name in URL does not match name in Eviction object";
            return Err(Failure::bad_request(message));
        }
        let options = eviction
            .at("deleteOptions")
            .map(from_object)
            .unwrap_or_default();
        let mut write = write_options(&self.query, &self.headers, self.stamp, Part::Main)?;
        write.dry_run |= eviction
            .list("deleteOptions.dryRun")
            .iter()
            .any(|value| value == "All");
        self.registry.evict(self.target(), &options, &write)?;
        Ok(success(201, None))
    }

    /// A token that names its account; this server does not verify such tokens.
    fn token(&self) -> Result<Response<Body>, Failure> {
        let mut request = self.action_body("TokenRequest", "authentication.k8s.io/v1")?;
        let account = self.registry.get(self.target())?;
        let lifetime = request.int("spec.expirationSeconds").unwrap_or(3600);
        if lifetime < 600 {
            let field = "spec.expirationSeconds";
            let why = "may not specify a duration less than 10 minutes";
            let cause = Cause::invalid(field, &lifetime.into(), why);
            let (kind, group) = ("TokenRequest", "authentication.k8s.io");
            return Err(Failure::invalid_kind(kind, group, "", vec![cause]));
        }
        let lasts = jiff::SignedDuration::from_secs(lifetime);
        let expires = self.stamp.now.checked_add(lasts).unwrap_or(self.stamp.now);
        let uid = account.value().text("metadata.uid");
        request.put("metadata.name", self.target().name.as_str());
        request.put("metadata.namespace", self.target().namespace.as_str());
        request.put("spec.expirationSeconds", lifetime);
        request.put(
            "status.token",
            format!("embedded.{uid}.{}", self.stamp.uid.simple()),
        );
        request.put("status.expirationTimestamp", seconds(expires));
        Ok(json_reply(201, request.to_string()))
    }

    /// The body of an action: an object of its own kind that is not stored.
    pub(super) fn action_body(&self, kind: &str, api_version: &str) -> Result<Value, Failure> {
        let content_type = self.accepted_content_type()?;
        let mut body = parse(&self.body, content_type).map_err(|why| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why}"
            ))
        })?;
        let (sent_kind, sent_version) = (body.text("kind"), body.text("apiVersion"));
        let wrong = |sent: &str, wanted: &str| !sent.is_empty() && sent != wanted;
        if wrong(sent_kind, kind) || wrong(sent_version, api_version) {
            return Err(Failure::bad_request(format!(
                "{sent_kind} in version {sent_version:?} cannot be handled as a {kind}"
            )));
        }
        let namespace = body.text("metadata.namespace");
        if !namespace.is_empty() && namespace != self.target().namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        body.put("kind", kind);
        body.put("apiVersion", api_version);
        Ok(body)
    }

    fn written_reply(&self, written: &WriteOutcome) -> Response<Body> {
        let code = if written.created { 201 } else { 200 };
        let reply = with_warnings(self.object_reply(code, &written.object), &written.warnings);
        with_warnings(reply, &self.admission.warnings)
    }

    /// What a table should include, if the client prefers a table to the objects.
    fn wants_table(&self) -> Option<Include> {
        let accept = self.headers.get(hyper::header::ACCEPT)?.to_str().ok()?;
        let first = accept.split(',').next()?;
        let mut words = first.split(';').map(str::trim);
        let json = words.next() == Some("application/json");
        let table = words.any(|word| word == "as=Table");
        (json && table).then(|| Include::parse(self.query.get("includeObject")))
    }

    fn table_reply(
        &self,
        objects: &[&Value],
        metadata: &Value,
        include: Include,
    ) -> Response<Body> {
        let resource = &self.served().resource;
        let objects = objects.iter().copied();
        let table = table(resource, objects, metadata, include, self.stamp.now);
        json_reply(200, table.to_string())
    }

    fn object_reply(&self, code: u16, object: &Object) -> Response<Body> {
        match self.served().view {
            Some(_) => json_reply(code, self.served().shown(object).to_string()),
            None => json_reply(code, object.json()),
        }
    }
}
