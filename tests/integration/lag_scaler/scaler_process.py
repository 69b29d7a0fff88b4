"""A real lag scaler as a child process, and KEDA's calls to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
from tests.eventually import eventually

from lag_scaler.wire import externalscaler_pb2 as wire
from lag_scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub
from localkube.processes import end_process, start_tied

TIMEOUT_SECONDS = 60
NO_DECISION = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


@dataclass(frozen=True)
class ScalerProcess:
    """A running scaler."""

    process: subprocess.Popen[bytes]
    log_file: Path

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log lines with this event."""
        lines = self.log_file.read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in found if line["event"] == name]

    @property
    def address(self) -> str:
        """The address of its gRPC server; waits until it serves."""
        serving = eventually(lambda: self.events("serving"), "the scaler serves")
        return f"127.0.0.1:{serving[-1]['port']}"

    @property
    def metrics(self) -> str:
        """The metrics as Prometheus gets them."""
        port = self.events("serving")[-1]["metrics_port"]
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read().decode())

    def end(self) -> float:
        """Send SIGTERM; return how many seconds the end took."""
        began_at = time.monotonic()
        self.process.terminate()
        assert self.process.wait(timeout=180) == 0
        return time.monotonic() - began_at


@contextmanager
def running_scaler(
    folder: Path,
    *flags: str,
    environment: Mapping[str, str] | None = None,
    python: Sequence[str] = (sys.executable,),
) -> Iterator[ScalerProcess]:
    """Run a scaler for the time of the block; ``python``: the interpreter and its own flags."""
    log_file = folder / f"scaler-{time.monotonic_ns()}.log"
    ports = {"PORT_GRPC": "0", "PORT_METRICS": "0"}
    with log_file.open("ab") as log:
        process = start_tied(
            [*python, "-m", "lag_scaler", *flags],
            log=log,
            env={**os.environ, **ports, **(environment or {})},
        )
    try:
        yield ScalerProcess(process, log_file)
    finally:
        end_process(process.pid, grace_seconds=5)
        process.wait(timeout=60)


class Keda:
    """Asks about one object, as KEDA's operator does."""

    def __init__(self, channel: grpc.Channel, name: str, metadata: Mapping[str, str]) -> None:
        """Name the object and its trigger's metadata."""
        make_stub: Any = ExternalScalerStub
        self.stub = make_stub(channel)
        self.ref = wire.ScaledObjectRef(name=name, namespace="n", scalerMetadata=dict(metadata))

    def is_active(self) -> bool:
        """Return IsActive's answer."""
        return bool(self.stub.IsActive(self.ref, timeout=TIMEOUT_SECONDS).result)

    def says_active(self) -> bool | None:
        """Return IsActive's answer; None while no sample is there or new enough for one."""
        try:
            return self.is_active()
        except grpc.RpcError as error:
            if error.code() in NO_DECISION:
                return None
            raise

    def metric(self) -> float:
        """Return the metric's value, asked for by the name that the spec gives it."""
        request = wire.GetMetricsRequest(
            scaledObjectRef=self.ref, metricName=self.spec().metricName
        )
        values = self.stub.GetMetrics(request, timeout=TIMEOUT_SECONDS).metricValues
        return float(values[0].metricValueFloat)

    def spec(self) -> wire.MetricSpec:
        """Return the only metric's spec."""
        (spec,) = self.stub.GetMetricSpec(self.ref, timeout=TIMEOUT_SECONDS).metricSpecs
        return spec

    def answers(self) -> tuple[bool, float, float] | None:
        """Return IsActive, the metric and its target; None while no sample is new enough."""
        try:
            return self.is_active(), self.metric(), self.spec().targetSizeFloat
        except grpc.RpcError as error:
            if error.code() in NO_DECISION:
                return None
            raise

    def refusal(self) -> tuple[str, str]:
        """Return code and details of a call that fails."""
        try:
            self.is_active()
        except grpc.RpcError as error:
            return error.code().name, str(error.details())
        return "OK", ""
