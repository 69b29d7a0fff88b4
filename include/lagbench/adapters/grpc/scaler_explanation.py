"""Request the reason of a decision from a running lag scaler.

It is KEDA's IsActive call, with the steps in the trailing metadata.

A header requests the steps, so KEDA's own calls carry only KEDA's protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from lagbench.core.explain.lag_scaler import Step
from lagbench.errors import NotReady, WrongInput
from lagbench.wire import externalscaler_pb2 as wire
from lagbench.wire.externalscaler_pb2_grpc import ExternalScalerStub

WANTS_STEPS = "lagbench-explain"
STEPS = "lagbench-steps-bin"
_TIMEOUT_SECONDS = 5.0


def steps_as_bytes(steps: Sequence[Step]) -> bytes:
    """Return the steps as they travel."""
    return json.dumps([[step.name, step.seen, step.rule, step.result] for step in steps]).encode()


def ask_for_steps(
    address: str, *, namespace: str, name: str, metadata: Mapping[str, str]
) -> tuple[Step, ...]:
    """Return the steps of the decision that the server at ``address`` serves now (plaintext).

    :raises WrongInput: the server rejects the metadata.
    :raises NotReady: it cannot be reached, has no decision, or is not lagbench's scaler.
    """
    ref = wire.ScaledObjectRef(name=name, namespace=namespace, scalerMetadata=dict(metadata))
    with grpc.insecure_channel(address) as channel:
        make_stub: Any = ExternalScalerStub  # generated code carries no types
        try:
            _, call = make_stub(channel).IsActive.with_call(
                ref, timeout=_TIMEOUT_SECONDS, metadata=((WANTS_STEPS, "1"),)
            )
        except grpc.RpcError as error:
            said = f"{error.code().name}: {error.details()}"
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                raise WrongInput(
                    where=f"scaler at {address}",
                    field="trigger metadata",
                    value=name,
                    allowed=str(error.details()),
                ) from error
            raise NotReady(f"the scaler at {address} gives no decision: {said}") from error
        trailing = dict(call.trailing_metadata() or ())
    if STEPS not in trailing:
        raise NotReady(
            f"the server at {address} answers, but has no explanation: it is not lagbench's"
        )
    return tuple(Step(*parts) for parts in json.loads(trailing[STEPS]))
