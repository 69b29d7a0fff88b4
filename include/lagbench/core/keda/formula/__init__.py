"""The formulas of scalingModifiers: read and type-checked as KEDA does, then evaluated.

The reader knows more of the language than the evaluator: 42 of the 163 recorded formulas use such
parts. Without them admission would accept or reject formulas otherwise than KEDA.
"""

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
