"""Define the settings of an own consumer: a Deployment that the user brings, and its variables.

Placeholders in ``env`` and ``args`` are filled in by the run; ``{{`` and ``}}`` are plain braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from lagbench.core.scenario.actions import CLIENTS_SESSION_SECONDS, ActionBase, RollingRestart
from lagbench.core.scenario.conf_limits import Reach, StrictModel
from lagbench.errors import WrongInput
from pod_program.shown import HIDDEN, looks_secret

LevelName = Literal["commits", "output", "ledger"]
BOOTSTRAP, TOPIC, GROUP = "bootstrap_servers", "topic", "group"
OUTPUT_TOPIC, LEDGER_TOPIC, POD = "output_topic", "ledger_topic", "pod"
PORT_PREFIX = "port."
KAFKA_PREFIX, KAFKA_CONFIG = "kafka.", "kafka_config"
"""Placeholders of the log-in: one of librdkafka's settings, and a file with all of them."""
REQUIRED = (BOOTSTRAP, TOPIC, GROUP)
"""Without these the consumer would read something else than the run's load."""
PLACEHOLDERS = (*REQUIRED, OUTPUT_TOPIC, LEDGER_TOPIC, POD, KAFKA_CONFIG)
_PLACE = re.compile(r"\{\{|\}\}|\{([a-z_]+(?:\.[a-zA-Z0-9.-]+)?)\}")
_BRACES = {"{{": "{", "}}": "}"}
_VARIABLE = re.compile(r"(?!\.$|\.\.)[A-Za-z_.-][A-Za-z0-9_.-]*")
_OF_LAGBENCH = "LAGBENCH_"
_SWITCHES = ("true", "false", "on", "off")


class OwnConsumer(StrictModel):
    """The settings of consumer.kind own."""

    manifest: Annotated[str | None, Reach.FILE] = Field(
        None, min_length=1, description="file with the Deployment, beside the scenario file"
    )
    manifest_sha256: str | None = Field(None, description="of that file; filled in when it is read")
    container: str | None = Field(
        None, description="the container that consumes; None: the first one of the Deployment"
    )
    command: Annotated[tuple[str, ...], Reach.PROCESS] = Field(
        (), description="command on the embedded bench, for a manifest whose image has the command"
    )
    env: Annotated[Mapping[str, str], Reach.PROCESS] = Field(
        {}, description="variables of the container; placeholders are filled in"
    )
    args: Annotated[tuple[str, ...], Reach.PROCESS] = Field(
        (), description="arguments behind those of the manifest; placeholders are filled in"
    )
    env_file: Annotated[str | None, Reach.FILE] = Field(
        None,
        min_length=1,
        description="file of NAME=value lines: what Secrets have on a cluster (embedded bench)",
    )
    accounting: LevelName | None = Field(
        None, description="what is known of the messages: commits, output or ledger"
    )
    client_id: str | None = Field(
        None,
        min_length=1,
        description="client id of a member; {pod} stands for the pod's name, which "
        "makes members known by name. None: only their number is known",
    )
    session_timeout_seconds: float = Field(
        CLIENTS_SESSION_SECONDS,
        gt=0,
        le=3600,
        description="of your consumer: how long a dead member stays",
    )
    members_per_pod: int = Field(
        1, ge=1, le=1000, description="members of the group in each pod, for instance its threads"
    )

    @property
    def ports_told(self) -> frozenset[str]:
        """Return the ports whose number the consumer gets, as the scenario names them."""
        names = (name for text in self.texts.values() for name in placeholders_in(text))
        return frozenset(n.removeprefix(PORT_PREFIX) for n in names if n.startswith(PORT_PREFIX))

    @property
    def kafka_told(self) -> tuple[tuple[str, str], ...]:
        """Return the placeholders of Kafka's log-in, each with its field of the scenario."""
        return tuple(
            (place, name)
            for place, text in self.texts.items()
            for name in placeholders_in(text)
            if name == KAFKA_CONFIG or name.startswith(KAFKA_PREFIX)
        )

    @property
    def texts(self) -> Mapping[str, str]:
        """Return the texts that may have placeholders, by their fields of the scenario."""
        texts = {f"consumer.env.{name}": text for name, text in self.env.items()}
        return texts | {f"consumer.args.{place}": text for place, text in enumerate(self.args)}


OWN_FIELDS = tuple(OwnConsumer.model_fields)


def placeholders_in(text: str) -> Iterator[str]:
    """Yield the names of the placeholders in ``text``."""
    for found in _PLACE.finditer(text):
        if found[1]:
            yield found[1]


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with its placeholders replaced."""
    return _PLACE.sub(lambda found: _BRACES.get(found[0]) or values[found[1]], text)


def own_problems(
    own: OwnConsumer, actions: Sequence[ActionBase], *, has_payload: bool
) -> Iterator[str]:
    """Yield what the settings of consumer.kind own lack or may not have."""
    if own.manifest is None:
        yield "consumer.manifest must be the file of your Deployment with consumer.kind own"
    if own.accounting is None:
        yield (
            "consumer.accounting must be commits, output or ledger with consumer.kind own: what is "
            "known of the messages that your consumer processes"
        )
    if own.accounting not in (None, "commits") and not has_payload:
        yield (
            f"payload must be given with consumer.accounting {own.accounting}: the identity of "
            "your messages is in their header"
        )
    if own.client_id is not None and set(placeholders_in(own.client_id)) - {POD}:
        yield "consumer.client_id must be a text whose only placeholder is {pod}"
    yield from _placeholder_problems(own)
    yield from _new_variable_problems(own, actions)


def _placeholder_problems(own: OwnConsumer) -> Iterator[str]:
    used = {name: field for field, text in own.texts.items() for name in placeholders_in(text)}
    for name, field in used.items():
        if name not in PLACEHOLDERS and not name.startswith((PORT_PREFIX, KAFKA_PREFIX)):
            known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            yield (
                f"{field} must be a text with known placeholders ({known}, {{kafka.SETTING}}, "
                "{port.NAME})"
            )
    needed = (*REQUIRED, *((OUTPUT_TOPIC,) if own.accounting == "output" else ()))
    if missing := [f"{{{name}}}" for name in needed if name not in used]:
        yield (
            f"consumer.env must be the variables of your consumer, with {', '.join(missing)} in "
            "one of them or of consumer.args: else your consumer does not get it"
        )


def _new_variable_problems(own: OwnConsumer, actions: Sequence[ActionBase]) -> Iterator[str]:
    of_run = {name for name, text in own.env.items() if any(placeholders_in(text))}
    for number, action in enumerate(actions):
        for name, text in action.env.items() if isinstance(action, RollingRestart) else ():
            place = f"actions.{number}.env.{name}"
            if not _VARIABLE.fullmatch(name) or name.startswith(_OF_LAGBENCH):
                yield (
                    f"{place} must be a variable of your code: letters, digits, _ . and -, not a "
                    f"digit first, and not {_OF_LAGBENCH}…"
                )
            if name in of_run:
                yield f"{place} must be left out: consumer.env has a value of the run for it"
            if any(placeholders_in(text)):
                yield f"{place} must be a text without placeholders ({{{{ is a plain brace)"


def require_no_secrets(own: OwnConsumer, actions: Sequence[ActionBase], *, where: str) -> None:
    """Reject secrets in a scenario: run folder, pods' objects and Airflow show their values."""
    found = [(f"consumer.env.{name}", name, text) for name, text in own.env.items()]
    for field in ("command", "args"):
        words = getattr(own, field)
        for number, (before, word) in enumerate(zip(("", *words), words, strict=False)):
            flag, sign, value = word.partition("=")
            named = (flag, value) if sign else (before if before.startswith("-") else "", word)
            found.append((f"consumer.{field}.{number}", *named))
    for number, action in enumerate(actions):
        env = action.env if isinstance(action, RollingRestart) else {}
        found += [(f"actions.{number}.env.{name}", name, text) for name, text in env.items()]
    for place, name, value in found:
        is_filled_in = any(one.startswith(KAFKA_PREFIX) for one in placeholders_in(value)) or not (
            _PLACE.sub("", value).strip()
        )
        if value not in _SWITCHES and not is_filled_in and looks_secret(name, value):
            allowed = (
                "no secret, because the run's files show it: give it by --env-file FILE, "
                "on a cluster by a Secret that the manifest names"
            )
            raise WrongInput(where=where, field=place, value=HIDDEN, allowed=allowed)


def client_pattern(client_id: str, pod: str) -> re.Pattern[str]:
    """Return what the client id of a member matches; ``pod`` is a pattern of the pods' names.

    The pod's name is the group ``pod`` of a match.
    """
    before, found, after = client_id.partition(f"{{{POD}}}")
    middle = f"(?P<pod>{pod})" if found else ""
    return re.compile(re.escape(before) + middle + re.escape(after))


def new_variables(action: RollingRestart) -> dict[str, str]:
    """Return what the action's ``env`` gives the new pods."""
    return {name: filled_in(text, {}) for name, text in action.env.items()}
