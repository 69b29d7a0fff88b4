"""Take the picture of the example Dag in Airflow's UI: ``make picture-own-dag``.

It runs docs/examples/guard_deployment.py once, through a real scheduler and triggerer, on a broker,
a Deployment and an Airflow of its own. That takes about five minutes, more on a busy machine.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lagbench.embedded.broker import Broker
from lagbench.orchestrator.airflow_server import api_token
from lagbench.project import PROJECT_ROOT
from tests.eventually import eventually
from tests.integration.guarded_deployment import (
    CONF,
    EXAMPLE,
    Airflow,
    running_airflow,
    running_shop,
)
from tests.integration.report.chromium import Page, running_chromium

PICTURE = PROJECT_ROOT / "docs" / "pictures" / "own_dag.png"
DAG = EXAMPLE.stem
WIDTH = 1400
DRAWN_LIMIT_SECONDS = 600
COOKIE = "_token"
"""In it the UI expects the token of who is logged in."""
# What the buttons above the Dag keep in the browser: the graph, drawn from top to bottom.
CHOICES = {"default_dag_view": "graph", f"direction-{DAG}": "DOWN"}
AT_REST = """(() => {
  const nodes = [...document.querySelectorAll('.react-flow__node')];
  const places = JSON.stringify(nodes.map((node) => node.getBoundingClientRect()));
  const now = performance.now();
  if (places !== window.lastPlaces) [window.lastPlaces, window.movedAt] = [places, now];
  const hasAll = tasks.every((task) => nodes.some((node) => node.innerText.includes(task)));
  const isLoading = document.querySelector('.chakra-skeleton, .chakra-spinner') !== null;
  return hasAll && !isLoading && now - window.movedAt > 2000;
})()"""
"""True when the graph has each of ``tasks``, and nothing in it has moved for two seconds."""


def take_picture(path: Path) -> Path:
    """Run the example and write the picture of its finished run.

    :raises RuntimeError: the run failed, and a picture of it would not show the example.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(_running_broker(folder / "broker"))
        shop = stack.enter_context(running_shop(broker, folder / "localkube"))
        (folder / "airflow").mkdir()
        airflow = stack.enter_context(running_airflow(shop.connections, folder / "airflow"))
        shop.scale(2)
        shop.await_members(2, hold=1)
        run_id = airflow.start(CONF)
        state, tasks = airflow.await_end(run_id)
        if state != "success":
            raise RuntimeError(f"the run of the example ended as {state}: {tasks}")
        page = stack.enter_context(running_chromium(folder / "chromium"))
        path.write_bytes(_graph(page, airflow, run_id, sorted(tasks)))
    return path


@contextmanager
def _running_broker(folder: Path) -> Iterator[Broker]:
    broker = Broker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _graph(page: Page, airflow: Airflow, run_id: str, tasks: list[str]) -> bytes:
    """Return the run's page with the graph of its tasks."""
    url = airflow.server.url
    token = api_token(airflow.server, airflow.state_dir)
    page.send("Network.setCookie", name=COOKIE, value=token, url=url)
    page.open(f"{url}/static/pin_32.png", width=WIDTH, drawn="document.readyState === 'complete'")
    for name, choice in CHOICES.items():
        stored = json.dumps(json.dumps(choice))
        page.run(f"localStorage.setItem({json.dumps(name)}, {stored})")
    page.open(f"{url}/dags/{DAG}/runs/{run_id}", width=WIDTH, drawn="document.body !== null")
    at_rest = f"(() => {{ const tasks = {json.dumps(tasks)}; return {AT_REST}; }})()"
    eventually(lambda: page.run(at_rest), "the graph is drawn", within_seconds=DRAWN_LIMIT_SECONDS)
    return page.picture("body", "body")


if __name__ == "__main__":
    print(take_picture(PICTURE))  # noqa: T201
