"""The whole loop on a virtual clock: traffic, pods and lag as a fluid, control as it runs live.

Simulated are the world's answers (lag, pods, time). What decides is not: the scale loop, KEDA's lag
rules, the lag scaler's rule and the HPA's sync are the functions that the live programs call.
"""

from lagbench.core.simulation.outcome import Simulation
from lagbench.core.simulation.prediction import (
    PredictedRange,
    Prediction,
    Residual,
    RunPrediction,
    predict,
    residuals,
)
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.summary import Spread, spreads
from lagbench.core.simulation.surroundings import Surroundings

__all__ = [
    "PredictedRange",
    "Prediction",
    "Residual",
    "RunPrediction",
    "Simulation",
    "Spread",
    "Surroundings",
    "predict",
    "residuals",
    "simulate",
    "spreads",
]
