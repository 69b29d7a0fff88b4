"""The dashboard's graphs of consumers, load, lag scaler, and of the bench's own cost."""

from __future__ import annotations

from lagbench.grafana.layout import STACK, STEP, Graph, Section
from lagbench.grafana.queries import OF_GROUP, increase, quantile, rate

_ALLOWED = f"sum(lagbench_consumer_concurrency{{{OF_GROUP}}})"

WORK = Section(
    "Consumers and load",
    [
        Graph(
            "Processed per second by consumer",
            "Stacked: the sum is the group's throughput.",
            [(f"consume_rate{{{OF_GROUP}}}", "{{pod}}")],
            unit="cps",
            style=STACK,
        ),
        Graph(
            "Partitions by consumer",
            "Stacked: below the number of partitions, some have no owner.",
            [(f"assigned_partitions{{{OF_GROUP}}}", "{{pod}}")],
            unit="none",
            style={**STACK, **STEP},
        ),
        Graph(
            "Busy and CPU share of the consumers",
            "Busy: share of the allowed writes in flight. CPU: of one core, mean and highest.",
            [
                (f"sum(inflight{{{OF_GROUP}}}) / {_ALLOWED}", "busy"),
                (f"avg({rate('lagbench_consumer_cpu_seconds_total')})", "CPU, mean"),
                (f"max({rate('lagbench_consumer_cpu_seconds_total')})", "CPU, highest"),
            ],
            unit="percentunit",
        ),
        Graph(
            "Events of the load",
            "Planned, sent, acked and failed per second; sent below planned is a late generator.",
            [(f"sum by (stage) ({rate('lagbench_load_events_total')})", "{{stage}}")],
            unit="cps",
        ),
        Graph(
            "Lateness of the load",
            "Sent after planned, in the last second. A run whose p99 exceeds 100 ms is invalid.",
            [(f"lagbench_load_lateness_seconds{{{OF_GROUP}}}", "{{quantile}}")],
            unit="s",
        ),
        Graph(
            "Records queued and in flight",
            "Fetched and not begun; begun and not ended.",
            [
                (f"sum(lagbench_consumer_queued_records{{{OF_GROUP}}})", "queued"),
                (f"sum(inflight{{{OF_GROUP}}})", "in flight"),
            ],
        ),
    ],
)
LAG_SCALER = Section(
    "The lag scaler",
    [
        Graph(
            "Calls per second",
            "KEDA's calls by method and gRPC status. Empty without a policy that uses it.",
            [
                (
                    f"sum by (method, code) ({rate('lagbench_scaler_requests_total')})",
                    "{{method}} {{code}}",
                )
            ],
            unit="reqps",
            width=6,
        ),
        Graph(
            "Time to answer",
            "The aim is a p99 below 5 ms.",
            [(quantile(0.99, "lagbench_scaler_request_seconds", "le, method"), "{{method}}")],
            unit="s",
            width=6,
        ),
        Graph(
            "Age of the newest good sample",
            "By group and topic.",
            [
                (
                    f"max by (group, topic) (lagbench_scaler_sample_age_seconds{{{OF_GROUP}}})",
                    "{{group}}",
                )
            ],
            unit="s",
            width=6,
        ),
        Graph(
            "Samples and changed decisions",
            "Samples per second by result; objects that became active or inactive.",
            [
                (f"sum by (result) ({rate('lagbench_scaler_samples_total')})", "{{result}}"),
                (
                    increase("lagbench_scaler_decision_changes_total", by="to"),
                    "became {{to}}",
                ),
            ],
            width=6,
        ),
    ],
)
BENCH = Section(
    "The bench itself",
    [
        Graph(
            "CPU of the bench's parts",
            "Share of a core: the cost of observing.",
            [(rate("lagbench_component_cpu_seconds_total"), "{{component}}")],
            unit="percentunit",
        ),
        Graph(
            "Memory of the bench's parts",
            "Resident set.",
            [(f"lagbench_component_memory_bytes{{{OF_GROUP}}}", "{{component}}")],
            unit="bytes",
        ),
        Graph(
            "Failed readings and scrapes",
            "Failed readings of the recorder in the last minute; pods that did not answer.",
            [
                (
                    increase("lagbench_recorder_gaps_total", by="what"),
                    "reading of {{what}}",
                ),
                (f"count by (app) (up{{{OF_GROUP}}} == 0)", "{{app}} not scraped"),
            ],
            style=STEP,
        ),
    ],
)
