"""The consumer's flags, each as ``-flag`` and ``--flag``, checked before anything is started."""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from lagbench.core.scenario import RunNames, StartDelay
from lagbench.errors import WrongInput

PROGRAM = "consumer"
Balancer = Literal["range", "roundrobin", "cooperative-sticky", "consumer"]
CommitMode = Literal["auto", "manual", "transactional"]

_MAX_PROCESS_MS = 60_000
_MAX_CONCURRENCY = 1024
_MAX_SECONDS = 3600
_SESSION_TIMEOUT_MS = (6_000, 1_800_000)  # the broker's default group.(min|max).session.timeout.ms


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """What one consumer pod was told."""

    pod_name: str
    bootstrap_servers: str
    topic: str
    processed_topic: str
    telemetry_topic: str
    group: str
    process_ms: float
    concurrency: int
    balancer: Balancer
    commit: CommitMode
    drains: bool
    drain_timeout_seconds: float
    has_static_membership: bool
    commit_interval_seconds: float
    session_timeout_ms: int
    start_delay_seconds: float = 0.0
    """From the process's start until it connects; a real cluster's pull and node start."""

    @property
    def is_incremental(self) -> bool:
        """Whether a rebalance moves single partitions rather than all of them."""
        return self.balancer in {"cooperative-sticky", "consumer"}

    @property
    def is_next_generation(self) -> bool:
        """Whether the group speaks KIP-848, where the broker assigns."""
        return self.balancer == "consumer"

    @property
    def is_transactional(self) -> bool:
        """Whether ledger records and offsets are committed together, in a transaction."""
        return self.commit == "transactional"

    @property
    def commits_what_is_done(self) -> bool:
        """Whether offsets follow the work: what was only queued is the next owner's."""
        return self.commit != "auto"

    @property
    def instance_id(self) -> str | None:
        """``group.instance.id`` of a static member: the pod's name, which a StatefulSet keeps."""
        return self.pod_name if self.has_static_membership else None


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are lagbench's own error."""

    def error(self, message: str) -> NoReturn:
        raise WrongInput(where=PROGRAM, field="flags", value=message, allowed="see --help")


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> ConsumerOptions:
    """Return the options that ``arguments`` and the pod's environment state.

    :raises WrongInput: a flag is unknown, missing or out of range.
    """
    flags = _parser().parse_args(arguments)
    if flags.run_id:
        names = RunNames(flags.run_id)
        flags.topic = flags.topic or names.events_topic
        flags.processed_topic = flags.processed_topic or names.processed_topic
        flags.telemetry_topic = flags.telemetry_topic or names.telemetry_topic
        flags.group = flags.group or names.group
    pod_name = environment.get("POD_NAME", "")
    if not pod_name:
        raise WrongInput(
            where="environment", field="POD_NAME", value="", allowed="the pod's metadata.name"
        )
    return ConsumerOptions(
        pod_name=pod_name,
        bootstrap_servers=_given(
            "--bootstrap-servers (or KAFKA_BOOTSTRAP_SERVERS)",
            flags.bootstrap_servers or environment.get("KAFKA_BOOTSTRAP_SERVERS"),
        ),
        topic=_given("--topic", flags.topic),
        processed_topic=_given("--processed-topic", flags.processed_topic),
        telemetry_topic=_given("--telemetry-topic", flags.telemetry_topic),
        group=_given("--group", flags.group),
        process_ms=flags.process_ms,
        concurrency=flags.concurrency,
        balancer=flags.balancer,
        commit=flags.commit,
        drains=flags.drain == "on",
        drain_timeout_seconds=flags.drain_timeout,
        has_static_membership=flags.static_membership == "on",
        commit_interval_seconds=flags.commit_interval,
        session_timeout_ms=flags.session_timeout_ms,
        start_delay_seconds=StartDelay(flags.start_seconds, flags.start_seed).of_pod(
            _pod_number(environment.get("POD_ORDINAL", ""), pod_name)
        ),
    )


def _pod_number(ordinal: str, pod_name: str) -> int:
    """Return which of the run's pods this is; off localkube a number that its name gives it."""
    return int(ordinal) if ordinal.isdecimal() else zlib.crc32(pod_name.encode())


def _parser() -> _Parser:
    parser = _Parser(prog=PROGRAM, allow_abbrev=False, description="lagbench's consumer under test")

    def flag(name: str, kind: Callable[[str], object], default: object, text: str) -> None:
        parser.add_argument(f"-{name}", f"--{name}", type=kind, default=default, help=text)

    flag("run-id", str, None, "names topics and group that are not given")
    flag("bootstrap-servers", str, None, "default: env KAFKA_BOOTSTRAP_SERVERS")
    flag("topic", str, None, "events topic")
    flag("processed-topic", str, None, "ledger topic")
    flag("telemetry-topic", str, None, "telemetry topic")
    flag("group", str, None, "consumer group")
    flag("process-ms", _number("--process-ms", 0, _MAX_PROCESS_MS), 2.0, "cost of one write")
    flag("concurrency", _whole("--concurrency", 1, _MAX_CONCURRENCY), 1, "writes in flight")
    balancer = _choice("--balancer", get_args(Balancer))
    flag("balancer", balancer, "cooperative-sticky", "consumer is KIP-848")
    flag(
        "commit", _choice("--commit", get_args(CommitMode)), "manual", "auto, manual, transactional"
    )
    flag("commit-interval", _number("--commit-interval", 0.01, _MAX_SECONDS), 1.0, "seconds")
    flag("drain", _choice("--drain", ("on", "off")), "on", "finish and commit before giving up")
    flag("drain-timeout", _number("--drain-timeout", 0.01, _MAX_SECONDS), 20.0, "seconds")
    session = _whole("--session-timeout-ms", *_SESSION_TIMEOUT_MS)
    flag("session-timeout-ms", session, 10_000, "classic protocols; KIP-848: broker's setting")
    flag("start-seconds", _number("--start-seconds", 0, _MAX_SECONDS), 0.0, "mean start delay")
    flag("start-seed", int, 0, "draws the delay, with the pod's number POD_ORDINAL")
    parser.add_argument(
        "-static-membership",
        "--static-membership",
        nargs="?",
        const="on",
        default="off",
        type=_choice("--static-membership", ("on", "off")),
        help="group.instance.id from the pod's name",
    )
    return parser


def _given(field: str, value: str | None) -> str:
    if not value:
        raise WrongInput(where=PROGRAM, field=field, value=value, allowed="given, or --run-id")
    return value


def _number(field: str, low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            allowed = f"a number from {low:g} to {high:g}"
            raise WrongInput(where=PROGRAM, field=field, value=text, allowed=allowed)
        return value

    return parse


def _whole(field: str, low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            allowed = f"a whole number from {low} to {high}"
            raise WrongInput(where=PROGRAM, field=field, value=text, allowed=allowed)
        return int(text)

    return parse


def _choice(field: str, allowed: Sequence[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise WrongInput(where=PROGRAM, field=field, value=text, allowed=", ".join(allowed))
        return text

    return parse
