"""Spark's settings and submissions."""

from lagbench.core.spark.settings import SparkPlace, SparkSettings, check_fit, place_of
from lagbench.core.spark.submission import (
    CODE_ZIP,
    Here,
    Submission,
    compose_submission,
    time_limit_seconds,
)

__all__ = [
    "CODE_ZIP",
    "Here",
    "SparkPlace",
    "SparkSettings",
    "Submission",
    "check_fit",
    "compose_submission",
    "place_of",
    "time_limit_seconds",
]
