"""The dashboard that Grafana shows of a run."""

from __future__ import annotations

import re
from itertools import combinations

import yaml
from tests.dashboard_file import (
    DASHBOARD_FILE,
    committed_dashboard,
    dashboard_queries,
)
from tests.fakes.exported_metrics import OF_KEDA, OF_PROMETHEUS, exported_names

from lagbench.project import PROJECT_ROOT

QUERIES = dashboard_queries()
COLUMNS = 24  # of a dashboard of Grafana

MONITORING = PROJECT_ROOT / "k8s" / "base" / "monitoring"


def test_queries_name_metrics_that_are_exported_and_variables_of_the_dashboard() -> None:
    """Ours by the programs' own rendering, KEDA's by its source; each choice matters to a query."""
    names = {variable["name"] for variable in committed_dashboard()["templating"]["list"]}
    known = exported_names() | OF_KEDA | OF_PROMETHEUS
    for query in QUERIES:
        assert query.metrics, query
        assert query.metrics <= known, query
    used = set[str]().union(*(query.metrics for query in QUERIES))
    assert {name for name in used if name.startswith("keda_")} == OF_KEDA
    variables = {name for query in QUERIES for name in re.findall(r"\$(\w+)", query.expr)}
    assert variables == names | {"__rate_interval"}


def test_every_query_is_of_one_namespace_and_one_group_of_a_run() -> None:
    """Two benches on one Prometheus, or two groups of a run, do not add up to one number."""
    for query in QUERIES:
        selectors = re.findall(r"\{([^}]*)\}", query.expr)

        assert selectors
        for selector in selectors:
            assert 'namespace="$namespace"' in selector, query
            for chosen in ('run_id="$run_id"', 'run_group="$run_group"'):
                assert query.is_of_keda or chosen in selector, query


def test_a_rebalance_that_all_pods_report_counts_once() -> None:
    """The graph takes the pod that saw the most rebalances, not the sum over the pods."""
    (query,) = (query for query in QUERIES if "rebalances_total" in query.metrics)

    assert query.expr.startswith("max(increase(rebalances_total{")


def test_one_graph_overlays_lag_replicas_and_throughput_with_the_phases() -> None:
    """It is the first graph and as wide as the dashboard; phases and spike are shown on it."""
    found = committed_dashboard()
    first = next(panel for panel in found["panels"] if panel["type"] == "timeseries")
    of_first = (query for query in QUERIES if first["title"] in query.where)
    metrics = {name for query in of_first for name in query.metrics}

    assert first["gridPos"]["w"] == COLUMNS
    assert {"lagbench_lag_records", "lagbench_replicas", "consume_rate"} <= metrics
    shown = [note["expr"] for note in found["annotations"]["list"] if note["enable"]]
    assert [expr.partition("{")[0] for expr in shown] == [
        "lagbench_phase",
        "lagbench_load_planned_rate",
    ]


def test_panels_have_their_own_places_and_explain_their_series() -> None:
    """No two overlap; an override of a series that is called otherwise would do nothing."""
    panels = committed_dashboard()["panels"]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for one, other in combinations(panels, 2):
        assert not _overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= COLUMNS
        if panel["type"] == "row":
            continue
        assert panel["description"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        names = {target["legendFormat"] for target in panel["targets"]}
        for override in panel["fieldConfig"]["overrides"]:
            matcher = override["matcher"]
            is_name = matcher["id"] == "byName"
            pattern = re.escape(matcher["options"]) if is_name else matcher["options"]
            assert any(re.match(f"{pattern}$" if is_name else pattern, name) for name in names)


def test_the_data_source_is_the_provisioned_one() -> None:
    """Panels, variables and annotations name the uid that Grafana is given."""
    text = (MONITORING / "grafana-datasources.yaml").read_text(encoding="utf-8")
    (source,) = yaml.safe_load(text)["datasources"]
    found = committed_dashboard()
    named = [panel["datasource"] for panel in found["panels"] if panel["type"] != "row"]
    items = (*found["templating"]["list"], *found["annotations"]["list"])
    named += [item["datasource"] for item in items]

    assert {(each["type"], each["uid"]) for each in named} == {(source["type"], source["uid"])}


def test_grafana_finds_the_dashboard_where_it_is_put() -> None:
    """On the cluster from the ConfigMap that make kind fills, in compose from the folder."""
    text = (MONITORING / "grafana-dashboards.yaml").read_text(encoding="utf-8")
    folder = yaml.safe_load(text)["providers"][0]["options"]["path"]
    documents = yaml.safe_load_all((MONITORING / "grafana.yaml").read_text(encoding="utf-8"))
    grafana = next(each for each in documents if each["kind"] == "Deployment")
    pod = grafana["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    kind = (PROJECT_ROOT / "k8s/kind/kind.mk").read_text(encoding="utf-8")
    compose = yaml.safe_load((PROJECT_ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))

    assert mounts["boards"]["mountPath"] == folder
    config_map = volumes["boards"]["configMap"]["name"]
    assert f"create configmap {config_map} --from-file=include/grafana" in kind
    assert f"./include/grafana:{folder}:ro" in compose["services"]["grafana"]["volumes"]
    assert [path.name for path in DASHBOARD_FILE.parent.iterdir()] == [DASHBOARD_FILE.name]


def test_the_manual_names_every_metric_of_recorder_and_consumers() -> None:
    """The lag scaler's have a manual of their own."""
    manual = (PROJECT_ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in exported_names()}

    assert {n for n in names if n not in manual and not n.startswith("lagbench_scaler_")} == set()


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )
