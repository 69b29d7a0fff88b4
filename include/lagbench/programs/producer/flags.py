"""Flags and environment of the producer, read once into checked settings.

Each flag works with one dash or two, and as variable ``PRODUCER_<FLAG>``; the flag wins over the
variable, and ``PROFILE_JSON`` (a scenario's profile) over every flag that shapes the load.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from lagbench.core.scenario import MAX_SEED, Keys, Profile, RunNames, SteadyProfile, trace_points
from lagbench.core.scenario.stream import OfferedLoad, Tail, offered_load
from lagbench.errors import WrongInput

WHERE = "producer"
# As fast as the machine can is a profile that no machine holds: the highest rate there is.
FLAT_OUT_RATE_PER_SECOND = 1_000_000
_MAX_PRODUCER_ID = 2**32 - 1
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_UNIT_SECONDS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_PROFILE: TypeAdapter[Profile] = TypeAdapter(Profile)
_TAIL: TypeAdapter[Tail] = TypeAdapter(Tail)

_FLAGS = {
    "rate": "events per second outside spikes",
    "profile": "steady, step, bursty or trace",
    "spike-mult": "rate of a spike as a multiple of the rate (default 10)",
    "spike-hold": "length of a spike: seconds, or 90s, 10m",
    "seed": f"0 to {MAX_SEED} (default 1)",
    "partitions": "partitions of the topic (default: ask the broker)",
    "before-seconds": "step: time before the spike (default 0)",
    "after-seconds": "step, bursty: time after the last spike (default 0)",
    "quiet-seconds": "bursty: time before each burst",
    "bursts": "bursty: how many",
    "duration-seconds": "steady: length of the stream",
    "trace-file": "trace: CSV with the columns second,rate",
    "entities": "how many keys (default 5000000)",
    "zipf-s": "skew of the keys; 0 is uniform (default 1.1)",
    "producer-id": "number of this producer among several (default 0)",
    "run-id": "names the topics",
    "topic": "where events go (default: the run's)",
    "telemetry-topic": "where reports go (default: the run's; none: no reports)",
    "bootstrap-servers": "Kafka (default: KAFKA_BOOTSTRAP_SERVERS)",
    "profile-json": "a scenario's profile as JSON (default: PROFILE_JSON)",
    "tail-rate": "events per second after the profile, until SIGTERM (default: none)",
    "tail-most-seconds": "tail: the longest that it may go on",
    "count": "flat-out: how many events",
}
_PLAIN_VARIABLES = {
    "bootstrap-servers": "KAFKA_BOOTSTRAP_SERVERS",
    "profile-json": "PROFILE_JSON",
}
# Which flag feeds which field of a profile.
_PROFILE_FLAGS = {
    "steady": {"rate": "rate_per_second", "duration-seconds": "duration_seconds"},
    "step": {
        "rate": "rate_per_second",
        "spike-mult": "spike_mult",
        "before-seconds": "before_seconds",
        "spike-hold": "spike_hold_seconds",
        "after-seconds": "after_seconds",
    },
    "bursty": {
        "rate": "rate_per_second",
        "spike-mult": "spike_mult",
        "quiet-seconds": "quiet_seconds",
        "spike-hold": "spike_hold_seconds",
        "bursts": "bursts",
        "after-seconds": "after_seconds",
    },
    "trace": {"trace-file": "file"},
}
_PROFILE_DEFAULTS = {"step": {"before_seconds": 0.0, "after_seconds": 0.0}}


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Everything that one run of the producer needs."""

    bootstrap_servers: str
    topic: str
    telemetry_topic: str | None
    partitions: int | None
    seed: int
    keys: Keys
    profile_kind: str
    load: OfferedLoad
    """The planned stretch."""
    producer_id: int
    source: str
    is_flat_out: bool = False
    tail: Tail | None = None

    @property
    def whole_load(self) -> OfferedLoad:
        """Return the planned stretch and all of the tail that there may be."""
        return self.load if self.tail is None else self.tail.after(self.load)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongInput(where=WHERE, field="command line", value=message, allowed="see --help")


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> ProducerSettings:
    """Return the settings; ``WrongInput`` names the flag, its value and what is allowed."""
    parser = _Parser(prog="python -m lagbench.programs.producer", allow_abbrev=False)
    for flag, text in _FLAGS.items():
        parser.add_argument(f"-{flag}", f"--{flag}", dest=flag, help=text)
    parser.add_argument(
        "-flat-out", "--flat-out", dest="flat-out", action="store_true", help="no pacing"
    )
    parsed = vars(parser.parse_args(list(arguments)))
    given = {flag: value for flag, value in parsed.items() if isinstance(value, str)}
    for flag in _FLAGS:
        variable = _PLAIN_VARIABLES.get(flag, f"PRODUCER_{flag.upper().replace('-', '_')}")
        if flag not in given and environment.get(variable):
            given[flag] = environment[variable]
    producer_id = _whole(given, "producer-id", 0, 0, _MAX_PRODUCER_ID)
    is_flat_out = bool(parsed["flat-out"])
    profile = _flat_out(given) if is_flat_out else _profile(given)
    topic, telemetry_topic = _topics(given)
    return ProducerSettings(
        bootstrap_servers=_required(given, "bootstrap-servers", "host:port of Kafka"),
        topic=topic,
        telemetry_topic=telemetry_topic,
        partitions=_whole(given, "partitions", 0, 1, 1000) if "partitions" in given else None,
        seed=_whole(given, "seed", 1, 0, MAX_SEED),
        keys=_keys(given),
        profile_kind="flat-out" if is_flat_out else profile.kind,
        load=offered_load(profile, where=WHERE),
        producer_id=producer_id,
        source=environment.get("POD_NAME") or f"producer-{producer_id}",
        is_flat_out=is_flat_out,
        tail=_tail(given),
    )


def _topics(given: Mapping[str, str]) -> tuple[str, str | None]:
    if "run-id" in given:
        names = RunNames(given["run-id"])
        topic = given.get("topic", names.events_topic)
        return topic, given.get("telemetry-topic", names.telemetry_topic)
    return _required(given, "topic", "a topic, or --run-id"), given.get("telemetry-topic")


def _tail(given: Mapping[str, str]) -> Tail | None:
    if "tail-rate" not in given and "tail-most-seconds" not in given:
        return None
    rate = _required(given, "tail-rate", "a rate: a tail has both")
    seconds = _seconds("tail-most-seconds", _required(given, "tail-most-seconds", "a time"))
    try:
        return _TAIL.validate_python({"rate_per_second": rate, "most_seconds": seconds})
    except ValidationError as error:
        fields = {"tail-rate": "rate_per_second", "tail-most-seconds": "most_seconds"}
        raise _wrong_flag(error, fields, given) from error


def _keys(given: Mapping[str, str]) -> Keys:
    fields = {"entities": "entities", "zipf-s": "zipf_s"}
    values = {field: given[flag] for flag, field in fields.items() if flag in given}
    try:
        return Keys.model_validate(values)
    except ValidationError as error:
        raise _wrong_flag(error, fields, given) from error


def _flat_out(given: Mapping[str, str]) -> Profile:
    _required(given, "count", "how many events --flat-out sends")
    count = _whole(given, "count", 0, 1, 10**10)
    return SteadyProfile(
        kind="steady",
        rate_per_second=FLAT_OUT_RATE_PER_SECOND,
        duration_seconds=count / FLAT_OUT_RATE_PER_SECOND,
    )


def _profile(given: Mapping[str, str]) -> Profile:
    if "profile-json" in given:
        return _profile_of_json(given["profile-json"])
    kind = given.get("profile", "steady")
    if kind not in _PROFILE_FLAGS:
        allowed = ", ".join(_PROFILE_FLAGS)
        raise WrongInput(where=WHERE, field="--profile", value=kind, allowed=allowed)
    flags = _PROFILE_FLAGS[kind]
    fields: dict[str, Any] = {"kind": kind, **_PROFILE_DEFAULTS.get(kind, {})}
    for flag, field in flags.items():
        if flag in given:
            is_time = field.endswith("_seconds")
            fields[field] = _seconds(flag, given[flag]) if is_time else given[flag]
    if "file" in fields:
        fields["points"] = trace_points(_text_of(fields["file"]), where=fields["file"])
    try:
        return _PROFILE.validate_python(fields)
    except ValidationError as error:
        raise _wrong_flag(error, flags, given) from error


def _profile_of_json(text: str) -> Profile:
    try:
        return _PROFILE.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(["PROFILE_JSON", *map(str, first["loc"][1:])])
        value = first["input"] if first["loc"] else text
        raise WrongInput(where=WHERE, field=field, value=value, allowed=first["msg"]) from error


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - Path adds nothing here
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        allowed = "a readable CSV file with the columns second,rate"
        raise WrongInput(where=WHERE, field="--trace-file", value=path, allowed=allowed) from error


def _seconds(flag: str, text: str) -> float:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        allowed = "seconds, or a number with ms, s, m or h"
        raise WrongInput(where=WHERE, field=f"--{flag}", value=text, allowed=allowed)
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def _whole(given: Mapping[str, str], flag: str, default: int, low: int, high: int) -> int:
    text = given.get(flag, str(default))
    if flag in given and not (re.fullmatch(r"\d{1,19}", text) and low <= int(text) <= high):
        allowed = f"a whole number from {low} to {high}"
        raise WrongInput(where=WHERE, field=f"--{flag}", value=text, allowed=allowed)
    return int(text)


def _required(given: Mapping[str, str], flag: str, allowed: str) -> str:
    if not given.get(flag):
        raise WrongInput(where=WHERE, field=f"--{flag}", value=None, allowed=allowed)
    return given[flag]


def _wrong_flag(
    error: ValidationError, flags: Mapping[str, str], given: Mapping[str, str]
) -> WrongInput:
    """Name the flag behind the first field that pydantic refused."""
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][-1]) if first["loc"] else ""
    flag = next((flag for flag, name in flags.items() if name == field), field)
    return WrongInput(where=WHERE, field=f"--{flag}", value=given.get(flag), allowed=first["msg"])
