"""``lagbench trace from-prometheus | from-kafka``: a scenario of the traffic that you have."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from lagbench.cli.options import refuse, unix_second
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.core.scenario.measured_load import MeasuredLoad

trace = typer.Typer(
    name="trace",
    help="Write a scenario with the traffic that you have, as a trace.",
    no_args_is_help=True,
)
_FOREVER = "-1"

FromOption = Annotated[
    str, typer.Option("--from", metavar="INSTANT", help="Its start, e.g. 2026-11-23T08:00:00Z.")
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="INSTANT", help="Its end; default: now.")
]
OutputOption = Annotated[
    Path, typer.Option(help="The scenario file, FILE.yaml; its trace is FILE.csv beside it.")
]


@trace.command("from-prometheus")
def from_prometheus(
    *,
    url: Annotated[str, typer.Option(help="Of the server, up to /api/v1.")],
    query: Annotated[
        str, typer.Option(help="Messages per second, one series: sum(rate(NAME[15s])).")
    ],
    start: FromOption,
    end: ToOption = None,
    output: OutputOption,
    step: Annotated[str, typer.Option(help="A row for each; the query's window.")] = "15s",
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the bearer token of the login.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM certificates that the server's is checked by.")
    ] = None,
    interpolate: Annotated[
        bool, typer.Option("--interpolate", help="Put a straight line over each gap.")
    ] = False,
    partitions: Annotated[int, typer.Option(min=1, help="Of the topic.")] = 12,
) -> int:
    """Take the traffic from a Prometheus: the query's value is the rate of the step before it."""
    from lagbench.adapters.prometheus import PrometheusRange
    from lagbench.catalog.strict_yaml import read_text
    from lagbench.core.scenario.measured_load import load_of_series

    first, step_seconds, count = _period(start, end, step)
    token = "" if token_file is None else read_text(token_file).strip()
    if ca_file is not None and not ca_file.is_file():
        refuse("--ca-file", ca_file, "a file")
    _require_new(output)
    server = PrometheusRange(url, token=token, ca_file=ca_file)
    try:
        found = server.ask(query, first + step_seconds, first + count * step_seconds, step_seconds)
    finally:
        server.close()
    if not found:
        allowed = "one that has values in this period: its answer is empty"
        refuse("--query", query, f"{allowed}. Are the labels right, and does the server keep it?")
    if len(found) > 1:
        _refuse_several(query, [one.labels for one in found])
    load = load_of_series(found[0].values, first, step_seconds, count)
    remarks = [f"The load is {query} of a Prometheus.", "process_ms and partitions are a guess."]
    missing = sum(last - begin for begin, last in load.gaps)
    if interpolate and missing:
        load = load.whole
        remarks.append(f"{missing} of {count} steps were missing, and are interpolated.")
    return _write(output, load, partitions, remarks)


@trace.command("from-kafka")
def from_kafka(
    *,
    topic: Annotated[str, typer.Option(help="The topic.")],
    start: FromOption,
    end: ToOption = None,
    output: OutputOption,
    step: Annotated[str, typer.Option(help="A row for each.")] = "10s",
    kafka_config: Annotated[
        Path | None, typer.Option(help="A file of librdkafka settings: servers, TLS, SASL.")
    ] = None,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="host:port of Kafka, instead of the one in the settings.")
    ] = None,
) -> int:
    """Take the traffic from a topic's log: offsets by timestamp, and no message is consumed."""
    import numpy as np

    from lagbench.adapters.kafka.topic_history import TopicHistory
    from lagbench.core.scenario.measured_load import load_of_offsets
    from lagbench.orchestrator.observed_target import kafka_settings

    first, step_seconds, count = _period(start, end, step)
    _require_new(output)
    edges = [(first + row * step_seconds) * 1000 for row in range(count + 1)]
    with TopicHistory(kafka_settings(kafka_config, bootstrap_servers, None)) as history:
        history.check_reachable()
        offsets, found = history.offsets_by_time(topic, edges), history.start_offsets(topic)
        settings = dict[str, str]()
        with suppress(NotReady):  # it takes one more right, DescribeConfigs
            settings = history.settings(topic)
    starts = np.array([found[number] for number in range(offsets.shape[1])])
    retention = settings.get("retention.ms", "")
    is_by_time = settings.get("cleanup.policy") == "delete"
    is_by_time &= settings.get("retention.bytes") == _FOREVER
    oldest_ms = time.time() * 1000 - float(retention or 0)
    if is_by_time and (retention == _FOREVER or oldest_ms < edges[0]):
        starts *= 0  # what is deleted is older than the period
    load = load_of_offsets(offsets, starts, first, step_seconds)
    return _write(output, load, offsets.shape[1], _remarks(topic, settings))


def _remarks(topic: str, settings: dict[str, str]) -> list[str]:
    """Return what an offset and a timestamp of the topic mean."""
    stamp = settings.get("message.timestamp.type", "unknown")
    clock = {"CreateTime": "producers'", "LogAppendTime": "brokers'"}.get(stamp, "unknown")
    found = [
        f"The load is that of topic {topic}, by offsets: a transaction's marker counts, too.",
        f"Timestamps are {stamp}: of the {clock} clocks.",
        "process_ms is a guess.",
    ]
    if "compact" in settings.get("cleanup.policy", ""):
        found.append(
            "The topic is compacted: a message that it dropped counts when the next one came."
        )
    return found


def _period(start: str, end: str | None, step: str) -> tuple[int, int, int]:
    """Return the first Unix second, the step (s) and the number of steps of a past period."""
    from lagbench.core.keda.triggers.trigger_parameters import duration_seconds_of
    from lagbench.core.scenario.measured_load import step_count

    seconds = duration_seconds_of(step)
    if seconds is None or seconds < 1 or seconds % 1:
        refuse("--step", step, "whole seconds, such as 15s or 1m")
    first, now = unix_second("--from", start), int(time.time())
    last = now if end is None else unix_second("--to", end)
    if last > now:
        refuse("--to", end, "an instant of the past")
    return first, int(seconds), step_count(first, last, int(seconds))


def _refuse_several(query: str, labels: Sequence[dict[str, str]]) -> NoReturn:
    """Name the labels by which the series differ."""
    names = sorted({name for one in labels for name in one})
    differ = [name for name in names if len({one.get(name) for one in labels}) > 1]
    shown = [", ".join(f'{name}="{one.get(name, "")}"' for name in differ) for one in labels[:3]]
    seen = "; ".join(f"{{{one}}}" for one in shown)
    allowed = f"one series, not {len(labels)} ({seen}): sum({query})"
    refuse("--query", query, allowed)


def _require_new(output: Path) -> None:
    if output.suffix not in (".yaml", ".yml"):
        refuse("--output", output, "a name that ends with .yaml")
    for path in (output, output.with_suffix(".csv")):
        if path.exists():
            refuse("--output", path, "a file that is not there: nothing is overwritten")


def _write(output: Path, load: MeasuredLoad, partitions: int, remarks: Sequence[str]) -> int:
    """Write trace and scenario, which is read again as a check."""
    from lagbench.catalog.catalog import load_scenario
    from lagbench.core.scenario.measured_load import replay_text, require_trace, trace_text

    require_trace(load)
    csv, file = trace_text(load), output.with_suffix(".csv")
    name = re.sub(r"\W+", "_", output.stem.lower(), flags=re.ASCII)
    scenario = {
        "name": re.sub(r"^[^a-z]+", "", name)[:40] or "trace",
        "description": f"Measured from {load.instant(0)} to {load.instant(load.rates.size)}",
        "partitions": partitions,
    }
    text = replay_text(scenario, trace=file.name, shares=load.shares, remarks=remarks)
    output.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(csv, encoding="utf-8")
    output.write_text(text, encoding="utf-8")
    try:
        load_scenario(output)
    except WrongInput:
        file.unlink()
        output.unlink()
        raise
    console = Terminal()
    mean, peak = float(load.rates.mean()), float(load.rates.max())
    console.say(
        f"{load.rates.size:,} steps of {load.step_seconds} s: {mean:,.4g}/s, peak {peak:,.4g}/s"
    )
    if load.shares:
        console.say(f"hottest of {partitions} partitions: {max(load.shares):.1%}")
    for remark in remarks:
        console.say(remark)
    console.say(f"wrote {output} and {file}")
    console.say(f"next: lagbench plan {shlex.quote(str(output))}")
    return ExitCode.PASS
