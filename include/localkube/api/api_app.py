"""The HTTP side of the API server: authentication, dispatch, bodies, answers."""

from __future__ import annotations

import functools
import hmac
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from localkube.api.api_discovery_answers import (
    KUBERNETES,
    discovery_document,
    single_row_table,
    table_of,
)
from localkube.api.api_writes import Writes, scale_of
from localkube.kinds import POD_METRICS, Resource, Target, parse_path
from localkube.kube_objects import (
    ApiError,
    FieldValidation,
    JsonObject,
    JsonValue,
    KubeObject,
    Matcher,
    Write,
    bad_request,
    no_such_path,
    not_allowed,
    request_matcher,
)
from localkube.merging import patch
from localkube.node.localkube_node import Node
from localkube.node.pod_logs import PodLogs, whole_number
from localkube.node.pod_metrics import PodMetrics
from localkube.storage.deletion import Deletion
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import Selection, Watches

_log = logging.getLogger(__name__)

_TRUE = frozenset({"true", "True", "1"})
_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Answers requests from the parts of the control plane."""

    kinds: Sequence[Resource]
    registry: Registry
    deletion: Deletion
    watches: Watches
    logs: PodLogs
    metrics: PodMetrics
    node: Node
    token: str
    kubernetes: str = KUBERNETES

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(routes=[Route("/{path:path}", self.answer, methods=list(_VERBS))])

    async def answer(self, request: Request) -> Response:
        """Answer one request; return every error as a Status object."""
        try:
            if request.url.path in _HEALTH_PATHS:
                return PlainTextResponse("ok")
            return await self._dispatch(request)
        except ApiError as error:
            return _json(error.status(), error.code)
        except Exception as error:  # the client gets a Status, the log the traceback
            _log.exception("%s %s failed", request.method, request.url.path)
            failed = ApiError(500, "InternalError", f"Internal error occurred: {error!r}")
            return _json(failed.status(), failed.code)

    async def _dispatch(self, request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise ApiError(401, "Unauthorized", "Unauthorized")
        path, verb = request.url.path, _VERBS[request.method]
        if verb == "get":
            document = discovery_document(path, self.kinds, self.kubernetes)
            if document is not None:
                return _json(document)
        target = parse_path(path, self.kinds)
        if verb not in target.resource.verbs and not target.subresource:
            plural = target.resource.qualified_plural
            raise not_allowed(f"the server does not allow {verb} on {plural}")
        if verb == "get":
            return self._read(request, target)
        body = _parse(await request.body(), request.headers.get("content-type", ""))
        if verb == "delete":
            return self._delete(request, target, body)
        return self._write(request, target, body)

    def _write(self, request: Request, target: Target, body: JsonValue) -> Response:
        method, write = request.method, _write_of(request)
        find, key = self.registry.store.find, (target.resource, target.namespace, target.name)
        writes, code = Writes(self.registry), 200
        if method == "POST" and target.subresource == "signal":
            result = self.node.send_signal(self.registry.store.get(*key), _object(body))
            code = 201
        elif method == "POST":
            if target.name:
                raise no_such_path(request.url.path)
            result, code = writes.create(target, _object(body), write), 201
        elif not target.name:
            raise not_allowed(f"{method} needs the name of an object")
        elif method == "PUT":
            result = writes.replace(target, _object(body), write)
        else:
            content_type = request.headers.get("content-type", "").split(";")[0].strip()
            code = 200 if find(*key) else 201
            result = writes.patch(target, body, content_type, write)
        answer = _json(result, code)
        for warning in write.warnings:  # in the format of RFC 7234
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
            answer.headers.append("Warning", f'299 - "{quoted}"')
        return answer

    def _read(self, request: Request, target: Target) -> Response:
        query, store, resource = request.query_params, self.registry.store, target.resource
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        shows_table = "as=Table" in request.headers.get("accept", "")
        if resource == POD_METRICS and target.name:
            return _json(self.metrics.of_pod(target.namespace, target.name))
        if query.get("watch") in _TRUE:
            fields = f"metadata.name={target.name}" if target.name else fields
            return self._watch(request, target, request_matcher(labels, fields), shows_table)
        if target.name:
            obj = store.get(resource, target.namespace, target.name)
            if target.subresource == "log":
                return self.logs.answer(obj, query)
            shown = scale_of(obj) if target.subresource == "scale" else obj
            is_table = shows_table and not target.subresource
            return _json(single_row_table(resource, obj) if is_table else shown)
        is_metrics, matches = resource == POD_METRICS, request_matcher(labels, fields)
        held = self.metrics.of_pods if is_metrics else functools.partial(store.select, resource)
        items = [obj for obj in held(target.namespace) if matches(obj)]
        if shows_table and not is_metrics:
            return _json(table_of(resource, items, str(store.version)))
        return self._list(target, items)

    def _watch(
        self, request: Request, target: Target, matches: Matcher, shows_table: bool
    ) -> Response:
        query, resource = request.query_params, target.resource
        version, timeout = query.get("resourceVersion", ""), query.get("timeoutSeconds", "")
        if version and not version.isdigit():
            raise bad_request(f"invalid resourceVersion {version!r}: not a number")
        table = (lambda obj: single_row_table(resource, obj)) if shows_table else None
        stream = self.watches.stream(
            Selection(target, matches, present=table),
            from_version=version,
            timeout_seconds=float(timeout) if timeout.isdigit() and timeout != "0" else None,
        )
        return StreamingResponse(stream, media_type="application/json")

    def _delete(self, request: Request, target: Target, body: JsonValue) -> Response:
        if target.subresource:
            raise not_allowed("a subresource cannot be deleted")
        query, store, resource = request.query_params, self.registry.store, target.resource
        how = dict(body) if isinstance(body, dict) else {}
        if "gracePeriodSeconds" in query:
            how["gracePeriodSeconds"] = whole_number(query, "gracePeriodSeconds")
        if "propagationPolicy" in query:
            how["propagationPolicy"] = query["propagationPolicy"]
        if "orphanDependents" in query:
            how["orphanDependents"] = query["orphanDependents"] in _TRUE
        is_dry_run = "dryRun" in query or bool(how.get("dryRun"))
        if target.name:
            obj = store.get(resource, target.namespace, target.name)
            left = obj if is_dry_run else self.deletion.delete(resource, obj, how)
            return _json(left if left is not None else _deleted(resource, obj))
        matches = request_matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        chosen = [obj for obj in store.select(resource, target.namespace) if matches(obj)]
        for obj in chosen:
            if not is_dry_run:
                self.deletion.delete(resource, obj, how)
        return self._list(target, chosen)

    def _list(self, target: Target, items: Sequence[JsonObject]) -> Response:
        return _json(
            {
                "kind": f"{target.resource.kind}List",
                "apiVersion": target.resource.api_version,
                "metadata": {"resourceVersion": str(self.registry.store.version)},
                "items": items,
            }
        )


def _json(document: JsonObject, code: int = 200) -> Response:
    content = json.dumps(document, separators=(",", ":"))
    return Response(content, status_code=code, media_type="application/json")


def _deleted(resource: Resource, obj: KubeObject) -> JsonObject:
    details = {"name": obj.name, "group": resource.group, "kind": resource.plural, "uid": obj.uid}
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**success, "details": details}


def _write_of(request: Request) -> Write:
    query = request.query_params
    manager = query.get("fieldManager") or ""
    if not manager and not request.headers.get("content-type", "").startswith(patch.APPLY):
        manager = request.headers.get("user-agent", "unknown").split("/")[0]
    return Write(
        field_manager=manager,
        force=query.get("force") in _TRUE,
        is_dry_run="dryRun" in query,
        field_validation=_field_validation(query.get("fieldValidation") or "Warn"),
    )


def _field_validation(given: str) -> FieldValidation:
    match given:
        case "Strict" | "Warn" | "Ignore":
            return given
    raise bad_request(
        f"fieldValidation: Unsupported value: {given!r}: supported values: Ignore, Warn, Strict"
    )


def _parse(raw: bytes, content_type: str) -> JsonValue:
    if "protobuf" in content_type:
        raise ApiError(415, "UnsupportedMediaType", "localkube accepts JSON and YAML, not protobuf")
    if not raw.strip():
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        if "yaml" not in content_type:
            raise bad_request(f"the body is not JSON: {error}") from error
    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise bad_request(f"the body is neither JSON nor YAML: {error}") from error


def _object(body: JsonValue) -> KubeObject:
    if not isinstance(body, dict):
        raise bad_request("the body must be a JSON object")
    return KubeObject(body)
