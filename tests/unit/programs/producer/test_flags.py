"""The producer's flags and variables."""

from pathlib import Path

import pytest

from lagbench.core.scenario.conf_limits import SETTINGS_VARIABLE
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.profiles import TracePoint, TraceProfile, profile_text
from lagbench.core.scenario.scenario import MAX_SEED
from lagbench.core.scenario.stream_tail import Tail
from lagbench.errors import WrongInput
from lagbench.programs.producer.producer_settings import ProducerSettings, read_settings

BASE = ["--topic=t", "--bootstrap-servers=broker:9092"]
STEADY = ["-rate", "100", "-duration-seconds", "10"]


def settings(*arguments: str, **environment: str) -> ProducerSettings:
    """Return the settings of a command line."""
    return read_settings([*BASE, *arguments], environment)


def test_the_labs_flags_work_with_one_dash_and_with_two() -> None:
    """The spelling of the lab's section 8 and the GNU spelling give the same settings."""
    flags = "-rate 600 -profile step -spike-mult 10 -spike-hold 60s -seed 7 -partitions 12"
    one = flags.split(" ")
    two = [f"-{word}" if word.startswith("-") else word for word in one]

    assert settings(*one) == settings(*two)
    assert settings(*one).load.total == 360_000
    assert (settings(*one).flags.seed, settings(*one).flags.partitions) == (7, 12)


@pytest.mark.parametrize(
    ("text", "events"), [("90", 9000), ("90s", 9000), ("1.5m", 9000), ("500ms", 50)]
)
def test_a_hold_may_have_a_unit(text: str, events: int) -> None:
    """Seconds are the default; ms, s, m and h are understood."""
    found = settings("-rate=10", "-profile=step", f"-spike-hold={text}")

    assert found.load.total == events


def test_other_shapes_of_the_load(tmp_path: Path) -> None:
    """A sawtooth, a trace from a file, and a count as fast as it goes."""
    trace = tmp_path / "t.csv"
    trace.write_text("second,rate\n0,5\n10,0\n", encoding="utf-8")
    bursts = "-profile bursty -rate 10 -spike-mult 5 -spike-hold 2 -quiet-seconds 3 -bursts 2"

    assert settings(*bursts.split(), "-after-seconds=1").load.total == 2 * (30 + 100) + 10
    assert settings("-profile=trace", f"-trace-file={trace}").load.total == 50
    flat = settings("-flat-out", "-count", "5000")
    assert (flat.load.total, flat.flags.flat_out, flat.profile_kind) == (5000, True, "flat-out")


def test_a_tail_follows_the_profile() -> None:
    """Rate and bound come together; the planned load stays what the profile says."""
    found = settings(*STEADY, "-tail-rate", "50", "-tail-most-seconds", "2m")

    assert found.tail == Tail(50, 120)
    assert (found.load.total, found.whole_load.total) == (1000, 7000)
    assert settings(*STEADY).whole_load == settings(*STEADY).load


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
