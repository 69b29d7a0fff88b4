"""A private home for Airflow; import this before anything of Airflow."""

from __future__ import annotations

import os
import tempfile

from lagbench.project import PROJECT_ROOT

_home = tempfile.TemporaryDirectory(prefix="lagbench-test-airflow-")

os.environ["AIRFLOW_HOME"] = _home.name
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(PROJECT_ROOT / "dags")
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(PROJECT_ROOT / "plugins")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "True"
