"""Messages of a user's samples: values, keys, places, and the identity in a header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.scenario.abort import MEBIBYTE, Abort
from lagbench.core.scenario.event_stream import EventStream, partition_of_key, planned_partitions
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.payload import Samples
from lagbench.core.scenario.profiles import SteadyProfile, TracePoint, TraceProfile, profile_text
from lagbench.core.scenario.scenario import MAX_SEED, Keys, PartitionPlan
from lagbench.core.scenario.stream_tail import Tail
from lagbench.core.telemetry.records_of_recorder import LagSample
from lagbench.errors import WrongInput
from lagbench.programs.producer.abort_watch import AbortWatch
from lagbench.programs.producer.load_reports import LatenessCounts
from lagbench.programs.producer.outbox import MessageBodies, SampleBodies
from lagbench.programs.producer.producer_settings import ProducerSettings, read_settings
from lagbench.shared_with_spark.event import decode_identities, identity_of
from pod_program.flags import SETTINGS_VARIABLE

PLAN = PartitionPlan(7)
LOAD = offered_load(SteadyProfile(kind="steady", rate_per_second=100, duration_seconds=20))
VALUES = (b"one", b"two" * 100, b"three")
FIELDS = ("seq", "entity_id", "planned_offset_ns", "producer_id")


def _stream() -> EventStream:
    return EventStream(LOAD, Keys(entities=50), seed=3)


@pytest.mark.parametrize("keys", [None, (b"k", b"other", b"k")], ids=["zipf", "field"])
def test_the_header_has_the_identity(keys: tuple[bytes, ...] | None) -> None:
    """Seq, entity, planned offset and producer come back from the header of the run alone."""
    made = SampleBodies(PLAN, Samples(VALUES, keys), run_id="r-1").of(_stream().block(0))
    headers = made.headers or []

    found = [identity_of(of_one, "r-1") for of_one in headers]
    events = decode_identities(b"".join(identity for identity in found if identity))

    assert len(events) == LOAD.total
    for field in FIELDS:
        assert (events[field] == made.events[field]).all()
    assert {identity_of(of_one, "r-10") for of_one in headers} == {None}
    assert identity_of([("other", b"x")], "r-1") is None
    assert identity_of(None, "r-1") is None


def test_samples_are_drawn_by_the_seed_and_keyed_by_zipf() -> None:
    """Each sample gets about its share, and keys and places are those of lagbench's own events."""
    own = MessageBodies(PLAN).of(_stream().block(0))
    made = SampleBodies(PLAN, Samples(VALUES, None), run_id="r").of(_stream().block(0))
    again = SampleBodies(PLAN, Samples(VALUES, None), run_id="r").of(_stream().block(0))

    assert made.values == again.values
    counts = [made.values.count(value) for value in VALUES]
    assert sum(counts) == LOAD.total
    assert min(counts) > 0.25 * LOAD.total
    assert (made.keys, made.partitions) == (own.keys, own.partitions)


def test_a_samples_own_key_decides_the_place_and_the_entity() -> None:
    """Samples with one key are one entity and lie in one partition, in their order."""
    keys = (b"k", b"other", b"k")
    made = SampleBodies(PLAN, Samples(VALUES, keys), run_id="r").of(_stream().block(0))

    wanted = dict(zip(VALUES, keys, strict=True))
    assert made.keys == [wanted[value] for value in made.values]
    assert made.partitions == [partition_of_key(key, 7) for key in made.keys]
    entity = {b"k": 0, b"other": 1}
    assert made.events["entity_id"].tolist() == [entity[key] for key in made.keys]


def test_the_partition_of_a_key_is_kafkas() -> None:
    """The same hash for keys of 8 bytes, and the hashes that Kafka's own test states."""
    entities = np.arange(200, dtype=np.uint64)
    planned = planned_partitions(entities, np.zeros(200, np.int64), PLAN).tolist()
    assert [partition_of_key(n.to_bytes(8, "big"), 7) for n in range(200)] == planned

    # of Kafka's UtilsTest.testMurmur2, as non-negative numbers
    for key, hashed in (
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("abc", 479470107),
    ):
        assert partition_of_key(key.encode(), 2**31) == hashed & 0x7FFFFFFF


def counted(*late_ms: float) -> LatenessCounts:
    """Return counts of some lateness in milliseconds."""
    counts = LatenessCounts()
    counts.add(np.array([round(value * 1e6) for value in late_ms], dtype=np.int64))
    return counts


def test_lateness_is_counted_in_bins_and_its_maximum_exactly() -> None:
    """Nothing counted has no percentile; the whole is the sum of its seconds."""
    assert LatenessCounts().percentile_ms(50) is None
    whole = counted(1, 2, 3)

    whole.merge(counted(1_800_000))

    assert (whole.count, whole.max_ms) == (4, 1_800_000)
    assert whole.percentile_ms(75) == pytest.approx(3, rel=0.021)


@given(
    values=st.lists(st.floats(0.02, 100_000), min_size=1, max_size=200),
    percent=st.sampled_from([1, 50, 99, 100]),
)
def test_percentiles_are_at_most_two_percent_too_high(values: list[float], percent: int) -> None:
    """The bin's upper edge is never below the true percentile and 2 % above it at most."""
    counts = counted(*values)
    exact = float(np.percentile(values, percent, method="inverted_cdf"))

    found = counts.percentile_ms(percent)

    assert found is not None
    assert exact * 0.999999 <= found <= exact * 1.021
    assert counts.max_ms == pytest.approx(max(values), rel=1e-4)


BASE = ["--topic=t", "--bootstrap-servers=broker:9092"]
STEADY = ["-rate", "100", "-duration-seconds", "10"]


def settings(*arguments: str, **environment: str) -> ProducerSettings:
    """Return the settings of a command line."""
    return read_settings([*BASE, *arguments], environment)


SPIKE = "-rate 600 -profile step -spike-mult 10 -spike-hold"
BURSTS = "-profile bursty -rate 10 -spike-mult 5 -spike-hold 2 -quiet-seconds 3 -bursts 2"


@pytest.mark.parametrize(
    ("flags", "kind", "planned", "with_tail"),
    [
        (f"{SPIKE} 60s -seed 7 -partitions 12", "step", 360_000, 360_000),
        (f"{SPIKE} 60s -seed 7 -partitions 12".replace(" -", " --"), "step", 360_000, 360_000),
        # Seconds are the default; ms, s, m and h are understood.
        (f"{SPIKE} 60", "step", 360_000, 360_000),
        (f"{SPIKE} 1.5m", "step", 540_000, 540_000),
        (f"{SPIKE} 500ms", "step", 3_000, 3_000),
        (f"{BURSTS} -after-seconds 1", "bursty", 2 * (30 + 100) + 10, 270),
        ("-profile trace -trace-file {trace}", "trace", 50, 50),
        ("-flat-out -count 5000", "flat-out", 5000, 5000),
        # Rate and bound of a tail come together; the planned load stays what the profile says.
        (f"{' '.join(STEADY)} -tail-rate 50 -tail-most-seconds 2m", "steady", 1000, 7000),
    ],
)
def test_flags_shape_the_load(
    tmp_path: Path, flags: str, kind: str, planned: int, with_tail: int
) -> None:
    """In the spelling of the lab's section 8 and in the GNU spelling."""
    trace = tmp_path / "t.csv"
    trace.write_text("second,rate\n0,5\n10,0\n", encoding="utf-8")

    found = settings(*flags.format(trace=trace).split())

    assert (found.profile_kind, found.load.total) == (kind, planned)
    assert found.whole_load.total == with_tail
    assert found.tail == (None if planned == with_tail else Tail(50, 120))
    if "seed" in flags:
        assert (found.flags.seed, found.flags.partitions) == (7, 12)


def test_growths_of_the_topic_are_checked_against_the_partitions_it_has() -> None:
    """At the start, if these are given, and when the broker says them."""
    grown = settings(*STEADY, "-partitions=6", "-grow-partitions=[[2.5,12],[4,24]]")

    assert grown.partition_plan(6).growths == ((2.5, 12), (4, 24))
    with pytest.raises(WrongInput, check=lambda error: error.field == "--grow-partitions"):
        grown.partition_plan(12)


def test_a_scenario_s_profile_reaches_the_producer_as_it_was_planned() -> None:
    """It wins over flags; a trace's points are rows, with and without marks."""
    for mark in (None, True):
        points = [TracePoint(second=s, rate_per_second=7, is_spike=mark) for s in (0, 0.5, 10)]
        profile = TraceProfile(kind="trace", file="t.csv", points=tuple(points))
        text = profile_text(profile)

        assert settings(*STEADY, PROFILE_JSON=text).load == offered_load(profile)
        document = f'{{"profile_json": {text}}}'
        of_run = settings(*STEADY, **{SETTINGS_VARIABLE: document})
        assert of_run.load == offered_load(profile)


def test_the_run_names_the_topics_and_variables_are_read() -> None:
    """run-id is enough; a pod's name is the source of its reports."""
    arguments = ["--run-id=r1", "--bootstrap-servers=b:1", *STEADY]
    found = read_settings(arguments, {"POD_NAME": "producer-x", "PRODUCER_SEED": "3"})

    topics = (found.flags.topic, found.flags.telemetry_topic)
    assert topics == ("lagbench.r1.events", "lagbench.r1.telemetry")
    assert (found.source, found.flags.seed) == ("producer-x", 3)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["-rate", "-5", "-duration-seconds", "1"], "--rate"),
        (["-rate", "fast", "-duration-seconds", "1"], "--rate"),
        (["-rate", "5"], "--duration-seconds"),
        (["-profile", "wave"], "--profile"),
        ([*STEADY, f"-seed={MAX_SEED + 1}"], "--seed"),
        ([*STEADY, "-partitions", "0"], "--partitions"),
        ([*STEADY, "-zipf-s", "9"], "--zipf-s"),
        (["-rate=5", "-profile=step", "-spike-hold=soon"], "--spike-hold"),
        (["-rate=5", "-profile=step", "-spike-hold=5", "-spike-mult=0"], "--spike-mult"),
        (["-flat-out"], "--count"),
        (["-profile=trace", "-trace-file=/nowhere.csv"], "--trace-file"),
        (["-profile-json", '{"kind": "steady"}'], "--profile-json.steady.rate_per_second"),
        ([*STEADY, "-tail-rate", "50"], "--tail-most-seconds"),
        ([*STEADY, "-tail-most-seconds", "5"], "--tail-rate"),
        ([*STEADY, "-tail-rate", "0", "-tail-most-seconds", "5"], "--tail-rate"),
        ([*STEADY, "-partitions=6", "-grow-partitions=[[2,6]]"], "--grow-partitions"),
        ([*STEADY, "-grow-partitions=12"], "--grow-partitions"),
        ([*STEADY, "-payload-file=/nowhere"], "--run-id"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], field: str) -> None:
    """The message names the flag, its value and what is allowed; the exit code is 2."""
    with pytest.raises(WrongInput) as caught:
        settings(*arguments)

    assert caught.value.field == field
    assert caught.value.allowed
    assert caught.value.exit_code == 2


LIMITS = Abort(lag_records=100, disk_free_mebibytes=10, observer_starved_seconds=5)


@pytest.mark.parametrize(
    ("lags", "free_mebibytes", "second", "limit"),
    [
        ([], 10, 5.0, ""),
        ([100], 10, 5.0, ""),
        ([101], 10, 5.0, "lag_records"),
        ([101, 100], 10, 5.0, ""),
        ([], 9, 5.0, "disk_free_mebibytes"),
        ([100], 10, 5.5, "observer_starved_seconds"),
    ],
)
def test_a_stream_is_given_up_at_a_broken_limit(
    lags: list[int], free_mebibytes: int, second: float, limit: str
) -> None:
    """The newest reading counts, from the start; a partition without a commit lags as a whole."""
    now = [0.0]
    watch = AbortWatch(LIMITS, clock=lambda: now[0], free=lambda: free_mebibytes * MEBIBYTE)
    for lag in lags:
        rows = [(0, lag, None), (1, 7, 7)]
        watch.take(LagSample(at=1, source="recorder", partitions=rows))
    now[0] = second

    found = watch.reason()

    assert (f"abort.{limit}" in found, bool(found)) == (bool(limit), bool(limit))
    assert watch.reason() == ""  # looked a moment ago
