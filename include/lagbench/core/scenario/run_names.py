"""Define the names of one run: its id and every name that contains it.

Topics and the group contain the run id, so that no run can see another's messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from lagbench.errors import WrongInput

NAMESPACE = "lagbench"
SECOND_PREFIX = "second-"
"""Begins the names of the second group's own objects."""
CONSUMER_DEPLOYMENT = "consumer"
"""Name of the consumers' workload: a Deployment, or a StatefulSet if the scenario says so."""
RECORDER_DEPLOYMENT = "recorder"
PORT_ANNOTATION = "lagbench.io/port-"
"""With a port's name after it: where localkube notes the loopback port of a pod or a Service."""
BROKER_PROXY = "broker-proxy"
"""The Deployment of the proxy between the consumers and the embedded broker."""
AUTOSCALER_DEPLOYMENT, AUTOSCALER_NAMESPACE = "lagbench-autoscaler", "keda"
"""The embedded bench's own autoscaler."""
LAG_SCALER = "lagbench-lag-scaler"
"""Deployment and Service of the lag scaler: policies name it in ``scalerAddress``."""
EARLIER_LAG_SCALER = "lagbench-external-scaler"
"""The name in policies of earlier versions; a run's policy gets the current one."""
LAG_SCALER_NAMES = (LAG_SCALER, EARLIER_LAG_SCALER, f"{SECOND_PREFIX}{LAG_SCALER}")
"""The Services of lag scalers that a policy may name; the last is a second group's."""
PROMETHEUS = "lagbench-prometheus"
"""Deployment and Service of the embedded bench's Prometheus, which a run starts on demand."""
POLICY_OBJECT = "consumer"
"""Name of the ScaledObject or HPA of every policy on ``CONSUMER_DEPLOYMENT``."""

RUN_ID_LABEL = "lagbench.io/run-id"
RUN_ID_ANNOTATION = "lagbench.io/run-id"
SWAP_ANNOTATION = "lagbench.io/swap"
"""On a policy that replaces another in a run: the number of the action."""
TELEMETRY_TOPIC_ANNOTATION = "lagbench.io/telemetry-topic"
BOOTSTRAP_ANNOTATION = "lagbench.io/bootstrap-servers"
POD_ORDINAL_ANNOTATION = "lagbench.io/ordinal"
"""The pod's number in its workload, from 0 in the order of creation; localkube notes it."""
TOPIC_PREFIX = "lagbench."
GROUP_PREFIX = "enrich."

_RUN_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
_SCENARIO_CHARACTERS = 28
"""Leaves 52 - 28 = 24 characters for the instant, the digits that make it unique, two dashes."""


def new_run_id(scenario: str, *, planned_at: datetime, unique_digits: str) -> str:
    """Return the id of a run of ``scenario``: scenario, UTC instant, digits; it sorts by time."""
    name = scenario.replace("_", "-")[:_SCENARIO_CHARACTERS].rstrip("-")
    return f"{name}-{planned_at:%Y%m%d-%H%M%S}-{unique_digits}"


@dataclass(frozen=True, slots=True)
class RunNames:
    """The names of one consumer group of a run in Kafka and Kubernetes.

    The first group has the names of the committed manifests. Those of the second one begin with
    ``SECOND_PREFIX``, so that no prefix and no label of one group fits the other. Events, producer
    and actions are those of the run.
    """

    run_id: str
    is_second: bool = False

    def __post_init__(self) -> None:
        """Reject an id that Kubernetes or Kafka would reject."""
        if not _RUN_ID.fullmatch(self.run_id):
            allowed = "lower-case letters, digits and dashes, at most 52, no dash at the ends"
            raise WrongInput(where="run", field="run_id", value=self.run_id, allowed=allowed)

    @property
    def events_topic(self) -> str:
        """Topic of the offered load."""
        return f"{TOPIC_PREFIX}{self.run_id}.events"

    @property
    def processed_topic(self) -> str:
        """Topic of the consumers' ledger, one record per finished batch."""
        return self._topic("processed")

    @property
    def telemetry_topic(self) -> str:
        """Topic of the telemetry records (JSON)."""
        return self._topic("telemetry")

    @property
    def topics(self) -> tuple[str, str, str]:
        """All topics that the group's accounting reads: events, ledger, telemetry."""
        return (self.events_topic, self.processed_topic, self.telemetry_topic)

    @property
    def group(self) -> str:
        """Consumer group of the consumers under test."""
        return f"{GROUP_PREFIX}{self.run_id}" + (".second" if self.is_second else "")

    def own(self, name: str) -> str:
        """Return the group's name for an object that each group has its own of."""
        return f"{SECOND_PREFIX}{name}" if self.is_second else name

    @property
    def consumers(self) -> str:
        """Workload of the consumers; also their label ``app``."""
        return self.own(CONSUMER_DEPLOYMENT)

    @property
    def recorder(self) -> str:
        """Deployment of the recorder; also its label ``app``."""
        return self.own(RECORDER_DEPLOYMENT)

    @property
    def policy_object(self) -> str:
        """ScaledObject or HPA of the policy: KEDA rejects a second one on the same target."""
        return self.own(POLICY_OBJECT)

    @property
    def second(self) -> RunNames:
        """The names of the run's second group."""
        return RunNames(self.run_id, is_second=True)

    def _topic(self, kind: str) -> str:
        of_group = "second." if self.is_second else ""
        return f"{TOPIC_PREFIX}{self.run_id}.{of_group}{kind}"

    @property
    def producer_job(self) -> str:
        """Job that injects the spike; one name per run, so a retry cannot inject a second one."""
        return f"producer-{self.run_id}"

    @property
    def actions_job(self) -> str:
        """Job that plays the scenario's actions, once."""
        return f"actions-{self.run_id}"
