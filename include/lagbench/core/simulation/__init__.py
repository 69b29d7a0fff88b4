"""Simulate the whole loop on a virtual clock: traffic, pods and lag as a fluid, real control.

The inputs (lag, pods, time) are simulated. The decisions are not: the scale loop, KEDA's lag rules,
the lag scaler's rule and the HPA's sync are the functions that the live programs call.
"""

from lagbench.core.simulation.duration import expected_run_seconds
from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.left_out import left_out
from lagbench.core.simulation.outcome import COMPARED, Simulation, SimulationMeasures
from lagbench.core.simulation.prediction import (
    Prediction,
    Residual,
    RunPrediction,
    predict,
    residuals,
)
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.simulated_actions import is_simulated
from lagbench.core.simulation.summary import spreads

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
