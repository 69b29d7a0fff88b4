"""The producer's flags and variables."""

from pathlib import Path

import pytest

from lagbench.core.scenario import TraceProfile, profile_text
from lagbench.core.scenario.profiles import TracePoint
from lagbench.core.scenario.scenario import MAX_SEED
from lagbench.core.scenario.stream import offered_load
from lagbench.core.scenario.stream.tail import Tail
from lagbench.errors import WrongInput
from lagbench.programs.producer.flags import ProducerSettings, read_settings

BASE = ["--topic=t", "--bootstrap-servers=broker:9092"]
STEADY = ["-rate", "100", "-duration-seconds", "10"]


def settings(*arguments: str, **environment: str) -> ProducerSettings:
    """Return the settings of a command line."""
    return read_settings([*BASE, *arguments], environment)


def test_the_labs_flags_work_with_one_dash_and_with_two() -> None:
    """The spelling of the lab's section 8 and the GNU spelling give the same settings."""
    one = [
        "-rate",
        "600",
        "-profile",
        "step",
        "-spike-mult",
        "10",
        "-spike-hold",
        "60s",
        "-seed",
        "7",
        "-partitions",
        "12",
    ]
    two = [f"-{word}" if word.startswith("-") else word for word in one]

    assert settings(*one) == settings(*two)
    assert settings(*one).load.total == 360_000
    assert (settings(*one).seed, settings(*one).partitions) == (7, 12)


@pytest.mark.parametrize(
    ("text", "events"), [("90", 9000), ("90s", 9000), ("1.5m", 9000), ("500ms", 50)]
)
def test_a_hold_may_have_a_unit(text: str, events: int) -> None:
    """Seconds are the default; ms, s, m and h are understood."""
    found = settings("-rate=10", "-profile=step", f"-spike-hold={text}")

    assert found.load.total == events


def test_a_sawtooth_from_flags() -> None:
    """quiet-seconds, bursts and after-seconds shape the bursty profile."""
    found = settings(
        *[
            "-rate",
            "10",
            "-profile",
            "bursty",
            "-spike-mult",
            "5",
            "-spike-hold",
            "2",
            "-quiet-seconds",
            "3",
            "-bursts",
            "2",
        ],
        "-after-seconds=1",
    )

    assert found.load.total == 2 * (30 + 100) + 10


def test_a_tail_follows_the_profile() -> None:
    """Rate and bound come together; the planned load stays what the profile says."""
    found = settings(*STEADY, "-tail-rate", "50", "-tail-most-seconds", "2m")

    assert found.tail == Tail(50, 120)
    assert (found.load.total, found.whole_load.total) == (1000, 7000)
    assert settings(*STEADY).whole_load == settings(*STEADY).load


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["-tail-rate", "50"], "--tail-most-seconds"),
        (["-tail-most-seconds", "5"], "--tail-rate"),
        (["-tail-rate", "0", "-tail-most-seconds", "5"], "--tail-rate"),
        (["-tail-rate", "5", "-tail-most-seconds", "0"], "--tail-most-seconds"),
    ],
)
def test_half_a_tail_is_refused(flags: list[str], named: str) -> None:
    """A rate without a bound, or either at zero, is named."""
    with pytest.raises(WrongInput) as caught:
        settings(*STEADY, *flags)

    assert caught.value.field == named


def test_growths_of_the_topic_are_read_and_must_grow() -> None:
    """They are checked against the partitions of the start, if these are given."""
    grown = settings(*STEADY, "-partitions", "6", "-grow-partitions", "2.5:12,4:24")
    assert (grown.partitions, grown.growths) == (6, "2.5:12,4:24")
    assert settings(*STEADY).growths == ""
    for text in ("2:6", "12", "3:12,2:24"):
        with pytest.raises(WrongInput) as refused:
            settings(*STEADY, "-partitions", "6", "-grow-partitions", text)
        assert refused.value.field == "--grow-partitions"


def test_a_trace_from_a_file(tmp_path: Path) -> None:
    """trace-file is read as CSV."""
    path = tmp_path / "t.csv"
    path.write_text("second,rate\n0,5\n10,0\n", encoding="utf-8")

    assert settings("-profile", "trace", "-trace-file", str(path)).load.total == 50


def test_the_scenarios_profile_wins_over_flags() -> None:
    """PROFILE_JSON shapes the load whatever the flags say."""
    text = '{"kind": "steady", "rate_per_second": 7, "duration_seconds": 10}'

    assert settings(*STEADY, PROFILE_JSON=text).load.total == 70


def test_a_trace_reaches_the_producer_as_it_was_planned() -> None:
    """Its points are rows, with and without marks."""
    for mark in (None, True):
        points = [TracePoint(second=s, rate_per_second=7, is_spike=mark) for s in (0, 0.5, 10)]
        profile = TraceProfile(kind="trace", file="t.csv", points=tuple(points))

        found = settings(*STEADY, PROFILE_JSON=profile_text(profile)).load

        assert found == offered_load(profile)


def test_a_flag_wins_over_its_variable() -> None:
    """PRODUCER_SEED is used when there is no -seed."""
    assert settings(*STEADY, PRODUCER_SEED="3").seed == 3
    assert settings(*STEADY, "-seed=4", PRODUCER_SEED="3").seed == 4


def test_the_run_names_the_topics() -> None:
    """run-id is enough; a pod's name is the source of its reports."""
    arguments = ["--run-id=r1", "--bootstrap-servers=b:1", *STEADY]

    found = read_settings(arguments, {"POD_NAME": "producer-x"})

    assert (found.topic, found.telemetry_topic) == ("lagbench.r1.events", "lagbench.r1.telemetry")
    assert found.source == "producer-x"


def test_flat_out_sends_a_count_without_a_profile() -> None:
    """flat-out needs only count."""
    found = settings("-flat-out", "-count", "5000")

    assert (found.load.total, found.is_flat_out, found.profile_kind) == (5000, True, "flat-out")


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["-rate", "-5", "-duration-seconds", "1"], "--rate", "-5"),
        (["-rate", "fast", "-duration-seconds", "1"], "--rate", "fast"),
        (["-rate", "5"], "--duration-seconds", None),
        (["-profile", "wave"], "--profile", "wave"),
        ([*STEADY, "-seed", "-1"], "--seed", "-1"),
        ([*STEADY, "-seed", str(MAX_SEED + 1)], "--seed", str(MAX_SEED + 1)),
        ([*STEADY, "-partitions", "0"], "--partitions", "0"),
        ([*STEADY, "-entities", "0"], "--entities", "0"),
        ([*STEADY, "-zipf-s", "9"], "--zipf-s", "9"),
        ([*STEADY, "-producer-id", "4294967296"], "--producer-id", "4294967296"),
        (["-rate=5", "-profile=step", "-spike-hold=soon"], "--spike-hold", "soon"),
        (["-rate=5", "-profile=step", "-spike-hold=5", "-spike-mult=0"], "--spike-mult", "0"),
        (["-flat-out"], "--count", None),
        (["-profile=trace", "-trace-file=/nowhere.csv"], "--trace-file", "/nowhere.csv"),
        (["-profile-json", '{"kind": "steady"}'], "PROFILE_JSON.rate_per_second", None),
        (["-profile-json", "{"], "PROFILE_JSON", "{"),
        (["-speed", "5"], "command line", "-speed 5"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], field: str, value: str | None) -> None:
    """The message names the flag, its value and what is allowed; the exit code is 2."""
    with pytest.raises(WrongInput) as caught:
        settings(*arguments)

    assert caught.value.field == field
    if value is not None:
        assert caught.value.value == value
    assert caught.value.allowed
    assert caught.value.exit_code == 2


def test_kafka_and_topic_are_required() -> None:
    """Without a broker or a topic nothing can be sent."""
    with pytest.raises(WrongInput, match="--bootstrap-servers"):
        read_settings(["-topic=t", *STEADY], {})
    with pytest.raises(WrongInput, match="--topic"):
        read_settings(["-bootstrap-servers=b:1", *STEADY], {})
