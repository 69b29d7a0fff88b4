"""Define the settings of the producer and read them.

Each flag is also read from a variable ``PRODUCER_<FLAG>``. A scenario's profile as JSON wins over
every flag that shapes the load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lagbench.core.scenario.abort import Abort
from lagbench.core.scenario.offered_load import OfferedLoad, offered_load
from lagbench.core.scenario.payload import Payload, PayloadFormat, Samples, read_samples
from lagbench.core.scenario.profiles import (
    BurstyProfile,
    Profile,
    SteadyProfile,
    StepProfile,
    TraceProfile,
    trace_points,
)
from lagbench.core.scenario.scenario import MAX_SEED, Keys, PartitionPlan
from lagbench.core.scenario.stream_tail import Tail
from lagbench.programs.run_flags import RunFlags
from pod_program.errors import cannot_read
from pod_program.flags import CommandLine, Flag, PodName, Settings, like

WHERE = "producer"

# As fast as the machine can is a profile that no machine holds: the highest rate there is.
FLAT_OUT_RATE_PER_SECOND = 1_000_000
_MAX_PRODUCER_ID = 2**32 - 1
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_UNIT_SECONDS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

_KINDS: Mapping[str, type[SteadyProfile | StepProfile | BurstyProfile | TraceProfile]] = {
    "steady": SteadyProfile,
    "step": StepProfile,
    "bursty": BurstyProfile,
    "trace": TraceProfile,
}

_FLAGS = {"rate_per_second": "rate", "spike_hold_seconds": "spike_hold", "file": "trace_file"}
"""Of the fields of a profile whose flags have other names."""


def _seconds(given: Any) -> Any:
    match = _DURATION.fullmatch(given.strip()) if isinstance(given, str) else None
    if isinstance(given, str) and match is None:
        raise ValueError("seconds, or a number with ms, s, m or h")
    return given if match is None else float(match[1]) * _UNIT_SECONDS[match[2]]


Duration = Annotated[float | None, BeforeValidator(_seconds)]


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
    grow_partitions: tuple[tuple[float, int], ...] = Field(
        (), description="growths of the topic as JSON: [[SECOND, PARTITIONS], …], both ascending"
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
    profile_json: Annotated[Profile | None, Flag(variables=("PROFILE_JSON",))] = Field(
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
    abort: Abort | None = Field(
        None, description="limits at which the stream ends early, as JSON; needs --telemetry-topic"
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
    pod_name: PodName = ""


_LINE = CommandLine(ProducerFlags, module="lagbench.programs.producer", variable_prefix="PRODUCER_")


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of one run of the producer: its flags, and what they make."""

    flags: ProducerFlags
    profile_kind: str
    load: OfferedLoad
    """The planned window."""
    tail: Tail | None = None
    samples: Samples | None = None
    """A user's messages; None: lagbench's own events."""

    @property
    def keys(self) -> Keys:
        """Return the distribution of events over entities."""
        return Keys(entities=self.flags.entities, zipf_s=self.flags.zipf_s)

    @property
    def source(self) -> str:
        """Return the name under which it reports."""
        return self.flags.pod_name or f"producer-{self.flags.producer_id}"

    @property
    def whole_load(self) -> OfferedLoad:
        """Return the planned window and all of the tail that there may be."""
        return self.load if self.tail is None else self.tail.after(self.load)

    def partition_plan(self, found: int) -> PartitionPlan:
        """Return the partitions over the stream, of a topic that has ``found``."""
        growths = self.flags.grow_partitions
        try:
            return PartitionPlan(found, growths)
        except ValueError as error:
            raise _LINE.wrong("grow_partitions", growths, str(error)) from error


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> ProducerSettings:
    """Return the settings; ``WrongInput`` names the flag, its value and what is allowed."""
    flags = _LINE.read(arguments, environment)
    profile = _profile(flags)
    tail = None
    if flags.tail_rate is not None or flags.tail_most_seconds is not None:
        for field in ("tail_rate", "tail_most_seconds"):
            if getattr(flags, field) is None:
                raise _LINE.missing(field)
        tail = Tail(float(flags.tail_rate or 0), float(flags.tail_most_seconds or 0))
    settings = ProducerSettings(
        flags,
        profile_kind="flat-out" if flags.flat_out else profile.kind,
        load=offered_load(profile, where=WHERE),
        tail=tail,
        samples=_samples(flags),
    )
    settings.partition_plan(flags.partitions or 1)
    return settings


def _samples(flags: ProducerFlags) -> Samples | None:
    """Return the samples; without a run their identity would be anybody's."""
    file = flags.payload_file
    if file is None:
        return None
    if not flags.run_id:
        raise _LINE.missing("run_id")
    payload = Payload(file=file, format=flags.payload_format, key_field=flags.payload_key_field)
    return read_samples(_content("--payload-file", file), payload, where=file)


def _profile(flags: ProducerFlags) -> Profile:
    if flags.flat_out:
        if flags.count is None:
            raise _LINE.missing("count")
        rate = FLAT_OUT_RATE_PER_SECOND
        seconds = flags.count / rate
        return SteadyProfile(kind="steady", rate_per_second=rate, duration_seconds=seconds)
    if flags.profile_json is not None:
        return flags.profile_json
    model = _KINDS[flags.profile]
    fields: dict[str, Any] = {"kind": flags.profile}
    for field, info in model.model_fields.items():
        flag = _FLAGS.get(field, field)
        value = getattr(flags, flag, None)
        if field != "kind" and value is not None:
            fields[field] = value
        elif field != "kind" and info.is_required():
            raise _LINE.missing(flag)
    if flags.profile == "trace":
        content = _content("--trace-file", fields["file"])
        fields["points"] = trace_points(content.decode(errors="replace"), where=fields["file"])
    return model.model_validate(fields)


def _content(flag: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise cannot_read(path, error, field=flag) from error
