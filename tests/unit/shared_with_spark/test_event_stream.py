"""The stream of events: the same bytes for a seed, however it is cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagbench.core.scenario.event_stream import BLOCK_EVENTS, EventStream, StreamDigest
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.profiles import StepProfile
from lagbench.core.scenario.scenario import Keys
from lagbench.shared_with_spark.event import (
    EVENT_BYTES,
    PAYLOAD_BYTES,
    decode_events,
    event_values,
)
from lagbench.shared_with_spark.kafka_options import java_options, spark_kafka_options
from pod_program.kafka_config import CONFIG_VARIABLE

PROFILE = StepProfile(
    kind="step", rate_per_second=1000, before_seconds=3, spike_hold_seconds=2, after_seconds=1
)

# Pinned: a change of generator, draw or layout must be a decision, because it makes every recorded
# run incomparable with new ones.
SHA256 = "f7bb36af7fe0cddb0e4d8e6e41e5b4cd8b81e2a6bf2d5f24983b0aaf0ff2ff35"


def stream(seed: int = 7, producer_id: int = 0) -> EventStream:
    """Return the stream under test: 24,000 events, three blocks."""
    return EventStream(offered_load(PROFILE), Keys(), seed=seed, producer_id=producer_id)


def digest_of(parts: list[np.ndarray]) -> str:
    """Return the digest of events given in parts."""
    digest = StreamDigest(seq_to=24_000)
    for part in parts:
        digest.add(part)
    return digest.hexdigest()


def test_the_stream_of_a_seed_is_pinned() -> None:
    """Seed 7 gives these very bytes, on any machine."""
    assert digest_of(list(stream().blocks())) == SHA256


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 24_000), max_size=6))
def test_the_bytes_do_not_depend_on_how_the_stream_is_cut(cuts: list[int]) -> None:
    """Any cutting of the stream has the same digest."""
    edges = [0, *sorted(cuts), 24_000]

    parts = [stream().events(a, b) for a, b in pairwise(edges)]

    assert sum(map(len, parts)) == 24_000
    assert digest_of(parts) == SHA256


def test_a_block_can_be_made_without_those_before_it() -> None:
    """Block 1 alone is what it is in the whole stream."""
    whole = np.concatenate(list(stream().blocks()))

    alone = stream().block(1)

    assert (alone == whole[BLOCK_EVENTS : 2 * BLOCK_EVENTS]).all()


def test_seeds_and_producers_differ() -> None:
    """Another seed or producer is another stream."""
    digests = {
        digest_of([stream(seed, producer).block(0)]) for seed, producer in ((7, 0), (8, 0), (7, 1))
    }

    assert len(digests) == 3


def test_events_number_without_holes_and_carry_their_instant() -> None:
    """Numbers run from 0, and planned_offset_ns is the load's instant of that seq."""
    events = np.concatenate(list(stream().blocks()))

    assert (events["seq"] == np.arange(24_000, dtype=np.uint64)).all()
    assert (events["planned_offset_ns"] == offered_load(PROFILE).planned_times(0, 24_000)).all()
    assert events["entity_id"].max() < 5_000_000


def test_values_decode_to_the_events() -> None:
    """A value is 256 bytes and decodes to what was made."""
    events = stream().events(100, 110)

    values = event_values(events)

    assert {len(value) for value in values} == {EVENT_BYTES}
    assert (decode_events(b"".join(values)) == events).all()


def test_half_of_the_payload_is_random() -> None:
    """Half the payload differs from event to event, half is filler that lz4 folds away."""
    events = stream().block(0)

    payload = events["payload"].view((np.uint8, PAYLOAD_BYTES))

    changing = (payload != payload[0]).any(axis=0)
    assert changing.sum() == pytest.approx(PAYLOAD_BYTES / 2, abs=2)


def test_a_copied_digest_goes_its_own_way() -> None:
    """Adding to a digest leaves its copy as it was."""
    digest = StreamDigest(seq_to=24_000)
    digest.add(stream().events(0, 5))
    twin = digest.copy()

    digest.add(stream().events(5, 10))

    assert twin.hexdigest() == digest_of([stream().events(0, 5)])
    assert digest.hexdigest() == digest_of([stream().events(0, 10)])


def test_scram_over_tls_has_a_login_and_both_stores(tmp_path: Path) -> None:
    """User, password, authority and own certificate go in by Kafka's own names."""
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text(f"PEM of {name}")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\n"
        f'sasl.password=a"b\\c\nssl.ca.location={tmp_path}/ca.pem\n'
        f"ssl.certificate.location={tmp_path}/cert.pem\nssl.key.location={tmp_path}/key.pem\n"
        "ssl.endpoint.identification.algorithm=none\n"
    )
    found = spark_kafka_options({CONFIG_VARIABLE: str(file)})
    assert found["kafka.security.protocol"] == "SASL_SSL"
    assert found["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="a\\"b\\\\c";'
    )
    assert found["kafka.ssl.truststore.certificates"] == "PEM of ca"
    assert found["kafka.ssl.keystore.key"] == "PEM of key"
    assert found["kafka.ssl.endpoint.identification.algorithm"] == ""


def test_without_a_file_there_are_no_options() -> None:
    """A plain Kafka needs none."""
    assert spark_kafka_options({}) == {}


def test_another_mechanism_is_refused_by_name() -> None:
    """What Spark's reader cannot get from the file is said."""
    with pytest.raises(ValueError, match="GSSAPI"):
        java_options({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("enable.ssl.certificate.verification", "False"), ("ssl.keystore.location", "/k.p12")],
)
def test_a_setting_without_a_counterpart_is_refused_by_name(name: str, value: str) -> None:
    """Left out in silence, Spark's connection would fail after the whole run."""
    with pytest.raises(ValueError, match=name):
        java_options({"security.protocol": "ssl", name: value})
