"""Define the settings of the producer and read them.

Each flag is also read from a variable ``PRODUCER_<FLAG>``. ``PROFILE_JSON`` (a scenario's profile)
wins over every flag that shapes the load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from lagbench.core.scenario import (
    MAX_SEED,
    BurstyProfile,
    Flag,
    Keys,
    PartitionPlan,
    Payload,
    PayloadFormat,
    Profile,
    Samples,
    SteadyProfile,
    StepProfile,
    read_samples,
    trace_points,
)
from lagbench.core.scenario.stream import OfferedLoad, Tail, offered_load
from lagbench.errors import WrongInput
from lagbench.programs.flags import CommandLine, Settings, like
from lagbench.programs.run_flags import RunFlags

WHERE = "producer"
# As fast as the machine can is a profile that no machine holds: the highest rate there is.
FLAT_OUT_RATE_PER_SECOND = 1_000_000
_MAX_PRODUCER_ID = 2**32 - 1
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_UNIT_SECONDS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_PROFILE: TypeAdapter[Profile] = TypeAdapter(Profile)

# Which field of a profile each flag feeds.
_PROFILE_FLAGS = {
    "steady": {"rate": "rate_per_second", "duration_seconds": "duration_seconds"},
    "step": {
        "rate": "rate_per_second",
        "spike_mult": "spike_mult",
        "before_seconds": "before_seconds",
        "spike_hold": "spike_hold_seconds",
        "after_seconds": "after_seconds",
    },
    "bursty": {
        "rate": "rate_per_second",
        "spike_mult": "spike_mult",
        "quiet_seconds": "quiet_seconds",
        "spike_hold": "spike_hold_seconds",
        "bursts": "bursts",
        "after_seconds": "after_seconds",
    },
    "trace": {"trace_file": "file"},
}


def _seconds(text: str) -> float:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _UNIT_SECONDS[match[2]]


Duration = Annotated[
    float | None, BeforeValidator(_seconds), Flag(noun="seconds, or a number with ms, s, m or h,")
]


class ProducerFlags(RunFlags, Settings):
    """lagbench's producer of a planned load."""

    rate: float | None = like(
        StepProfile, "rate_per_second", "events per second outside spikes", default=None
    )
    profile: Literal["steady", "step", "bursty", "trace"] = Field(
        "steady", description="shape of the load"
    )
    spike_mult: float = like(StepProfile, "spike_mult", "rate of a spike as a multiple of the rate")
    spike_hold: Duration = like(
        StepProfile, "spike_hold_seconds", "length of a spike", default=None
    )
    seed: int = Field(1, ge=0, le=MAX_SEED, description="draws keys and payloads")
    partitions: int | None = Field(
        None, ge=1, le=1000, description="partitions of the topic; default: ask the broker"
    )
    grow_partitions: str = Field(
        "", description="growths of the topic as SECOND:PARTITIONS,…, in seconds of the stream"
    )
    before_seconds: Duration = like(
        StepProfile, "before_seconds", "step: time before the spike", default=0.0
    )
    after_seconds: Duration = like(
        BurstyProfile, "after_seconds", "step, bursty: time after the last spike", default=0.0
    )
    quiet_seconds: Duration = like(
        BurstyProfile, "quiet_seconds", "bursty: time before each burst", default=None
    )
    bursts: int | None = like(BurstyProfile, "bursts", "bursty: number of bursts", default=None)
    duration_seconds: Duration = like(
        SteadyProfile, "duration_seconds", "steady: length of the stream", default=None
    )
    trace_file: str | None = Field(None, description="trace: CSV with the columns second,rate")
    entities: int = like(Keys, "entities", "number of keys")
    zipf_s: float = like(Keys, "zipf_s", "skew of the keys; 0 is uniform")
    producer_id: int = Field(
        0, ge=0, le=_MAX_PRODUCER_ID, description="number of this producer among several"
    )
    telemetry_topic: str | None = Field(
        None, description="topic of the reports; default: the run's, by --run-id, else no reports"
    )
    second_telemetry_topic: str | None = Field(
        None, description="telemetry of the run's second consumer group, for the same reports"
    )
    profile_json: Annotated[str | None, Flag(variables=("PROFILE_JSON",))] = Field(
        None, description="a scenario's profile as JSON"
    )
    tail_rate: float | None = like(
        Tail,
        "rate_per_second",
        "events per second after the profile, until SIGTERM; default: no tail",
        default=None,
    )
    tail_most_seconds: Duration = like(
        Tail, "most_seconds", "tail: its longest duration", default=None
    )
    starts_at_ns: int = Field(
        0, ge=0, description="start of the stream as unix nanoseconds; 0, or past: at once"
    )
    count: int | None = Field(None, ge=1, le=10**10, description="flat-out: number of events")
    flat_out: bool = Field(False, description="no pacing")
    payload_file: str | None = Field(
        None, description="file of samples, sent as they are; default: lagbench's own events"
    )
    payload_format: PayloadFormat = like(Payload, "format", "of a sample in the file")
    payload_key_field: str | None = like(
        Payload, "key_field", "dotted field of a JSON sample that is its key; default: Zipf"
    )
    pod_name: Annotated[str, Flag(variables=("POD_NAME",), is_variable_only=True)] = Field(
        "", description="the pod's metadata.name"
    )


_LINE = CommandLine(ProducerFlags, module="lagbench.programs.producer", variable_prefix="PRODUCER_")


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of one run of the producer."""

    bootstrap_servers: str
    topic: str
    telemetry_topic: str | None
    partitions: int | None
    growths: str
    """As ``PartitionPlan.of_text`` reads them."""
    seed: int
    keys: Keys
    profile_kind: str
    load: OfferedLoad
    """The planned window."""
    producer_id: int
    source: str
    is_flat_out: bool = False
    tail: Tail | None = None
    starts_at_ns: int = 0
    second_telemetry_topic: str | None = None
    run_id: str = ""
    samples: Samples | None = None
    """A user's messages; None: lagbench's own events."""

    @property
    def whole_load(self) -> OfferedLoad:
        """Return the planned window and all of the tail that there may be."""
        return self.load if self.tail is None else self.tail.after(self.load)


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> ProducerSettings:
    """Return the settings; ``WrongInput`` names the flag, its value and what is allowed."""
    flags = _LINE.read(arguments, environment)
    profile = _flat_out(flags) if flags.flat_out else _profile(flags)
    return ProducerSettings(
        bootstrap_servers=flags.bootstrap_servers,
        topic=flags.topic,
        telemetry_topic=flags.telemetry_topic,
        partitions=flags.partitions,
        growths=_growths(flags),
        seed=flags.seed,
        keys=Keys(entities=flags.entities, zipf_s=flags.zipf_s),
        profile_kind="flat-out" if flags.flat_out else profile.kind,
        load=offered_load(profile, where=WHERE),
        producer_id=flags.producer_id,
        source=flags.pod_name or f"producer-{flags.producer_id}",
        is_flat_out=flags.flat_out,
        tail=_tail(flags),
        starts_at_ns=flags.starts_at_ns,
        second_telemetry_topic=flags.second_telemetry_topic,
        run_id=flags.run_id or "",
        samples=_samples(flags),
    )


def _samples(flags: ProducerFlags) -> Samples | None:
    """Return the samples; without a run their identity would be anybody's."""
    if flags.payload_file is None:
        return None
    if not flags.run_id:
        raise _LINE.missing("run_id")
    payload = Payload(
        file=flags.payload_file, format=flags.payload_format, key_field=flags.payload_key_field
    )
    try:
        content = Path(flags.payload_file).read_bytes()
    except OSError as error:
        raise WrongInput(
            where=WHERE,
            field="--payload-file",
            value=flags.payload_file,
            allowed="a readable file of samples",
        ) from error
    return read_samples(content, payload, where=flags.payload_file)


def _growths(flags: ProducerFlags) -> str:
    """Return the growths; how many partitions they begin with may be known only to the broker."""
    try:
        PartitionPlan.of_text(flags.partitions or 1, flags.grow_partitions)
    except ValueError as error:
        raise WrongInput(
            where=WHERE,
            field="--grow-partitions",
            value=flags.grow_partitions,
            allowed=f"SECOND:PARTITIONS,…, both ascending ({error})",
        ) from error
    return flags.grow_partitions


def _tail(flags: ProducerFlags) -> Tail | None:
    if flags.tail_rate is None and flags.tail_most_seconds is None:
        return None
    if flags.tail_rate is None:
        raise _LINE.missing("tail_rate")
    if flags.tail_most_seconds is None:
        raise _LINE.missing("tail_most_seconds")
    return Tail(flags.tail_rate, flags.tail_most_seconds)


def _flat_out(flags: ProducerFlags) -> Profile:
    if flags.count is None:
        raise _LINE.missing("count")
    return SteadyProfile(
        kind="steady",
        rate_per_second=FLAT_OUT_RATE_PER_SECOND,
        duration_seconds=flags.count / FLAT_OUT_RATE_PER_SECOND,
    )


def _profile(flags: ProducerFlags) -> Profile:
    if flags.profile_json is not None:
        return _profile_of_json(flags.profile_json)
    fields: dict[str, Any] = {"kind": flags.profile}
    for flag, field in _PROFILE_FLAGS[flags.profile].items():
        fields[field] = getattr(flags, flag)
        if fields[field] is None:
            raise _LINE.missing(flag)
    if "file" in fields:
        fields["points"] = trace_points(_text_of(fields["file"]), where=fields["file"])
    return _PROFILE.validate_python(fields)


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
