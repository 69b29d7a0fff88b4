"""Experiments for tests."""

from __future__ import annotations

from typing import Any

from lagbench.core.experiment import Experiment

BASE: dict[str, Any] = {
    "name": "tiny",
    "title": "Tiny",
    "question": "Does it differ?",
    "scenario": "quick_spike",
    "cells": [
        {"name": "calm"},
        {"name": "eager", "overrides": {"consumer.balancer": "range"}, "expects": "fail"},
    ],
    "pairs": 6,
    "hours": 1.0,
}


def experiment(**changed: Any) -> Experiment:
    """Return a small experiment with other fields."""
    return Experiment.model_validate({**BASE, **changed})
