"""Components of the consumers' Deployment, scraped labels, and what images hold."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.core.cluster.consumer_pod import options_of
from tests.unit.k8s.program_imports import (
    INCLUDE,
    K8S,
    distributions,
    pod_spec,
    reachable,
    workloads,
)

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.core.cluster.manifests import (
    RunTarget,
    consumer_for_run,
    lag_scaler_for_run,
    recorder_for_run,
)
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings, Workload
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.project import PROJECT_ROOT

CONSUMER = workloads()["Deployment/consumer"]
TARGET = RunTarget(RunNames("quick-spike-1"), "kafka:9092")

CHANGES = {
    "cooperative-sticky": {"balancer": "cooperative-sticky"},
    "range": {"balancer": "range"},
    "kip-848": {"balancer": "consumer"},
    "static-membership": {"static_membership": True},
    "no-graceful-shutdown": {"graceful_shutdown": False},
    "transactional": {"commit": "transactional"},
}


def test_every_component_is_known_here() -> None:
    """The folder holds these components and no others."""
    known = {*CHANGES, "statefulset"}
    assert {path.name for path in (K8S / "components").iterdir()} == known


def test_the_stateful_set_component_makes_what_a_run_makes() -> None:
    """Its patch changes the committed Deployment as a run with consumer.workload does."""
    path = K8S / "components" / "statefulset" / "kustomization.yaml"
    (patch,) = yaml.safe_load(path.read_text())["patches"]
    assert patch["target"] == {"kind": "Deployment", "name": "consumer"}
    assert patch["options"] == {"allowKindChange": True}
    changed = copy.deepcopy(CONSUMER)
    for operation in yaml.safe_load(patch["patch"]):
        *parents, last = operation["path"].split("/")[1:]
        place = changed
        for name in parents:
            place = place[name]
        assert (operation["op"] == "replace") == (last in place)
        place[last] = operation["value"]

    def made(kind: Workload, base: dict[str, Any]) -> dict[str, Any]:
        return consumer_for_run(base, TARGET, ConsumerSettings(workload=kind), replicas=2)

    assert made("Deployment", changed) == made("StatefulSet", CONSUMER)


@pytest.mark.parametrize("component", CHANGES)
def test_a_component_changes_what_its_name_says(component: str) -> None:
    """The program reads the changed flag, and every other flag as in the base."""
    base = options_of(CONSUMER)

    changed = options_of(_with(CONSUMER, component))

    seen = {name: getattr(changed, name) for name in CHANGES[component]}
    assert seen == CHANGES[component]
    rest = set(ConsumerOptions.model_fields) - set(CHANGES[component])
    assert all(getattr(changed, name) == getattr(base, name) for name in rest)


def test_two_balancers_are_refused() -> None:
    """The second component's test fails rather than hide the first one's change."""
    with pytest.raises(ValueError, match="--balancer=range"):
        _with(_with(CONSUMER, "range"), "kip-848")


@pytest.mark.parametrize("shutdown_timeout_seconds", [1, 20, 29.5, 300])
def test_a_pod_may_take_longer_than_its_graceful_shutdown_does(
    shutdown_timeout_seconds: float,
) -> None:
    """The kubelet kills only after the shutdown timeout, the last flush (5 s) and leaving."""
    settings = ConsumerSettings(shutdown_timeout_seconds=shutdown_timeout_seconds)

    for manifest in (CONSUMER, consumer_for_run(CONSUMER, TARGET, settings, replicas=2)):
        grace = pod_spec(manifest)["terminationGracePeriodSeconds"]
        assert grace > options_of(manifest).shutdown_timeout_seconds + 9


def test_a_node_gives_up_one_consumer_at_a_time() -> None:
    """The disruption budget selects the Deployment's pods."""
    budget = yaml.safe_load((K8S / "base/consumer/disruption-budget.yaml").read_text())

    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == CONSUMER["spec"]["selector"]


def _with(manifest: dict[str, Any], component: str) -> dict[str, Any]:
    """Apply a component's JSON patch, of which the operations here are all that is used."""
    path = K8S / "components" / component / "kustomization.yaml"
    patches = yaml.safe_load(path.read_text())["patches"]
    changed = copy.deepcopy(manifest)
    for patch in patches:
        assert patch["target"] == {"kind": "Deployment", "name": "consumer"}
        for operation in yaml.safe_load(patch["patch"]):
            where = operation["path"].removeprefix("/spec/template/spec/containers/0/args/")
            arguments = pod_spec(changed)["containers"][0]["args"]
            if operation["op"] == "add":
                assert where == "-"
                arguments.append(operation["value"])
            elif operation["op"] == "replace":
                arguments[int(where)] = operation["value"]
            elif arguments[int(where)] != operation["value"]:
                raise ValueError(f"found {arguments[int(where)]}, not {operation['value']}")
    return changed


CLUSTER = PROJECT_ROOT / "k8s/base/monitoring/prometheus.yml"
EMBEDDED = PROJECT_ROOT / "k8s/compose/prometheus.yml"
RUN = RunNames("quick-spike-1")
SCRAPED = ("Deployment/consumer", "Deployment/recorder", "Deployment/lagbench-lag-scaler")


def test_both_give_a_pods_series_the_same_labels() -> None:
    """The dashboard's queries hold in both places: app, run_id, run_group, namespace, pod."""
    assert labels_given(CLUSTER) == labels_given(EMBEDDED)
    assert set(labels_given(CLUSTER)) == {"app", "run_id", "run_group", "namespace", "pod"}


@pytest.mark.parametrize("path", [CLUSTER, EMBEDDED], ids=["cluster", "embedded"])
@pytest.mark.parametrize("kind", ["consumer", "recorder", "lag-scaler"])
def test_the_series_of_two_groups_of_a_run_differ_in_the_label_run_group(
    path: Path, kind: str
) -> None:
    """Both groups' pods have the run's id, and only ``run_group`` keeps their sums apart."""
    first, second = (group_label(path, pod_labels(kind, names)) for names in (RUN, RUN.second))

    assert (first, second) == ("first", "second")
    assert group_label(path, {"app.kubernetes.io/name": "lagbench-autoscaler"}) is None


def test_both_scrape_alike_and_often() -> None:
    """Grafana's shortest step is the scrape interval, which the data source tells it."""
    settings = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CLUSTER, EMBEDDED)]
    sources = PROJECT_ROOT / "k8s/base/monitoring/grafana-datasources.yaml"
    (source,) = yaml.safe_load(sources.read_text(encoding="utf-8"))["datasources"]

    assert settings[0]["global"] == settings[1]["global"]
    assert settings[0]["global"]["scrape_interval"] == source["jsonData"]["timeInterval"]


@pytest.mark.parametrize("name", SCRAPED)
def test_what_exports_metrics_is_scraped(name: str) -> None:
    """It has the port and the labels that the relabelling keeps."""
    workload = workloads()[name]
    ports = [
        port["name"] for each in pod_spec(workload)["containers"] for port in each.get("ports", ())
    ]
    labels = workload["spec"]["template"]["metadata"]["labels"]

    assert "metrics" in ports
    assert labels["app.kubernetes.io/part-of"] == "lagbench"
    dropped = [rule for rule in rules(CLUSTER) if rule.get("action") == "drop"]
    assert [rule["source_labels"] for rule in dropped] == [["__meta_kubernetes_pod_phase"]]


def pod_labels(kind: str, names: RunNames) -> dict[str, str]:
    """Return the labels of a group's pods."""
    target, committed = RunTarget(names, "127.0.0.1:19092"), base_manifest(kind, "Deployment")
    made = {
        "consumer": lambda: consumer_for_run(committed, target, ConsumerSettings(), replicas=1),
        "recorder": lambda: recorder_for_run(committed, target),
        "lag-scaler": lambda: lag_scaler_for_run(committed, target),
    }[kind]()
    return dict(made["spec"]["template"]["metadata"]["labels"])


def group_label(path: Path, labels: Mapping[str, str]) -> str | None:
    """Return what the relabelling makes of a pod's labels as ``run_group``."""
    given = {
        f"__meta_kubernetes_pod_label_{re.sub('[^a-z0-9]', '_', name)}": value
        for name, value in labels.items()
    }
    found = None
    for rule in rules(path):
        if rule.get("target_label") != "run_group":
            continue
        (source,) = rule["source_labels"]
        if re.fullmatch(rule["regex"], given.get(source, "")):
            found = str(rule["replacement"])
    return found


def rules(path: Any) -> list[dict[str, Any]]:
    """Return the relabelling of pods."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["scrape_configs"]
    (found,) = [job["relabel_configs"] for job in jobs if job["job_name"] == "pods"]
    return list(found)


def labels_given(path: Any) -> dict[str, list[str]]:
    """Return the labels that pods' series get, with what each is taken from."""
    return {
        rule["target_label"]: rule["source_labels"]
        for rule in rules(path)
        if not rule.get("target_label", "__").startswith("__")
    }


ROOT = INCLUDE.parent
IMAGES = ROOT / "k8s" / "images"
DOCKERFILES = sorted(IMAGES.glob("*.Dockerfile"))
LOCKS = sorted(IMAGES.glob("*.txt"))

# Installed names that are not the import's, or several packages below one name.
NAMESPACES = {"google": "protobuf", "grpc_health": "grpcio-health-checking"}

# The interpreter's time zones, where the image has none; nothing imports it by name.
NOT_IMPORTED = {"tzdata"}

PROGRAMS = sorted(
    file for name in ("lag_scaler", "lagbench/programs") for file in (INCLUDE / name).rglob("*.py")
)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_images_are_pinned_and_run_without_root(dockerfile: Path) -> None:
    """Each base has a full version, and the last user is a number that is not 0."""
    steps = _steps(dockerfile)
    stages = {words[-1] for name, words in steps if name == "FROM" and "AS" in words}

    bases = [words[0] for name, words in steps if name == "FROM" and words[0] not in stages]
    users = [words[0] for name, words in steps if name == "USER"]

    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)
    assert int(users[-1].split(":")[0]) > 0
    assert [name for name, _ in steps].count("FROM") > 1, "one stage only"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_what_is_copied_is_there_and_sent(dockerfile: Path) -> None:
    """Every source of a COPY exists, and .dockerignore lets it through."""
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")
    ]

    for name, words in _steps(dockerfile):
        if name != "COPY" or words[0].startswith("--from"):
            continue
        for source in words[:-1]:
            assert (ROOT / source).exists(), source
            assert any(f"{source}/".startswith(f"{a}/") or a.startswith(source) for a in allowed)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_requirements_are_those_of_the_lock(lock: Path) -> None:
    """Every package has hashes and, where requirements.txt has it too, the same version."""
    ours, all_versions = _versions(lock), _versions(ROOT / "requirements.txt")
    shared = ours.keys() & all_versions.keys()

    assert {name: ours[name] for name in shared} == {name: all_versions[name] for name in shared}
    assert lock.stem == "postgres" or shared == ours.keys()
    assert lock.read_text().count("==") <= lock.read_text().count("--hash=")


def test_the_programs_image_holds_what_the_programs_import() -> None:
    """programs.in names the packages behind their imports, no more and no fewer."""
    _, modules = reachable(PROGRAMS)
    named = {n for n in NAMESPACES if any(m.split(".")[0] == n for m in modules)}

    needed = distributions(modules, but=set(NAMESPACES)) | {NAMESPACES[name] for name in named}

    assert needed == _named(IMAGES / "programs.in") - NOT_IMPORTED


def test_the_spark_image_holds_what_the_jobs_import() -> None:
    """spark.in names the packages of the jobs, of Spark's daemons and of the fetching of jars."""
    programs = INCLUDE / "lagbench" / "programs"
    roots = [*(ROOT / "spark_jobs").rglob("*.py"), INCLUDE / "lagbench/embedded/jars.py"]
    roots += (programs / "spark_daemon").rglob("*.py")
    _, modules = reachable(sorted(roots))
    own = {"lagbench_enrich", "lagbench_spark", "land", "account", "timeline", "draw"}

    needed = distributions(modules, but=own)

    assert needed - {"pyspark-client"} | {"pandas"} == _named(IMAGES / "spark.in")


def test_the_programs_image_holds_their_code() -> None:
    """Every file of lagbench that a program can reach is in a folder that is copied."""
    files, _ = reachable(PROGRAMS)
    copied = [
        ROOT / source
        for name, words in _steps(IMAGES / "programs.Dockerfile")
        if name == "COPY" and not words[0].startswith("--from")
        for source in words[:-1]
    ]

    missing = [f for f in files if not any(f == c or f.is_relative_to(c) for c in copied)]

    assert missing == []


def _steps(dockerfile: Path) -> list[tuple[str, list[str]]]:
    """Return each instruction with its words; continued lines are one, comments none."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    found = [line.split() for line in text.splitlines() if line.strip()]
    return [(w[0], [x for x in w[1:] if not x.startswith("--chown")]) for w in found]


def _named(path: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {line for line in lines if line}


def _versions(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE))
