"""The recorder's flags, each as ``-flag`` and ``--flag``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from lagbench.core.scenario import CONSUMER_DEPLOYMENT, NAMESPACE, RUN_ID_LABEL, RunNames
from lagbench.errors import WrongInput

PROGRAM = "recorder"
OBSERVED_PIDS = "LAGBENCH_OBSERVED_PIDS"
_INTERVAL_SECONDS = (0.1, 3600.0)


@dataclass(frozen=True, slots=True)
class RecorderOptions:
    """What to observe, and how often."""

    source: str
    bootstrap_servers: str
    topic: str
    group: str
    telemetry_topic: str
    namespace: str
    deployment: str
    interval_seconds: float
    observed_pids: Mapping[str, int]
    has_metric_aliases: bool  # names of kafka_exporter and kube-state-metrics as well
    run_id: str | None  # None: the topics were named one by one

    @property
    def pod_selector(self) -> str:
        """The label selector of the run's consumers: others may have pods of the same ``app``."""
        of_deployment = f"app={self.deployment}"
        if self.run_id is None:
            return of_deployment
        return f"{of_deployment},{RUN_ID_LABEL}={self.run_id}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongInput(where=PROGRAM, field="flags", value=message, allowed="see --help")


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> RecorderOptions:
    """Return the options that ``arguments`` and the pod's environment state.

    :raises WrongInput: a flag is unknown, missing or out of range.
    """
    parser = _Parser(prog=PROGRAM, allow_abbrev=False, description="lagbench's observer")
    for name, default in _DEFAULTS.items():
        parser.add_argument(f"-{name}", f"--{name}", default=default)
    flags = parser.parse_args(arguments)
    if flags.run_id:
        names = RunNames(flags.run_id)
        flags.topic = flags.topic or names.events_topic
        flags.group = flags.group or names.group
        flags.telemetry_topic = flags.telemetry_topic or names.telemetry_topic
    servers = flags.bootstrap_servers or environment.get("KAFKA_BOOTSTRAP_SERVERS")
    return RecorderOptions(
        source=environment.get("POD_NAME") or PROGRAM,
        bootstrap_servers=_given("--bootstrap-servers (or KAFKA_BOOTSTRAP_SERVERS)", servers),
        topic=_given("--topic", flags.topic),
        group=_given("--group", flags.group),
        telemetry_topic=_given("--telemetry-topic", flags.telemetry_topic),
        namespace=flags.namespace,
        deployment=flags.deployment,
        interval_seconds=_interval(flags.interval_seconds),
        has_metric_aliases=_switch("--metric-aliases", flags.metric_aliases),
        observed_pids=_observed_pids(environment.get(OBSERVED_PIDS, "")),
        run_id=flags.run_id or None,
    )


_DEFAULTS: Mapping[str, str | None] = {
    "run-id": None,
    "bootstrap-servers": None,
    "topic": None,
    "group": None,
    "telemetry-topic": None,
    "namespace": NAMESPACE,
    "deployment": CONSUMER_DEPLOYMENT,
    "interval-seconds": "1",
    "metric-aliases": "off",
}


def _given(field: str, value: str | None) -> str:
    if not value:
        raise WrongInput(where=PROGRAM, field=field, value=value, allowed="given, or --run-id")
    return value


def _switch(field: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise WrongInput(where=PROGRAM, field=field, value=text, allowed="on or off")
    return text == "on"


def _interval(text: str) -> float:
    low, high = _INTERVAL_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not low <= seconds <= high:
        raise WrongInput(
            where=PROGRAM,
            field="--interval-seconds",
            value=text,
            allowed=f"a number from {low:g} to {high:g}",
        )
    return seconds


def _observed_pids(text: str) -> Mapping[str, int]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(
        isinstance(pid, int) and pid > 0 for pid in found.values()
    ):
        raise WrongInput(
            where="environment",
            field=OBSERVED_PIDS,
            value=text,
            allowed='a JSON object of process ids by name, such as {"broker": 4711}',
        )
    return found
