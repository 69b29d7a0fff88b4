"""The HTTP side of the API server: authentication, dispatch, bodies, answers."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from lagbench.core.policy.admission.api_server import FieldValidation
from lagbench.localkube.api.api_discovery_answers import (
    discovery_document,
    single_row_table,
    table_of,
)
from lagbench.localkube.api.api_writes import WriteOptions, Writes, scale_of
from lagbench.localkube.kube_objects import (
    ApiError,
    JsonObject,
    JsonValue,
    bad_request,
    name_of,
    no_such_path,
    not_allowed,
)
from lagbench.localkube.merging import patch
from lagbench.localkube.node.container_process import PodLogs, whole_number
from lagbench.localkube.node.localkube_node import Node
from lagbench.localkube.node.pod_metrics import PodMetrics
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.object_registry import Asked, Registry
from lagbench.localkube.storage.object_store import Selection, Watches
from lagbench.localkube.storage.resources import POD_METRICS, Target, parse_path
from lagbench.localkube.storage.selectors import request_matcher

_log = logging.getLogger(__name__)

_TRUE = frozenset({"true", "True", "1"})

_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Answers requests from the parts of the control plane."""

    registry: Registry
    deletion: Deletion
    watches: Watches
    writes: Writes
    logs: PodLogs
    metrics: PodMetrics
    node: Node
    token: str

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(routes=[Route("/{path:path}", self.answer, methods=_METHODS)])

    async def answer(self, request: Request) -> Response:
        """Answer one request; return every error as a Status object."""
        try:
            if request.url.path in _HEALTH_PATHS:
                return PlainTextResponse("ok")
            self._authenticate(request)
            return await self._dispatch(request)
        except ApiError as error:
            return _json(error.status(), error.code)
        except Exception as error:  # the client gets a Status, the log the traceback
            _log.exception("%s %s failed", request.method, request.url.path)
            failed = ApiError(500, "InternalError", f"Internal error occurred: {error!r}")
            return _json(failed.status(), failed.code)

    def _authenticate(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise ApiError(401, "Unauthorized", "Unauthorized")

    async def _dispatch(self, request: Request) -> Response:
        path = request.url.path
        if request.method == "GET" and (document := discovery_document(path)) is not None:
            return _json(document)
        target = parse_path(path)
        verb = _VERBS[request.method]
        if verb not in target.resource.verbs and not target.subresource:
            raise not_allowed(
                f"the server does not allow {verb} on {target.resource.qualified_plural}"
            )
        if request.method == "GET":
            return self._read(request, target)
        body = _parse(await request.body(), request.headers.get("content-type", ""))
        options = _write_options(request)
        if request.method == "DELETE":
            return self._delete(request, target, body, options)
        if request.method == "POST":
            return self._create(path, target, _object(body), options)
        if not target.name:
            raise not_allowed(f"{request.method} needs the name of an object")
        if request.method == "PUT":
            return _written(self.writes.replace(target, _object(body), options), options)
        content_type = request.headers.get("content-type", "").split(";")[0].strip()
        existed = self.registry.store.find(target.resource, target.namespace, target.name)
        result = self.writes.patch(target, body, content_type, options)
        return _written(result, options, 200 if existed else 201)

    def _create(
        self, path: str, target: Target, body: JsonObject, options: WriteOptions
    ) -> Response:
        if target.subresource == "signal":
            pod = self.registry.store.get(target.resource, target.namespace, target.name)
            return _json(self.node.send_signal(pod, body), 201)
        if target.name:
            raise no_such_path(path)
        return _written(self.writes.create(target, body, options), options, 201)

    def _read(self, request: Request, target: Target) -> Response:
        query, store = request.query_params, self.registry.store
        is_watched, shows_table = query.get("watch") in _TRUE, _wants_table(request)
        resource = target.resource
        if resource == POD_METRICS:
            return self._read_metrics(request, target)
        if target.name and not is_watched:
            obj = store.get(resource, target.namespace, target.name)
            if target.subresource == "log":
                return self.logs.answer(obj, query)
            found = scale_of(obj) if target.subresource == "scale" else obj
            is_table = shows_table and not target.subresource
            return _json(single_row_table(resource, obj) if is_table else found)
        fields = f"metadata.name={target.name}" if target.name else query.get("fieldSelector", "")
        matches = request_matcher(query.get("labelSelector", ""), fields)
        if is_watched:
            return self._watch(request, target, matches)
        items = [obj for obj in store.select(resource, target.namespace) if matches(obj)]
        if shows_table:
            return _json(table_of(resource, items, str(store.version)))
        return _json(_list_of(target, items, str(store.version)))

    def _watch(
        self, request: Request, target: Target, matches: Callable[[JsonObject], bool]
    ) -> Response:
        query, resource = request.query_params, target.resource
        version, timeout = query.get("resourceVersion", ""), query.get("timeoutSeconds", "")
        if version and not version.isdigit():
            raise bad_request(f"invalid resourceVersion {version!r}: not a number")
        table = (lambda obj: single_row_table(resource, obj)) if _wants_table(request) else None
        stream = self.watches.stream(
            Selection(target, matches, present=table),
            from_version=version,
            timeout_seconds=float(timeout) if timeout.isdigit() and timeout != "0" else None,
        )
        return StreamingResponse(stream, media_type="application/json")

    def _read_metrics(self, request: Request, target: Target) -> Response:
        if target.name:
            return _json(self.metrics.of_pod(target.namespace, target.name))
        matches = request_matcher(request.query_params.get("labelSelector", ""), "")
        items = [item for item in self.metrics.of_pods(target.namespace) if matches(item)]
        return _json(_list_of(target, items, str(self.registry.store.version)))

    def _delete(
        self, request: Request, target: Target, body: JsonValue, options: WriteOptions
    ) -> Response:
        if target.subresource:
            raise not_allowed("a subresource cannot be deleted")
        query = request.query_params
        how = dict(body) if isinstance(body, dict) else {}
        if "gracePeriodSeconds" in query:
            how["gracePeriodSeconds"] = whole_number(query, "gracePeriodSeconds")
        if "propagationPolicy" in query:
            how["propagationPolicy"] = query["propagationPolicy"]
        if "orphanDependents" in query:
            how["orphanDependents"] = query["orphanDependents"] in _TRUE
        store, is_dry = self.registry.store, options.dry_run or bool(how.get("dryRun"))
        if target.name:
            obj = store.get(target.resource, target.namespace, target.name)
            left = obj if is_dry else self.deletion.delete(target.resource, obj, how)
            return _json(left if left is not None else _deleted(target, obj))
        matches = request_matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        chosen = [obj for obj in store.select(target.resource, target.namespace) if matches(obj)]
        for obj in chosen:
            if not is_dry:
                self.deletion.delete(target.resource, obj, how)
        return _json(_list_of(target, chosen, str(store.version)))


def _written(document: JsonObject, options: WriteOptions, code: int = 200) -> Response:
    """Return the response to a write with its warnings in the format of RFC 7234."""
    answer = _json(document, code)
    for warning in options.asked.warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        answer.headers.append("Warning", f'299 - "{quoted}"')
    return answer


def _json(document: JsonObject, code: int = 200) -> Response:
    content = json.dumps(document, separators=(",", ":"))
    return Response(content, status_code=code, media_type="application/json")


def _wants_table(request: Request) -> bool:
    return "as=Table" in request.headers.get("accept", "")


def _list_of(target: Target, items: list[JsonObject], version: str) -> JsonObject:
    return {
        "kind": f"{target.resource.kind}List",
        "apiVersion": target.resource.api_version,
        "metadata": {"resourceVersion": version},
        "items": items,
    }


def _deleted(target: Target, obj: JsonObject) -> JsonObject:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": name_of(obj),
            "group": target.resource.group,
            "kind": target.resource.plural,
            "uid": obj["metadata"]["uid"],
        },
    }


def _write_options(request: Request) -> WriteOptions:
    query = request.query_params
    agent = request.headers.get("user-agent", "unknown").split("/")[0]
    manager = query.get("fieldManager") or ""
    if not manager and not request.headers.get("content-type", "").startswith(patch.APPLY):
        manager = agent
    return WriteOptions(
        field_manager=manager,
        force=query.get("force") in _TRUE,
        dry_run="dryRun" in query,
        asked=Asked(_field_validation(query.get("fieldValidation") or "Warn")),
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


def _object(body: JsonValue) -> JsonObject:
    if not isinstance(body, dict):
        raise bad_request("the body must be a JSON object")
    return body
