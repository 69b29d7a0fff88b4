"""Mail that a night has failed, has regressed, or is late."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urljoin

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk.configuration import conf

from lagbench_airflow.run_lookup import NIGHTLY_DAG

ADDRESSES_VARIABLE = "LAGBENCH_NOTIFY"


def addresses() -> list[str]:
    """Return the addresses of the deployer, by commas between them; empty: no mail is sent."""
    return os.environ.get(ADDRESSES_VARIABLE, "").replace(",", " ").split()


class NightNotifier(SmtpNotifier):
    """Mails the verdict of each cell of a night, with the connection ``smtp_default``.

    Its extra ``from_email`` is the sender. Without an address the log has the mail. It is for
    ``on_failure_callback`` of the Dag, and for a DeadlineAlert.
    """

    def __init__(self, *, to: Sequence[str], **kwargs: Any) -> None:
        """Take the addresses, and what SmtpNotifier takes."""
        super().__init__(to=list(to), **kwargs)

    def notify(self, context: Any) -> None:
        """Send, in the Dag processor."""
        self.write(context)
        if self.to:
            super().notify(context)

    async def async_notify(self, context: Any) -> None:
        """Send, in the triggerer, whose other triggers continue while runs are read.

        A night that has failed was mailed, but its deadline comes, too.
        """
        if context["dag_run"].get("state") in ("success", "failed"):
            return
        await asyncio.to_thread(self.write, context)
        if self.to:
            await super().async_notify(context)

    def write(self, context: Mapping[str, Any]) -> None:
        """Write subject and text; a context with a deadline is of a night that is late."""
        from lagbench_airflow.nights import verdicts_of_night  # too much for each look at the Dag

        deadline, run_id, dag_run = map(context.get, ("deadline", "run_id", "dag_run"))
        given = getattr(dag_run, "conf", None)
        if deadline is not None:  # which has the Dag run as Airflow's API shows it
            run_id, given = context["dag_run"]["dag_run_id"], context["dag_run"]["conf"]
        verdicts = list(verdicts_of_night(str(run_id), given or {}))
        what = "has failed"
        if deadline is not None:
            what = f"is late: due {str(deadline['deadline_time'])[:16]}"
        self.subject = f"lagbench: {NIGHTLY_DAG} {what}"
        base = conf.get("api", "base_url", fallback="") or ""
        rows = [
            f'<li>{escape(text)} (<a href="{escape(urljoin(base, address))}">report</a>)</li>'
            for address, text in verdicts
        ]
        reason = escape(str(context.get("reason") or ""))
        self.html_content = f"<p>{escape(str(run_id))} {what}. {reason}</p><ul>{''.join(rows)}</ul>"
        self.log.warning("%s: %s", self.subject, "; ".join(text for _, text in verdicts))
