"""Define the objects of a run on a cluster: manifests, settings, rights, Lease."""

from lagbench.core.cluster import manifests
from lagbench.core.cluster.action_rights import (
    ONLY_EMBEDDED,
    check_actions,
    refuse_kind_on_cluster,
    refuse_on_cluster,
    refuse_without_own_broker,
)
from lagbench.core.cluster.actions_job import actions_job_for_run, swapped_policy_for_run
from lagbench.core.cluster.broker_proxy import broker_proxy_for_run
from lagbench.core.cluster.group_manifests import for_group
from lagbench.core.cluster.imposed_limits import imposed_cpu_limits, sets_cpu_limit
from lagbench.core.cluster.jobs import producer_job_for_run
from lagbench.core.cluster.lease import (
    LEASE,
    SWEEP_SECONDS,
    LeaseClaim,
    Standing,
    claimed_lease,
    held_message,
    lease_record,
    lease_standing,
    longest_run_seconds,
)
from lagbench.core.cluster.manifests import (
    GRACE_MARGIN_SECONDS,
    ConsumersWay,
    RunTarget,
    claim_for_cluster,
    companion_for_run,
    consumer_for_run,
    grace_seconds,
    is_foreign,
    lag_scaler_for_run,
    prometheus_for_run,
    recorder_for_run,
    set_arguments,
)
from lagbench.core.cluster.own_deployment import (
    OwnDeployment,
    own_consumer_for_cluster,
    own_deployment,
    set_own_variables,
)
from lagbench.core.cluster.own_kafka import KafkaSettings, require_kafka_secret
from lagbench.core.cluster.own_process import OwnProcess, own_consumer_as_process
from lagbench.core.cluster.policy_manifest import (
    HPA,
    POLICY_KINDS,
    SCALED_OBJECT,
    asks_lag_scaler,
    asks_prometheus,
    iggy_addresses,
    policy_for_run,
)
from lagbench.core.cluster.refused_pods import refused_pods, violated_level
from lagbench.core.cluster.run_rights import Right, rights_of_run
from lagbench.core.cluster.run_samples import (
    SAMPLES_FILE,
    samples_for_run,
    with_samples_mounted,
)
from lagbench.core.cluster.settings import (
    ALIASES_FIELD,
    EMBEDDED,
    IMAGE_FIELD,
    KAFKA_SETTINGS_FIELD,
    NAMESPACE_FIELD,
    PULL_SECRET_FIELD,
    REPLICATION_FIELD,
    SERVERS_FIELD,
    SPARK_IMAGE_FIELD,
    STORAGE_CLASS_FIELD,
    ClusterSettings,
    cluster_settings,
)
from lagbench.core.cluster.spark_consumer import (
    SparkPlace,
    spark_consumer_for_run,
    spark_secret_for_run,
)

__all__ = [
    "ALIASES_FIELD",
    "EMBEDDED",
    "GRACE_MARGIN_SECONDS",
    "HPA",
    "IMAGE_FIELD",
    "KAFKA_SETTINGS_FIELD",
    "LEASE",
    "NAMESPACE_FIELD",
    "ONLY_EMBEDDED",
    "POLICY_KINDS",
    "PULL_SECRET_FIELD",
    "REPLICATION_FIELD",
    "SAMPLES_FILE",
    "SCALED_OBJECT",
    "SERVERS_FIELD",
    "SPARK_IMAGE_FIELD",
    "STORAGE_CLASS_FIELD",
    "SWEEP_SECONDS",
    "ClusterSettings",
    "ConsumersWay",
    "KafkaSettings",
    "LeaseClaim",
    "OwnDeployment",
    "OwnProcess",
    "Right",
    "RunTarget",
    "SparkPlace",
    "Standing",
    "actions_job_for_run",
    "asks_lag_scaler",
    "asks_prometheus",
    "broker_proxy_for_run",
    "check_actions",
    "claim_for_cluster",
    "claimed_lease",
    "cluster_settings",
    "companion_for_run",
    "consumer_for_run",
    "for_group",
    "grace_seconds",
    "held_message",
    "iggy_addresses",
    "imposed_cpu_limits",
    "is_foreign",
    "lag_scaler_for_run",
    "lease_record",
    "lease_standing",
    "longest_run_seconds",
    "manifests",
    "own_consumer_as_process",
    "own_consumer_for_cluster",
    "own_deployment",
    "policy_for_run",
    "producer_job_for_run",
    "prometheus_for_run",
    "recorder_for_run",
    "refuse_kind_on_cluster",
    "refuse_on_cluster",
    "refuse_without_own_broker",
    "refused_pods",
    "require_kafka_secret",
    "rights_of_run",
    "samples_for_run",
    "set_arguments",
    "set_own_variables",
    "sets_cpu_limit",
    "spark_consumer_for_run",
    "spark_secret_for_run",
    "swapped_policy_for_run",
    "violated_level",
    "with_samples_mounted",
]
