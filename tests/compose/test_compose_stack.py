"""The services of docker-compose.yaml over a user's day: up, a rehearsal, restarts, down.

The tests share one stack and stand in their order: the last ones take it down.
"""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from tests.compose.engine.engine import Engine, wait_until
from tests.compose.rehearsal import DAG, GATE, Rehearsed
from tests.compose.stack import THAT_STAY, UNCHECKED, UP_LIMIT_SECONDS, Stack

pytestmark = pytest.mark.timeout(7200)
SCRAPE_LIMIT_SECONDS = 120
"""Of which it takes 2 s, if the answers come in time."""
PLANNED = 8 * 150 + 20 * 1500 + 4 * 150
RESTRICTED = ("--rm", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
PROGRAMS, SPARK = "lagbench/programs:0.1.0", "lagbench/spark:0.1.0"
KUBECONFIG = "/opt/lagbench/.lagbench/localkube/kubeconfig"
BENCH = 'up{app="lagbench-autoscaler"}'
SCHEDULER = "airflow-scheduler"
SIGKILL = "9"


def test_every_service_is_healthy(stack: Stack) -> None:
    """All services that stay have passed their check; the one without a check runs."""
    services = stack.services()

    assert services.pop(UNCHECKED) == "running"
    assert services == dict.fromkeys(THAT_STAY - {UNCHECKED}, "healthy")


def test_airflow_has_read_the_dags_without_an_error(stack: Stack) -> None:
    """Its list of import errors is empty, and the plugin with the report's tab is there."""
    errors = stack.airflow("GET", "/api/v2/importErrors").json()
    plugins = stack.airflow("GET", "/api/v2/plugins").json()["plugins"]

    assert errors["import_errors"] == []
    assert "lagbench" in {plugin["name"] for plugin in plugins}


def test_prometheus_reaches_the_bench(stack: Stack) -> None:
    """It finds the autoscaler's pod through localkube, one of it, and can scrape it."""
    wait_until(
        lambda: stack.ask_prometheus('up{app="lagbench-autoscaler"} == 1'),
        "Prometheus reaches the bench",
        limit_seconds=SCRAPE_LIMIT_SECONDS,
    )

    assert len(stack.ask_prometheus('up{app="lagbench-autoscaler"}')) == 1


def test_every_service_is_confined(stack: Stack) -> None:
    """No root can be written, no process has or gains a right."""
    for service in THAT_STAY:
        mounts = stack.run_in(service, "cat", "/proc/mounts").splitlines()
        (root,) = (line.split()[3].split(",") for line in mounts if line.split()[1] == "/")
        status = stack.run_in(service, "cat", "/proc/self/status").splitlines()
        found = dict(line.split(":", 1) for line in status)

        assert "ro" in root, service
        assert int(found["CapBnd"], 16) == 0, service
        assert int(found["NoNewPrivs"]) == 1, service


def test_each_task_of_the_dag_run_succeeds(rehearsed: Rehearsed) -> None:
    """The gate, and with it the run, ends as the verdict says; what that is depends on the load."""
    ended = {task for task, state in rehearsed.tasks.items() if state in {"success", "skipped"}}
    expected = "success" if rehearsed.verdict["status"] == "pass" else "failed"

    assert set(rehearsed.tasks) - ended <= {GATE}
    assert rehearsed.tasks[GATE] == rehearsed.state == expected, rehearsed.verdict["reasons"]


def test_every_message_is_accounted_for(rehearsed: Rehearsed) -> None:
    """Spark in the container finds each planned message once."""
    accounting = rehearsed.accounting
    counts = {accounting[name] for name in ("planned", "in_log", "processed_distinct")}

    assert counts == {PLANNED + rehearsed.tail_messages}
    assert accounting["lost"] == accounting["duplicated"] == accounting["reordered"] == 0


def test_prometheus_sees_the_pods_during_the_run(rehearsed: Rehearsed) -> None:
    """It has scraped the recorder and several consumers, while the run was in progress."""
    assert {"consumer", "recorder"} <= rehearsed.scraped
    assert rehearsed.consumers > 1


def test_the_report_opens_through_airflow(stack: Stack, rehearsed: Rehearsed) -> None:
    """The Dag run's tab leads to the report of its run, and only after a log-in."""
    tab = f"/bench/report/{DAG}/{rehearsed.dag_run_id}"
    report = f"/bench/runs/{rehearsed.run_id}/report.html"

    redirected, page = stack.airflow("GET", tab), stack.airflow("GET", report)

    assert redirected.headers["location"] == report
    assert page.status_code == 200
    assert rehearsed.run_id in page.text
    assert stack.airflow_as_nobody(report).status_code == 401


def test_the_image_of_the_wheels_needs_no_checkout(stack: Stack) -> None:
    """It plans a run of the catalog that it holds, and Airflow in it knows the plugin."""
    planned = stack.engine.docker("run", *RESTRICTED, "lagbench", "lagbench", "plan", "hello")
    code = "import importlib.metadata as m; print(m.entry_points(group='airflow.plugins').names)"
    known = stack.engine.docker("run", *RESTRICTED, "lagbench", "python", "-c", code)

    assert "hello" in planned
    assert "lagbench" in known


def test_a_program_starts_without_root_and_without_a_disk(stack: Stack) -> None:
    """The consumer's help is printed by a user that is not root and has no disk."""
    command = ("python", "-m", "lagbench.programs.consumer", "--help")

    said = stack.engine.docker("run", *RESTRICTED, PROGRAMS, *command)

    assert "lagbench.programs.consumer" in said
    assert stack.engine.docker("run", *RESTRICTED, PROGRAMS, "id", "-u").strip() == "65532"


def test_a_program_reaches_kafka(stack: Stack) -> None:
    """The client in the programs' image reads the metadata of compose's broker."""
    code = (
        "from confluent_kafka.admin import AdminClient as A; "
        "print(len(A({'bootstrap.servers': 'kafka:9092'}).list_topics(timeout=60).brokers))"
    )
    network = "--network=lagbench_default"

    said = stack.engine.docker("run", *RESTRICTED, network, PROGRAMS, "python", "-c", code)

    assert said.strip() == "1"


def test_spark_computes_without_root(stack: Stack) -> None:
    """Spark's image counts rows with nothing to write but /tmp."""
    code = (
        "from pyspark.sql import SparkSession as S; import lagbench_spark; "
        "print('rows', S.builder.master('local[1]').getOrCreate().range(1000).count())"
    )
    tools = ("--tmpfs=/tmp:exec", "--entrypoint=python")

    said = stack.engine.docker("run", *RESTRICTED, *tools, SPARK, "-c", code, limit_seconds=600)

    assert "rows 1000" in said


def test_a_restarted_engine_brings_all_of_it_back(stack: Stack) -> None:
    """After ``up`` Prometheus reaches the new bench, with the kubeconfig of the old one.

    Without ``up`` it is chance: the engine may start a service before the one whose network it
    shares, and then leaves it stopped.
    """
    kubeconfig = stack.run_in(SCHEDULER, "cat", KUBECONFIG)
    before = _started(stack, SCHEDULER)

    stack.engine.restart()
    stack.up()

    assert _started(stack, SCHEDULER) > before
    assert stack.run_in(SCHEDULER, "cat", KUBECONFIG) == kubeconfig
    await_new_bench_in_prometheus(stack)


def test_the_earlier_run_is_still_there(stack: Stack, rehearsed: Rehearsed) -> None:
    """Airflow's history and the run's folder outlast the engine's restart."""
    run = stack.airflow("GET", f"/api/v2/dags/{DAG}/dagRuns/{rehearsed.dag_run_id}").json()
    report = stack.airflow("GET", f"/bench/runs/{rehearsed.run_id}/report.html")

    assert run["state"] == rehearsed.state
    assert report.status_code == 200


def test_a_crash_of_the_bench_strands_nobody(stack: Stack) -> None:
    """After SIGKILL of the scheduler's container the same Prometheus reaches the next bench."""
    prometheus, before = _started(stack, "prometheus"), _started(stack, SCHEDULER)

    # By a signal from outside: what `docker kill` ends is not started again.
    stack.engine.kill_inside(int(_inspect(stack, SCHEDULER, "{{.State.Pid}}")))
    wait_until(
        lambda: _started(stack, SCHEDULER) > before,
        "the scheduler's next start",
        limit_seconds=UP_LIMIT_SECONDS,
    )
    stack.wait_for_health()

    await_new_bench_in_prometheus(stack)
    assert _started(stack, "prometheus") == prometheus


def test_a_restarted_network_takes_its_services_along(stack: Stack) -> None:
    """After ``restart bench-network`` those in it are in the new one; none had to be killed."""
    before, since = _started(stack, SCHEDULER), time.time()

    stack.compose("restart", "bench-network", limit_seconds=600)
    stack.wait_for_health()

    assert _started(stack, SCHEDULER) > before
    await_new_bench_in_prometheus(stack)
    last_signals = _signals_sent(stack, since)
    assert {"bench-network", SCHEDULER} <= set(last_signals)
    assert [name for name, last in last_signals.items() if last == SIGKILL] == []


def await_new_bench_in_prometheus(stack: Stack) -> None:
    """Wait until Prometheus has scraped what started with the scheduler's present container.

    For five minutes it answers with the last sample of a bench that is gone.
    """
    since = _started(stack, SCHEDULER).timestamp()
    wait_until(
        lambda: stack.ask_prometheus(f"{BENCH} == 1 and timestamp({BENCH}) > {since:.3f}"),
        "Prometheus reaches the new bench",
        limit_seconds=UP_LIMIT_SECONDS,
    )


def _started(stack: Stack, service: str) -> datetime:
    """Return when a service's container was started last."""
    return datetime.fromisoformat(_inspect(stack, service, "{{.State.StartedAt}}"))


def _inspect(stack: Stack, service: str, form: str) -> str:
    container = stack.compose("ps", "--all", "--quiet", service).strip()
    return stack.engine.docker("inspect", "--format", form, container).strip()


def _signals_sent(stack: Stack, since: float) -> dict[str, str]:
    """Return the last signal that the engine sent to each service that it stopped."""
    times = (f"--since={since:.3f}", f"--until={time.time():.3f}")
    events = stack.engine.docker(
        "events", *times, "--filter=event=kill", "--format={{json .Actor.Attributes}}"
    )
    found = [json.loads(line) for line in events.splitlines()]
    return {item["com.docker.compose.service"]: item["signal"] for item in found}


def test_no_unnamed_volume_was_made(stack: Stack) -> None:
    """Each volume of the engine is one that the file names."""
    volumes = stack.engine.docker("volume", "ls", "--format", "{{.Name}}").split()

    assert volumes
    assert [name for name in volumes if not name.startswith("lagbench_")] == []


def test_down_removes_containers_and_networks(stack: Stack) -> None:
    """After ``down`` no container and no network of compose is there, and the volumes are."""
    stack.compose("down", limit_seconds=600)

    assert stack.engine.docker("ps", "--all", "--quiet").split() == []
    assert _networks(stack.engine) == {"bridge", "host", "none"}
    assert stack.engine.docker("volume", "ls", "--quiet").split()


def test_down_with_volumes_removes_all(stack: Stack) -> None:
    """After ``down -v`` no volume is left either."""
    stack.compose("down", "--volumes", limit_seconds=600)

    assert stack.engine.docker("volume", "ls", "--quiet").split() == []


def _networks(engine: Engine) -> set[str]:
    return set(engine.docker("network", "ls", "--format", "{{.Name}}").split())
