"""Define the telemetry records of each part of a run, as a typed union tagged by ``kind``.

Every record has ``at`` (unix nanoseconds at the source's clock) and ``source`` (pod or component).
They travel as JSON, one per Kafka message. A reading that failed is a ``ReadGap``, never a zero.
The records of each source have a file of their own; all are imported from here.
"""

from __future__ import annotations

import msgspec

from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    ClockStepped,
    CommitFailed,
    ConsumerProgress,
    FirstRecordDone,
    GroupJoined,
    HpaSync,
    KedaPoll,
    LoadStep,
    OffsetsCommitted,
    OffsetsPublished,
    PartitionsAssigned,
    PartitionsRevoked,
    Phase,
    PodStarted,
    PodStopped,
    ProducerProgress,
    Record,
    Scaled,
    SigtermReceived,
    SparkBatch,
    SparkDriverStarted,
    SparkTask,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import (
    ClockOffset,
    GroupMembers,
    GroupSample,
    HpaSample,
    KubeEvent,
    LagSample,
    PodSeen,
    PodsListed,
    ReadGap,
    ReplicaSample,
    ReplicasChanged,
    ReplicasWatched,
    ScaledObjectSample,
    ScalingObject,
    UsageSample,
)

TelemetryRecord = (
    Phase
    | StreamStarted
    | LoadStep
    | ProducerProgress
    | StreamFinished
    | PodStarted
    | GroupJoined
    | PartitionsAssigned
    | PartitionsRevoked
    | FirstRecordDone
    | OffsetsCommitted
    | CommitFailed
    | SigtermReceived
    | PodStopped
    | ConsumerProgress
    | LagSample
    | ReplicaSample
    | HpaSample
    | ScaledObjectSample
    | ScalingObject
    | ReplicasChanged
    | ReplicasWatched
    | KubeEvent
    | ClockOffset
    | ClockStepped
    | GroupMembers
    | GroupSample
    | PodSeen
    | PodsListed
    | UsageSample
    | ReadGap
    | KedaPoll
    | HpaSync
    | Scaled
    | ActionStarted
    | ActionEnded
    | SparkDriverStarted
    | SparkBatch
    | SparkTask
    | OffsetsPublished
)
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[TelemetryRecord] = msgspec.json.Decoder(TelemetryRecord)


def encode_record(record: Record) -> bytes:
    """Return the record as JSON."""
    return _encoder.encode(record)


def decode_record(data: bytes | str) -> TelemetryRecord:
    """Return the record in ``data``.

    :raises msgspec.ValidationError: it is not a known record.
    """
    return _decoder.decode(data)
