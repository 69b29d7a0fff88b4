"""Define experiments: cells that are compared by pairs of runs, their order, their progress.

Light on purpose: the Dags of the experiments import it whenever they are parsed. The result, which
needs the measures, is in ``result``.
"""

from lagbench.core.experiment.experiment import Experiment
from lagbench.core.experiment.progress import MOST_ATTEMPTS, Execution, Progress, RunRecord
from lagbench.core.experiment.schedule import PlannedRun, Schedule, draw_schedule

__all__ = [
    "MOST_ATTEMPTS",
    "Execution",
    "Experiment",
    "PlannedRun",
    "Progress",
    "RunRecord",
    "Schedule",
    "draw_schedule",
]
