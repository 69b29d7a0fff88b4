"""Ids and names of a run, its start, what a conf may name, and a user's samples."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.policy_manifest import refuse_kind_on_cluster
from lagbench.core.scenario.conf_limits import ConfLimits, Reach, models_in, reaching_fields
from lagbench.core.scenario.payload import Payload, read_samples, with_samples
from lagbench.core.scenario.run_names import RunNames, new_run_id
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.scenario.stream_start import (
    DEFAULT_START_SECONDS,
    StartDelay,
    phase_distance_seconds,
    require_known_hpa,
    start_delay,
    stream_start_at_ns,
)
from lagbench.errors import WrongInput

AT = datetime(2026, 11, 21, 22, 5, 9, tzinfo=UTC)


def test_an_id_says_what_and_when() -> None:
    """The id is the scenario, the UTC instant and the digits that make it unique."""
    run_id = new_run_id("quick_spike", planned_at=AT, unique_digits="0a1b")

    assert run_id == "quick-spike-20261121-220509-0a1b"


@pytest.mark.parametrize("name", ["a" * 27 + "_b", "a" * 40, "a_", "a" * 26 + "__b"])
def test_every_scenario_gets_an_id_that_kubernetes_takes(name: str) -> None:
    """A name that is cut behind a word leaves no second dash before the instant."""
    run_id = new_run_id(name, planned_at=AT, unique_digits="0a1b")

    assert "--" not in run_id
    assert RunNames(run_id).run_id == run_id


def test_a_pod_has_the_same_delay_in_every_run_of_a_seed() -> None:
    """The delay follows from mean, seed and the pod's number, and from nothing else."""
    drawn = [StartDelay(1.2, seed=7).of_pod(number) for number in range(40)]

    assert drawn == [StartDelay(1.2, seed=7).of_pod(number) for number in range(40)]
    assert drawn != [StartDelay(1.2, seed=8).of_pod(number) for number in range(40)]
    assert len(set(drawn)) == 40


def test_delays_lie_around_their_mean() -> None:
    """They fill the mean +- a quarter of it evenly."""
    drawn = [StartDelay(2.0, seed=3).of_pod(number) for number in range(4000)]

    assert 1.5 <= min(drawn) < 1.51
    assert 2.49 < max(drawn) <= 2.5
    assert abs(sum(drawn) / len(drawn) - 2.0) < 0.02


def test_a_cluster_delays_only_when_it_is_asked_to() -> None:
    """On the embedded bench 1.2 s by default; elsewhere pods take what they take."""
    asked = ConsumerSettings(start_seconds=20)

    assert start_delay(ConsumerSettings(), 1, is_embedded=False) is None
    assert start_delay(ConsumerSettings(), 1, is_embedded=True) == StartDelay(1.2, 1)
    assert DEFAULT_START_SECONDS == 1.2
    assert start_delay(asked, 1, is_embedded=False) == StartDelay(20, 1)
    assert start_delay(ConsumerSettings(start_seconds=0), 1, is_embedded=True) == StartDelay(0, 1)


NS = 1_000_000_000

DATA = {
    "name": "s",
    "description": "d",
    "partitions": 1,
    "profile": {"kind": "steady", "rate_per_second": 1, "duration_seconds": 1},
    "policy": "lag-quick",
}


@pytest.mark.parametrize(
    ("sync_at", "phase", "earliest", "expected"),
    [
        (100, 5, 90, 95),
        (100, 5, 95, 95),
        (100, 5, 96, 110),
        (100, 0, 131, 145),
        (100, 14.5, 0, 10.5),
    ],
)
def test_the_stream_starts_a_phase_before_a_sync(
    sync_at: float, phase: float, earliest: float, expected: float
) -> None:
    """The first instant from the earliest on has a sync, one of each 15 s, that much after it."""
    found = stream_start_at_ns(
        sync_at_ns=round(sync_at * NS), phase_seconds=phase, earliest_ns=round(earliest * NS)
    )

    assert found == round(expected * NS)


def test_phases_lie_on_a_circle() -> None:
    """A sync 0.1 s before the stream's start is 0.2 s from one 0.1 s after it."""
    assert phase_distance_seconds(14.9, 0.1) == pytest.approx(0.2)
    assert phase_distance_seconds(2.0, 9.5) == 7.5


def test_a_cluster_does_not_report_its_syncs() -> None:
    """A fixed phase is rejected there, and no phase is allowed anywhere."""
    free = Scenario.model_validate(DATA)
    fixed = Scenario.model_validate({**DATA, "hpa_sync_at_seconds": 7.5})

    require_known_hpa(free, is_embedded=False)
    require_known_hpa(fixed, is_embedded=True)
    with pytest.raises(WrongInput) as refused:
        require_known_hpa(fixed, is_embedded=False)

    assert (refused.value.field, refused.value.value) == ("hpa_sync_at_seconds", 7.5)


FIELDS = dict(reaching_fields(Scenario))

HARMLESS = {
    "description": "is shown, escaped",
    "payload.key_field": "names a field of a sample",
    "payload.sha256": "is compared",
    "consumer.manifest_sha256": "is compared",
    "consumer.container": "names a container of the manifest",
    "consumer.client_id": "is compared, escaped",
    "policy": "as a path it needs an allowed folder: test_production_policies",
    "actions.*.policy": "the same",
}
"""Texts that lead to no process, and to no file but a policy of an allowed folder."""

LEAVES: dict[str, Any] = {
    "consumer.env": {"PYTHONWARNINGS": "x"},
    "actions.*.env": {"PYTHONWARNINGS": "x"},
    "consumer.command": ["sh", "-c", "id"],
    "consumer.args": ["-c", "id"],
}


def texts(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield each field below a model that takes any text."""
    for name, info in model.model_fields.items():
        inner = list(models_in(info.annotation))
        for part, one in inner:
            yield from texts(one, f"{above}{name}.{part}")
        is_bound = any(getattr(one, "pattern", None) for one in info.metadata)
        if not inner and takes_text(info.annotation) and not is_bound:
            yield f"{above}{name}"


def takes_text(annotation: Any) -> bool:
    """Return whether a type has ``str`` in it."""
    if get_origin(annotation) is Literal:
        return False
    return annotation in (str, Any) or any(map(takes_text, get_args(annotation)))


def data_with(field: str, value: Any) -> dict[str, Any]:
    """Return a scenario's data with one value at a dotted field."""
    first, _, rest = field.partition(".")
    if rest.startswith("*."):
        return {first: [data_with(rest[2:], value)]}
    return {first: data_with(rest, value) if rest else value}


def given(field: str) -> dict[str, Any]:
    """Return data that reach further by this field."""
    return data_with(field, LEAVES.get(field.removeprefix("second_group."), "/etc/passwd"))


def require(limits: ConfLimits, data: dict[str, Any], own: dict[str, Any] | None = None) -> None:
    """Apply the rule; a path leads to itself."""
    limits.require_fields(data, own or {}, lambda _, path: PurePath(path))


def test_each_text_of_a_scenario_is_known() -> None:
    """A new field of the models is marked with its reach, or stands above as harmless."""
    found = {field.removeprefix("second_group.") for field in texts(Scenario)}

    assert found - FIELDS.keys() == HARMLESS.keys()


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_reaches_further_is_refused(field: str) -> None:
    """It is named; what the catalog's file has itself is taken, and what is left empty."""
    limits = ConfLimits(FIELDS, allowed_folders=(PurePath("/"),))

    with pytest.raises(WrongInput) as refused:
        require(limits, given(field))

    assert refused.value.field.startswith(field.replace("*", "0"))
    assert refused.value.where == "conf"
    assert field in refused.value.allowed
    require(limits, given(field), given(field))
    for empty in (None, [], {}, ""):
        require(limits, data_with(field, empty), given(field))


@pytest.mark.parametrize("field", FIELDS)
def test_the_deployer_allows_fields_by_name(field: str) -> None:
    """That of a file needs an allowed folder, too."""
    inside = ConfLimits(FIELDS, (PurePath("/etc"),), allowed_fields=frozenset([field]))
    outside = ConfLimits(FIELDS, (PurePath("/etc/pass"),), allowed_fields=frozenset([field]))

    require(inside, given(field))
    if FIELDS[field] is Reach.FILE:
        with pytest.raises(WrongInput, match="/etc/pass"):
            require(outside, given(field))
    else:
        require(outside, given(field))


def test_a_variable_beside_those_of_the_catalog_is_refused() -> None:
    """By its own name; the others stay."""
    own = {"consumer": {"env": {"A": "1"}}}

    with pytest.raises(WrongInput) as refused:
        require(ConfLimits(FIELDS), {"consumer": {"env": {"A": "1", "B": "2"}}}, own)

    assert refused.value.field == "consumer.env.B"


JSON = b'{"id": "a-1", "user": {"no": 7}}\n\n  {"id": "b",   "user": {"no": 8}}  \n'


def _read(text: bytes, **fields: str) -> tuple[tuple[bytes, ...], tuple[bytes, ...] | None]:
    samples = read_samples(text, Payload(file="x", **fields), where="x")
    return samples.values, samples.keys


def test_json_samples_are_sent_as_they_are() -> None:
    """A line without its outer blanks is a value, byte by byte; empty lines are none."""
    values, keys = _read(JSON)

    assert values == (b'{"id": "a-1", "user": {"no": 7}}', b'{"id": "b",   "user": {"no": 8}}')
    assert keys is None


@pytest.mark.parametrize(
    ("field", "keys"), [("id", (b"a-1", b"b")), ("user.no", (b"7", b"8"))], ids=["text", "number"]
)
def test_a_field_is_the_key(field: str, keys: tuple[bytes, ...]) -> None:
    """A text is the key without its quotes, another value as compact JSON."""
    assert _read(JSON, key_field=field)[1] == keys


def test_base64_samples_are_any_bytes() -> None:
    """Avro and Protobuf bytes come out as they went in."""
    assert _read(b"AP8KAQ==\n", format="base64-lines")[0] == (b"\x00\xff\n\x01",)


@pytest.mark.parametrize(
    ("text", "fields", "field"),
    [
        (b"\n \n", {}, "the file"),
        (b'{"a": 1}\n{"a": \n', {}, "line 2"),
        (b"AP8*\n", {"format": "base64-lines"}, "line 1"),
        (b'{"a": 1}\n{"b": 1}\n', {"key_field": "a"}, "line 2"),
        (b'{"a": null}\n', {"key_field": "a"}, "line 1"),
        (b"[1]\n", {"key_field": "a"}, "line 1"),
        (b'{"a": "\\ud800"}\n', {"key_field": "a"}, "line 1"),
        (b'{"a": "\xed\xa0\x80"}\n', {}, "line 1"),
        ('{"a": 1}\n'.encode("utf-16"), {}, "line 1"),
        (b"[" * 100_000 + b"\n", {}, "line 1"),
        (b"AP8K\n", {"format": "base64-lines", "key_field": "a"}, "payload.key_field"),
        (b'"' + b"x" * 900_000 + b'"\n', {}, "line 1"),
    ],
)
def test_a_bad_file_is_refused_by_its_line(text: bytes, fields: dict[str, str], field: str) -> None:
    """The message names the file and the line or field that is wrong."""
    with pytest.raises(WrongInput) as refused:
        _read(text, **fields)

    assert (refused.value.where, refused.value.field) == ("x", field)


def test_the_scenario_knows_the_sizes_of_its_samples() -> None:
    """Number, mean and largest size, and a digest that another content changes."""
    payload = Payload(file="x")
    of_one = with_samples(payload, JSON, read_samples(JSON, payload, where="x"))
    other = JSON + b"1\n"
    of_other = with_samples(payload, other, read_samples(other, payload, where="x"))

    assert (of_one.samples, of_one.mean_bytes, of_one.largest_bytes) == (2, 32.0, 32)
    assert (of_other.samples, of_other.mean_bytes) == (3, 65 / 3)
    assert of_one.sha256 != of_other.sha256


def test_a_cluster_refuses_samples_that_no_config_map_holds() -> None:
    """The embedded bench takes more."""
    payload = {"file": "orders.jsonl", "file_bytes": 1_000_001}
    scenario = Scenario.model_validate({**DATA, "payload": payload})

    with pytest.raises(WrongInput, check=lambda error: error.field == "payload.file"):
        refuse_kind_on_cluster(scenario, ClusterSettings())

    fits = Scenario.model_validate({**DATA, "payload": {**payload, "file_bytes": 1_000_000}})
    refuse_kind_on_cluster(fits, ClusterSettings())


def test_a_cluster_refuses_a_limit_on_a_disk_that_nobody_sees() -> None:
    """The disk of its broker is elsewhere; its lag is known."""
    watched = {"abort": {"disk_free_mebibytes": 1}}

    with pytest.raises(WrongInput, check=lambda error: error.field == "abort.disk_free_mebibytes"):
        refuse_kind_on_cluster(Scenario.model_validate(DATA | watched), ClusterSettings())

    of_lag = Scenario.model_validate(DATA | {"abort": {"lag_records": 1}})
    refuse_kind_on_cluster(of_lag, ClusterSettings())
