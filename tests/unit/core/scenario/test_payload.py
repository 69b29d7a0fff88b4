"""A user's file of samples: what is read, what is refused."""

from __future__ import annotations

import pytest

from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.policy_manifest import refuse_kind_on_cluster
from lagbench.core.scenario.payload import Payload, read_samples, with_samples
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput

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


_SCENARIO = {
    "name": "x",
    "description": "x",
    "partitions": 4,
    "policy": "lag-default",
    "profile": {"kind": "steady", "rate_per_second": 10, "duration_seconds": 60},
}
_POISON = {"key_rank": 1, "effect": "fail", "from_seconds": 1, "for_seconds": 2}
_GROWTH = {"kind": "grow_partitions", "at_seconds": 5, "partitions": 8}


def test_a_cluster_refuses_samples_that_no_config_map_holds() -> None:
    """The embedded bench takes more."""
    payload = {"file": "orders.jsonl", "file_bytes": 1_000_001}
    scenario = Scenario.model_validate({**_SCENARIO, "payload": payload})

    with pytest.raises(WrongInput, check=lambda error: error.field == "payload.file"):
        refuse_kind_on_cluster(scenario, ClusterSettings())

    fits = Scenario.model_validate({**_SCENARIO, "payload": {**payload, "file_bytes": 1_000_000}})
    refuse_kind_on_cluster(fits, ClusterSettings())
