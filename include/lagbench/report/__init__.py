"""The report of a run: one self-contained HTML file, rebuilt from the run folder alone."""

from lagbench.report.again import report_again
from lagbench.report.page import write_report

__all__ = ["report_again", "write_report"]
