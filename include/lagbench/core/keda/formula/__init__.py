"""The formulas of scalingModifiers: read and type-checked as KEDA does, then evaluated."""

from lagbench.core.keda.formula.compiled import FormulaRefusedError, compile_formula
from lagbench.core.keda.formula.evaluation import EvaluationFailedError, FormulaEvaluator
from lagbench.core.keda.formula.node import Node
from lagbench.core.keda.formula.python_tree import NotEvaluatedError
from lagbench.core.keda.formula.syntax import parse_formula
from lagbench.core.keda.formula.tokens import FormulaError

__all__ = [
    "EvaluationFailedError",
    "FormulaError",
    "FormulaEvaluator",
    "FormulaRefusedError",
    "Node",
    "NotEvaluatedError",
    "compile_formula",
    "parse_formula",
]
