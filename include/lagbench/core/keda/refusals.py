"""Define the errors of a ScaledObject: rejected by KEDA's operator, or not supported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lagbench.errors import WrongInput

RefusalStage = Literal["bounds", "triggers", "scaler", "hpa"]
# What the operator writes before its reason into Ready=False, by the step that failed.
_HPA_FAILED = "failed to ensure HPA is correctly created for ScaledObject"
_STAGE_TEXT: Mapping[RefusalStage, str] = {
    "bounds": "ScaledObject doesn't have correct Idle/Min/Max Replica Counts specification",
    "triggers": "ScaledObject doesn't have correct triggers specification",
    "scaler": _HPA_FAILED,
    "hpa": _HPA_FAILED,
}


class _Picklable(WrongInput):
    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling, with every attribute."""
        return _remade, (type(self), self.args, vars(self))


def _remade(kind: type[WrongInput], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    made = kind.__new__(kind, *args)
    vars(made).update(attributes)
    return made


class NotSupported(_Picklable):
    """KEDA would take what is written; the embedded autoscaler cannot do it."""


class TriggerRefused(_Picklable):
    """KEDA's operator rejects the value; ``keda_message`` is the reason, in words of the bench.

    ``stage`` is the step that fails: only a failing "scaler" has an event of its own
    (KEDAScalerFailed, with the reason alone) beside ScaledObjectCheckFailed.
    """

    def __init__(
        self,
        *,
        where: str,
        field: str,
        value: object,
        keda_message: str,
        stage: RefusalStage = "scaler",
        hint: str = "",
    ) -> None:
        """Keep the reason both as what is shown (with ``hint``) and by itself."""
        allowed = f"{keda_message} ({hint})" if hint else keda_message
        super().__init__(where=where, field=field, value=value, allowed=allowed)
        self.keda_message, self.hint = keda_message, hint
        self.stage: RefusalStage = stage

    @property
    def condition_message(self) -> str:
        """Return the message of the Ready condition."""
        return f"{_STAGE_TEXT[self.stage]}: {self.keda_message}"
