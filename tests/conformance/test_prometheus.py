"""What KEDA's own prometheus scaler made of metadata and answers, against what is made here."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from lagbench.core.keda.loop.scalers import MetricReading, ScalerFailed, served_milli
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.keda.triggers.trigger_parameters import NotSupported, TriggerRefused
from lagbench.core.kubernetes_values import parse_instant_ns, parse_milli
from lagbench.errors import WrongInput
from lagbench.programs.autoscaler.trigger_sources import PrometheusScaler
from tests.conformance.keda_prometheus.record import ROWS

Row = Mapping[str, Any]
RECORDED: list[dict[str, Any]] = json.loads(gzip.decompress(ROWS.read_bytes()))["rows"]
# KEDA can do it; the bench says by name that it cannot.
ONLY_IN_KEDA = ("tls", "oauth")
# Refused when the HPA is made, which the scaler has no part in.
REFUSED_BY_THE_API_SERVER = (
    "parse: threshold 0",
    "parse: threshold -5",
    "parse: threshold 0.0004",
    "parse: metricType Average",
)
OWN_HEADERS = {"Host", "Accept", "Accept-Encoding", "Connection", "User-Agent"}
LATE = [row for row in RECORDED if row.get("delayMs")]
# Past that time Go's client is still without a connection; on loopback the bench's may have one.
A_RACE = "parse: timeout 1us"
PROMPT = [row for row in RECORDED if not row.get("delayMs") and row["name"] != A_RACE]


def by_name(rows: list[dict[str, Any]]) -> list[Any]:
    """Return the rows with their names as test ids."""
    return [pytest.param(row, id=row["name"]) for row in rows]


@dataclass
class Server:
    """Answers as a row says, and keeps the last request."""

    row: Row
    address: str = ""
    request: dict[str, Any] | None = None
    may_answer: threading.Event = field(default_factory=threading.Event)


@contextmanager
def server_of(row: Row) -> Iterator[Server]:
    """Run the row's server for the time of the block; one that is down has a port and no life."""
    server = Server(row)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.requestline.split(" ")[1].partition("?")
            headers = {key: [value] for key, value in self.headers.items()}
            server.request = {
                "path": path,
                "query": parse_qs(query, keep_blank_values=True),
                "headers": {k: v for k, v in headers.items() if k not in OWN_HEADERS},
            }
            server.may_answer.wait(row.get("delayMs", 0) / 1000)
            body = row["body"].encode()
            self.send_response(row["status"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if row["status"] != 204:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.address = f"http://127.0.0.1:{running.server_address[1]}"
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        if row.get("isDown"):
            running.shutdown()
            running.server_close()
        yield server
    finally:
        server.may_answer.set()
        running.shutdown()
        running.server_close()
        thread.join()


def parsed(row: Row, address: str = "$SERVER") -> ScaledObjectSpec:
    """Return the object with the row's trigger, at the row's place among its triggers."""
    metadata = {k: v.replace("$SERVER", address) for k, v in row["metadata"].items()}
    trigger: dict[str, Any] = {"type": "prometheus", "metadata": metadata}
    trigger["authenticationRef"] = {"name": "login"}
    if row.get("metricType"):
        trigger["metricType"] = row["metricType"]
    cron = {"type": "cron", "metadata": {"timezone": "UTC", "desiredReplicas": "1"}}
    before = [
        {**cron, "metadata": {**cron["metadata"], "start": f"{n} 0 * * *", "end": "0 9 * * *"}}
        for n in range(row.get("index", 0))
    ]
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "consumer", "namespace": "lagbench"},
        "spec": {"scaleTargetRef": {"name": "consumer"}, "triggers": [*before, trigger]},
    }
    return parse_scaled_object(manifest, where="f", auth={len(before): row.get("auth") or {}})


def polled(row: Row, server: Server) -> MetricReading:
    """Return the reading of the live scaler."""
    trigger = parsed(row, server.address).triggers[-1]
    assert isinstance(trigger.parameters, PrometheusTrigger)
    scaler = PrometheusScaler(trigger, trigger.parameters, trigger.parameters.server_address)
    try:
        return scaler.read(trigger.metric_name)
    finally:
        scaler.close()


def is_only_in_keda(row: Row) -> bool:
    """Return whether the row logs in as the bench cannot."""
    return row["metadata"].get("authModes") in ONLY_IN_KEDA


@pytest.mark.parametrize(
    "row", by_name([row for row in RECORDED if row.get("buildError") and not is_only_in_keda(row)])
)
def test_metadata_is_refused_as_by_keda(row: Row) -> None:
    """The same step fails, because of a parameter that KEDA names."""
    with pytest.raises(TriggerRefused) as caught:
        parsed(row)

    assert caught.value.stage == "scaler"
    parameter = caught.value.field.rpartition(".")[2]
    is_named = parameter.lower().rstrip("s") in row["buildError"].replace(" ", "").lower()
    assert is_named or parameter == "metricType" or "null" in caught.value.keda_message


@pytest.mark.parametrize("row", by_name([row for row in RECORDED if is_only_in_keda(row)]))
def test_a_login_that_the_bench_lacks_is_named(row: Row) -> None:
    """KEDA rejects a login by certificate or OAuth without its secrets, else the bench does."""
    is_refused_by_keda = "required when" in row.get("buildError", "")

    with pytest.raises(WrongInput) as caught:
        parsed(row)

    assert isinstance(caught.value, TriggerRefused if is_refused_by_keda else NotSupported)


@pytest.mark.parametrize(
    "row", by_name([row for row in RECORDED if row["name"] in REFUSED_BY_THE_API_SERVER])
)
def test_a_target_that_no_hpa_may_have_is_refused(row: Row) -> None:
    """KEDA's scaler takes it; the API server rejects the HPA, as its source says."""
    with pytest.raises(TriggerRefused) as caught:
        parsed(row)

    assert "buildError" not in row
    assert caught.value.stage == "hpa"


def readable(rows: list[dict[str, Any]]) -> list[Any]:
    """Return the rows whose trigger is taken here as there."""
    return by_name(
        [
            row
            for row in rows
            if "buildError" not in row
            and not is_only_in_keda(row)
            and row["name"] not in REFUSED_BY_THE_API_SERVER
        ]
    )


@pytest.mark.parametrize("row", readable(RECORDED))
def test_metric_and_target_are_kedas(row: Row) -> None:
    """The HPA gets the same metric name, type of target and target."""
    trigger = parsed(row).triggers[-1]
    target, parameters = row["target"], trigger.parameters

    assert isinstance(parameters, PrometheusTrigger)
    assert trigger.metric_name == row["metricName"]
    assert trigger.metric_type == target["type"]
    amount = target["value" if target["type"] == "Value" else "averageValue"]
    assert parameters.target_milli == parse_milli(amount, where="row", field="target")


@pytest.mark.parametrize("row", readable(PROMPT))
def test_an_answer_is_read_as_by_keda(row: Row) -> None:
    """Request, value and activity are KEDA's, and what fails there fails here."""
    with server_of(row) as server:
        check_poll(row, server)


@pytest.mark.parametrize("row", readable(LATE))
def test_a_late_answer_is_waited_for_as_by_keda(row: Row) -> None:
    """The operator waits for three seconds, or as long as the trigger's timeout says."""
    with server_of(row) as server:
        check_poll(row, server)


def check_poll(row: Row, server: Server) -> None:
    """Compare one poll of the live scaler with the row."""
    if "readError" in row or "readPanic" in row:
        with pytest.raises(ScalerFailed) as caught:
            polled(row, server)
        if row.get("readError", "").startswith("prometheus "):
            assert str(caught.value) == row["readError"]
        return
    reading = polled(row, server)
    assert len(reading.values) == 1
    served = parse_milli(row["value"], where="row", field="value")
    # Of the largest one parse_milli keeps 28 digits.
    assert float(served_milli(reading.values[0])) == float(served)
    assert reading.is_active == row["isActive"]
    assert server.request is not None
    assert shown(server.request) == shown(row["request"])


def shown(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request with instants and the case of header names left out."""
    instants = [text for text in request["query"]["time"] if text[:1] == "2"]
    assert all(parse_instant_ns(text) % 1_000_000_000 == 0 for text in instants)
    times = ["$TIME" if text in instants else text for text in request["query"]["time"]]
    headers = {name.lower(): value for name, value in request["headers"].items()}
    return {**request, "query": {**request["query"], "time": times}, "headers": headers}


def test_all_rows_are_there() -> None:
    """263 rows, with rejected metadata, failed polls, a panic and values among them."""
    kinds = {
        kind: sum(kind in row for row in RECORDED)
        for kind in ("buildError", "readError", "readPanic", "value")
    }

    assert len(RECORDED) == 263
    assert all(count > 5 for count in kinds.values()), kinds
