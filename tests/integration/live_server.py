"""The pages of the bench as an ASGI application of their own, for a server of a test."""

from __future__ import annotations

from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench_airflow.pages.report_app import report_app

app = report_app(is_open=True)
