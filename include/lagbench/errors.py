"""The errors that a user of lagbench can meet; those that its pods share are ``pod_program``'s.

Errors of client libraries are mapped to these once, in ``lagbench.adapters``, and chained.
"""

from __future__ import annotations

from pod_program import errors as of_all_pods
from pod_program import exit_codes

ExitCode = exit_codes.ExitCode
LagbenchError = of_all_pods.LagbenchError
NotReady = of_all_pods.NotReady
WrongInput = of_all_pods.WrongInput


class PodsRefused(NotReady):
    """Kubernetes creates no pods of a workload; the message has its words (never retried)."""


class PodsEnded(NotReady):
    """Pods of a workload end again and again; the message has their last words (never retried)."""


class NotAllowed(NotReady):
    """The account lacks a right; the message names it."""


class UnknownKind(NotReady):
    """The API server does not serve a kind of objects; the message names it."""


class StillWaiting(NotReady):
    """A condition did not come true in its time limit; the message has the last value seen."""


class StillRunning(NotReady):
    """A run does not answer and may continue, so no other is started beside it."""
