"""Account for a run on this machine, from its run folder or the running bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lagbench import project
from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded import bench
from lagbench.embedded.java import driver_options, find_java
from lagbench.embedded.kept_log import served_log
from lagbench.embedded.spark_packages import SPARK_JOBS, spark_environment, spark_jars
from lagbench.embedded.spark_submit import spark_submit
from lagbench.errors import NotReady

DRIVER_MEMORY = "2g"


def account_here(folder: RunFolder, say: Callable[[str], None]) -> None:
    """Run the pipeline on ``folder`` with ``local[2]``; repeating it changes nothing.

    The source is the landed tables, else the copies of the topics, else the topics themselves: of
    the log that a stopped bench kept, or of the embedded bench while it is up.

    :raises NotReady: the run was not fenced, nothing is left of its topics, or Spark failed.
    """
    with served_log(project.state_dir(), folder) as servers:
        source, arguments = _source(folder, servers)
        say(f"accounting for {folder.reference} from {source}")
        _submit(folder, arguments)


def _submit(folder: RunFolder, arguments: Sequence[str]) -> None:
    command = ["--master", "local[2]", "--driver-memory", DRIVER_MEMORY]
    command += ["--jars", ",".join(str(path) for path in spark_jars())]
    job = [str(SPARK_JOBS / "pipeline.py"), "--run-folder", str(folder.path.absolute())]
    messages = sum(folder.read_json(folder.fence)["events"].values())
    log_path = folder.logs / "account.log"
    log_path.parent.mkdir(exist_ok=True)
    with driver_options(find_java(), messages=messages) as options:
        command += ["--driver-java-options", options, *job, *arguments]
        code, tail = spark_submit(command, log_path=log_path, environment=spark_environment())
    if code != 0 or not folder.accounting.exists():
        raise NotReady(
            f"Spark ended with code {code}; the evidence of run {folder.reference} stays as it is. "
            f"Whole log: {log_path}\n{tail}"
        )


def _source(folder: RunFolder, kept: str | None) -> tuple[str, Sequence[str]]:
    """Return the source of the run's messages, in words and as the job's arguments.

    :param kept: the address of a broker on the log that was kept of the run; None: none was.
    """
    if not folder.fence.exists():
        raise NotReady(
            f"run {folder.reference} ended before its fence: its messages were never delimited, so "
            "there is nothing to account for. Run it again"
        )
    if folder.has_landed():
        return "its landed tables", ("--landed",)
    if all(folder.has_copy(kind) for kind in LANDED_TABLES):
        return "the copies of its topics", ()
    state, names = bench.running(project.state_dir()), folder.names
    running = None if state is None else state.bootstrap_servers
    for source, servers in (("the log that was kept of it", kept), ("its topics", running)):
        if servers is not None and _has_topics(servers, names):
            topics = (f"--{kind}-topic" for kind in LANDED_TABLES)
            named = [part for pair in zip(topics, names.topics, strict=True) for part in pair]
            return source, ("--bootstrap-servers", servers, *named)
    raise NotReady(
        f"no messages are left of run {folder.reference}: no landed tables, no copies in "
        f"{folder.copy('')}, no kept log, and no bench that has its topics. Run it again"
    )


def _has_topics(bootstrap_servers: str, names: RunNames) -> bool:
    from lagbench.adapters.kafka.kafka_admin import KafkaAdmin

    with KafkaAdmin(bootstrap_servers) as admin:
        return set(names.topics) <= set(admin.topic_names())
