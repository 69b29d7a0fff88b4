"""Set up the embedded Airflow's home: its environment, its database, its log-in."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from subprocess import CompletedProcess

from lagbench.adapters.runs.run_folder import RUNS_DIR_VARIABLE, runs_root
from lagbench.errors import NotReady
from lagbench.project import PROJECT_ROOT, STATE_VARIABLE
from localkube.processes import GroupReaper, end_process, start_tied

ADMIN = "admin"

_MIGRATION_LIMIT_SECONDS = 180
_PROGRAM = PROJECT_ROOT / "plugins" / "lagbench_airflow" / "waiting_airflow.py"
_RUNS_ALL_TASKS = "LAGBENCH_DAG_PROCESS"


def airflow_home(state_dir: Path) -> Path:
    """Return Airflow's folder inside the bench's state folder."""
    return state_dir / "airflow"


def temporary_folder(state_dir: Path) -> Path:
    """Return the folder of the temporary files of every Airflow process."""
    return airflow_home(state_dir) / "tmp"


def empty_temporary_folder(state_dir: Path) -> None:
    """Delete what earlier Airflow processes left; call it before the first one starts."""
    shutil.rmtree(temporary_folder(state_dir), ignore_errors=True)
    temporary_folder(state_dir).mkdir(parents=True, mode=0o700)


def airflow_command(*arguments: str) -> list[str]:
    """Return the command line of this environment's own ``airflow``."""
    return [sys.executable, "-m", "airflow", *arguments]


def airflow_environment(state_dir: Path, connections: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every Airflow process of the embedded bench.

    Variables that the user has already set (``AIRFLOW_CONN_…``, ``AIRFLOW__…``) take precedence. A
    move to a cluster or another database therefore needs only environment variables.
    """
    root, home = PROJECT_ROOT, airflow_home(state_dir)
    ours = {
        # A task ends without the handlers that delete its temporary files.
        "TMPDIR": str(temporary_folder(state_dir)),
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(root / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        # The Test button of a connection: off by default, for the sake of UIs that others reach.
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords_file(state_dir)),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__WORKERS": "1",
        # A bench at work may leave the API server nothing for longer than the default of 5 s.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        **connections,
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # A kubeconfig or a Java of the user's shell must not affect this bench, nor this bench the
    # database in the home of the user's own Airflow.
    fixed = {name: connections[name] for name in ("KUBECONFIG", "JAVA_HOME") if name in connections}
    fixed["AIRFLOW_HOME"] = str(home)
    # Airflow may run in another folder: of a wheel, that would be the home of other runs.
    fixed |= {STATE_VARIABLE: str(state_dir), RUNS_DIR_VARIABLE: str(runs_root())}
    return {**ours, **os.environ, **fixed, "PATH": path}


def passwords_file(state_dir: Path) -> Path:
    """Return the file in which SimpleAuthManager keeps the generated password."""
    return airflow_home(state_dir) / "simple_auth_manager_passwords.json"


def admin_password(state_dir: Path) -> str:
    """Return the administrator's password, created once per state folder, readable by the owner."""
    path = passwords_file(state_dir)
    if path.exists():
        found = json.loads(path.read_text()).get(ADMIN)
        if found:
            return str(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    password = secrets.token_urlsafe(12)
    path.touch(mode=0o600)
    path.write_text(json.dumps({ADMIN: password}))
    return password


def _finished(state_dir: Path, command: list[str], **variables: str) -> CompletedProcess[str]:
    return subprocess.run(
        command,
        env=airflow_environment(state_dir, {}) | variables,
        capture_output=True,
        text=True,
        timeout=_MIGRATION_LIMIT_SECONDS,
        check=False,
    )


def prepare_database(state_dir: Path) -> None:
    """Migrate Airflow's database to this version's schema, once."""
    home, wanted = airflow_home(state_dir), version("apache-airflow-core")
    home.mkdir(parents=True, exist_ok=True)
    admin_password(state_dir)
    marker = home / "migrated"
    with (home / "migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists() and marker.read_text() == wanted:
            return
        done = _finished(state_dir, airflow_command("db", "migrate"))
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise NotReady(f"airflow db migrate failed with exit code {done.returncode}:\n{tail}")
        marker.write_text(wanted)


def write_configuration(state_dir: Path) -> None:
    """Let Airflow write its configuration, with new secrets, if it has none.

    Parts that start at the same time would each make their own, and reject each other's tokens.
    """
    if not (airflow_home(state_dir) / "airflow.cfg").exists():
        _finished(state_dir, airflow_command("config", "get-value", "core", "executor"))


def fail_abandoned_runs(state_dir: Path) -> list[str]:
    """Mark runs of killed processes as failed, else a scheduler would continue them.

    Call it only while neither a scheduler nor a run uses this state folder.
    """
    command = [sys.executable, "-m", "lagbench_airflow.abandoned_runs"]
    done = _finished(state_dir, command, PYTHONPATH=str(PROJECT_ROOT / "plugins"))
    if done.returncode != 0:
        raise NotReady(f"the abandoned runs could not be marked failed:\n{done.stderr[-2000:]}")
    return done.stdout.split()


def is_dag_process() -> bool:
    """Return whether this process runs all tasks of its Dag run, one after the other."""
    return os.environ.get(_RUNS_ALL_TASKS) == str(os.getpid())


class DagProcess:
    """A process that has imported Airflow and waits; it and all it starts end with this one."""

    def __init__(self, state_dir: Path) -> None:
        """Start it."""
        prepare_database(state_dir)
        empty_temporary_folder(state_dir)
        self._state_dir = state_dir
        self._log_path = airflow_home(state_dir) / "logs" / "starting.log"
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        self._reaper = GroupReaper()
        read_end, self._work = os.pipe()
        with self._log_path.open("wb") as log:
            self._process = start_tied(
                [sys.executable, "-P", str(_PROGRAM), str(read_end)],
                log=log,
                env=airflow_environment(state_dir, {}),
                pass_fds=[read_end],
            )
        os.close(read_end)
        self._reaper.watch(self._process.pid)

    def run(self, *arguments: str, connections: Mapping[str, str], log_path: Path) -> None:
        """Let it become ``airflow`` with ``arguments``; its output goes to ``log_path``."""
        self._log_path.replace(log_path)
        environment = airflow_environment(self._state_dir, connections)
        environment[_RUNS_ALL_TASKS] = str(self._process.pid)
        work = {"environment": environment, "arguments": arguments}
        # Around the pipe: it is written when it is closed. The log says why the process has ended.
        with suppress(BrokenPipeError), os.fdopen(self._work, "w") as pipe:
            pipe.write(json.dumps(work) + "\n")

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        self._reaper.restart_if_killed()
        return self._process.poll() is not None

    def end(self, *, grace_seconds: float = 0) -> None:
        """End it and all that it started."""
        end_process(self._process.pid, grace_seconds=grace_seconds)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._reaper.close()
