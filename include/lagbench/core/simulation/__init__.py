"""Simulate the whole loop on a virtual clock: traffic, pods and lag as a fluid, real control."""

from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.prediction import (
    Prediction,
    Residual,
    RunPrediction,
    expected_run_seconds,
    predict,
    residuals,
)
from lagbench.core.simulation.simulate import is_simulated, left_out, simulate
from lagbench.core.simulation.simulation_measures import (
    COMPARED,
    Simulation,
    SimulationMeasures,
    spreads,
)

__all__ = [
    "COMPARED",
    "Prediction",
    "Residual",
    "RunPrediction",
    "SimulatedEnvironment",
    "Simulation",
    "SimulationMeasures",
    "expected_run_seconds",
    "is_simulated",
    "left_out",
    "predict",
    "residuals",
    "simulate",
    "spreads",
]
