"""Simulate in processes of their own, as many as this machine has processors.

A worker ends with its parent, however that ends; Ctrl-C, or an error, ends all workers at once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import wait as wait_for_end
from typing import Literal

from lagbench.adapters.process.processor_speed import usable_cores
from lagbench.core.advice.job import Job, Outcome, evaluate_job
from lagbench.errors import LagbenchError

_DRAWS_OF_A_CHUNK = 40
"""About half a second: short enough for progress, long enough to make its transport cheap."""
_WAITING_CHUNKS = 2  # of each worker, so that none waits for the parent


@contextmanager
def ending_workers(
    workers: int, method: Literal["fork", "spawn"] = "spawn"
) -> Iterator[ProcessPoolExecutor]:
    """Provide processes that leave Ctrl-C to their parent, and have ended when the block ends."""
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context(method), initializer=_begin
    )
    try:
        yield executor
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def simulation_pool(
    workers: int | None = None,
) -> Iterator[Callable[[Sequence[Job]], Iterator[Outcome]]]:
    """Provide the ``evaluate`` of a search; outcomes come as they are done.

    :raises LagbenchError: a worker was killed, as by a lack of memory.
    """
    count = workers or usable_cores()
    with ending_workers(count) as executor:
        yield lambda jobs: _run(executor, jobs, most_waiting=count * _WAITING_CHUNKS)


def _run(
    executor: ProcessPoolExecutor, jobs: Sequence[Job], *, most_waiting: int
) -> Iterator[Outcome]:
    chunks = _chunks(jobs)
    waiting: set[Future[list[Outcome]]] = set()
    try:
        while True:
            new = islice(chunks, most_waiting - len(waiting))
            waiting |= {executor.submit(_evaluate, chunk) for chunk in new}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for one in done:
                yield from one.result()
    except BrokenProcessPool as error:
        raise LagbenchError("a process of the search was killed: is memory short?") from error


def _chunks(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    chunk: list[Job] = []
    draws = 0
    for job in jobs:
        chunk.append(job)
        draws += job.draws
        if draws >= _DRAWS_OF_A_CHUNK:
            yield chunk
            chunk, draws = [], 0
    if chunk:
        yield chunk


def _evaluate(jobs: Sequence[Job]) -> list[Outcome]:
    return [evaluate_job(job) for job in jobs]


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    wait_for_end([parent])
    os._exit(1)
