"""The dashboard's graphs of the group and of its autoscaler."""

from __future__ import annotations

from lagbench.grafana.layout import STEP, Graph, Section, States, dashed
from lagbench.grafana.queries import NAMESPACE, OF_GROUP, increase, quantile, slope

GROUP = Section(
    "Partitions and the group",
    [
        Graph(
            "Lag by partition",
            "A hot partition drains at one consumer's pace, whatever the replicas.",
            [(f"lagbench_partition_lag_records{{{OF_GROUP}}}", "{{partition}}")],
        ),
        Graph(
            "Committed per second by partition",
            "Slope of the committed offset; flat means that no consumer works on the partition.",
            [(slope("lagbench_partition_committed_offset"), "{{partition}}")],
            unit="cps",
        ),
        Graph(
            "Written per second by partition",
            "Slope of the end offset: the spread of the keys.",
            [(slope("lagbench_partition_end_offset"), "{{partition}}")],
            unit="cps",
        ),
        Graph(
            "Members and rebalances",
            "Members of the group, and those without a partition. All pods report a rebalance, and "
            "a new pod's first one is missing: the pod that saw the most counts.",
            [
                (f"sum(lagbench_group_members{{{OF_GROUP}}})", "members"),
                (f"sum(lagbench_group_idle_members{{{OF_GROUP}}})", "idle members"),
                (
                    f"max(increase(rebalances_total{{{OF_GROUP}}}[$__rate_interval]))",
                    "rebalances (most seen by a pod)",
                ),
            ],
            style=STEP,
        ),
        Graph(
            "Rebalance duration",
            "From the first partition given up until the new assignment is in force, last minute.",
            [
                (quantile(0.5, "rebalance_duration_seconds"), "p50"),
                (quantile(0.99, "rebalance_duration_seconds"), "p99"),
            ],
            unit="s",
        ),
        States(
            "State of the group",
            "As the broker reports it; all states except stable and empty are a rebalance.",
            [(f"lagbench_group_state{{{OF_GROUP}}}", "{{state}}")],
            one="yes",
            zero="no",
        ),
    ],
)
AUTOSCALER = Section(
    "The autoscaler: HPA and KEDA",
    [
        Graph(
            "Replicas: decided, wanted, existing, ready",
            "The HPA's decision, then its effect on the Deployment.",
            [
                (f"lagbench_hpa_desired_replicas{{{OF_GROUP}}}", "decided by {{hpa}}"),
                (f"sum by (state) (lagbench_replicas{{{OF_GROUP}}})", "{{state}}"),
            ],
            unit="none",
            style=STEP,
        ),
        Graph(
            "Reading of the HPA, and its target",
            "An averageValue is already divided by the replicas: at the target, replicas do not "
            "change.",
            [
                (f"lagbench_hpa_metric{{{OF_GROUP}}}", "{{metric}} {{type}}"),
                (f"lagbench_hpa_metric_target{{{OF_GROUP}}}", "target of {{metric}} {{type}}"),
            ],
            style=STEP,
            overrides=[dashed("target of .*")],
        ),
        States(
            "Conditions of the HPA",
            "AbleToScale, ScalingActive, ScalingLimited as the API server stores them.",
            [(f"lagbench_hpa_condition{{{OF_GROUP}}}", "{{condition}}")],
            one="true",
            zero="false",
        ),
        Graph(
            "KEDA: values of the triggers",
            "The operator's last readings. Empty on the embedded bench, which has no KEDA.",
            [(f"keda_scaler_metrics_value{{{NAMESPACE}}}", "{{scaledObject}} {{metric}}")],
            style=STEP,
        ),
        Graph(
            "KEDA: latency",
            "Response time of each trigger, and delay of the scale loop.",
            [
                (
                    f"keda_scaler_metrics_latency_seconds{{{NAMESPACE}}}",
                    "{{scaler}} {{triggerIndex}}",
                ),
                (
                    f"keda_internal_scale_loop_latency_seconds{{{NAMESPACE}}}",
                    "scale loop {{resource}}",
                ),
            ],
            unit="s",
        ),
        Graph(
            "KEDA: errors per minute",
            "Failed readings of triggers, and errors of the ScaledObject.",
            [
                (
                    increase("keda_scaler_detail_errors_total", by="scaler", where=NAMESPACE),
                    "{{scaler}}",
                ),
                (
                    increase("keda_scaled_object_errors_total", by="scaledObject", where=NAMESPACE),
                    "{{scaledObject}}",
                ),
            ],
        ),
    ],
)
