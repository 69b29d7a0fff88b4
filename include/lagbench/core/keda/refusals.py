"""Define the errors of a ScaledObject: rejected by KEDA's operator, or not supported here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

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


class NotSupported(WrongInput):
    """KEDA would take what is written; the embedded autoscaler cannot do it."""

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling."""
        rebuild = partial(
            NotSupported,
            where=self.where,
            field=self.field,
            value=self.value,
            allowed=self.allowed,
        )
        return rebuild, ()


class TriggerRefused(WrongInput):
    """KEDA's operator rejects the value; ``keda_message`` is its reason.

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
        """Keep KEDA's message both as the reason shown (with ``hint``) and by itself."""
        allowed = f"{keda_message} ({hint})" if hint else keda_message
        super().__init__(where=where, field=field, value=value, allowed=allowed)
        self.keda_message = keda_message
        self.stage: RefusalStage = stage
        self.hint = hint

    @property
    def condition_message(self) -> str:
        """Return the message of the Ready condition."""
        return f"{_STAGE_TEXT[self.stage]}: {self.keda_message}"

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling."""
        rebuild = partial(
            TriggerRefused,
            where=self.where,
            field=self.field,
            value=self.value,
            keda_message=self.keda_message,
            stage=self.stage,
            hint=self.hint,
        )
        return rebuild, ()
