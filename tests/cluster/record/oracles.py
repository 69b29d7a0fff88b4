"""Ask the HPA's own code and KEDA's own kafka scaler again what came of the kept inputs.

What is asked is not exported. So a test file of ours stands beside a copy of the package, within a
module that requires all the rest; ``go test`` runs it, and Go's build cache is the rig's.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.cluster.rig.binaries import kubernetes_wrapper
from tests.cluster.rig.go_command import go, module_folder
from tests.cluster.rig.versions import Versions, cache_folder

_HERE = Path(__file__).parent
_KEDA = "github.com/kedacore/keda/v2"
Document = dict[str, Any]


def replay_hpa(kept: Document, versions: Versions) -> Document:
    """Return the kept syncs with the outcomes of the chosen Kubernetes."""
    module = kubernetes_wrapper(versions, cache_folder() / "src" / "hpa-oracle")
    upstream = module_folder("k8s.io/kubernetes", versions.kubernetes)
    package = upstream / "pkg" / "controller" / "podautoscaler"
    outcomes = _replay(module, package, _HERE / "hpa_oracle_test.go", kept)
    scenarios = _with_outcomes(kept["scenarios"], "ticks", outcomes)
    how = (
        f"one HPA per scenario, one tick per HPA sync; t in ms. The inputs of a tick are "
        f"specReplicas, statusReplicas, readyPods and metricMilli; newReplicas is what "
        f"reconcileAutoscaler of Kubernetes v{versions.kubernetes} wrote on a virtual clock; "
        f"metricDesired is the proposal before normalisation, null when no metric was asked for."
    )
    return {**kept, "how": how, "scenarios": scenarios}


def replay_lag(kept: Document, versions: Versions) -> Document:
    """Return the kept polls with the lag that the chosen KEDA makes of them."""
    upstream = module_folder(_KEDA, versions.keda)
    module = cache_folder() / "src" / "lag-oracle"
    module.mkdir(parents=True, exist_ok=True)
    text = (upstream / "go.mod").read_text(encoding="utf-8")
    text = re.sub(rf"^module {_KEDA}$", "module rig", text, flags=re.MULTILINE)
    (module / "go.mod").write_text(text, encoding="utf-8")
    shutil.copyfile(upstream / "go.sum", module / "go.sum")
    go(["mod", "edit", f"-require={_KEDA}@v{versions.keda}"], module)
    package = upstream / "pkg" / "scalers"
    outcomes = _replay(module, package, _HERE / "lag_oracle_test.go", kept)
    how = (
        f"getTotalLag of the kafka scaler of KEDA v{versions.keda}, asked over the network, on "
        f"random inputs; committed -1: none; earliest null: not found or not asked; the polls of a "
        f"case share the memory for persistent lag. metric is the raw total before the milli "
        f"conversion and may be negative (the quantity then becomes 0)."
    )
    return {**kept, "how": how, "cases": _with_outcomes(kept["cases"], "polls", outcomes)}


def _replay(module: Path, package: Path, test: Path, kept: Document) -> list[list[Document]]:
    copied = module / package.name
    shutil.rmtree(copied, ignore_errors=True)
    copied.mkdir()
    for source in package.glob("*.go"):
        if not source.name.endswith("_test.go"):
            shutil.copyfile(source, copied / source.name)
    shutil.copyfile(test, copied / test.name)
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "kept.json", Path(folder) / "outcomes.json"
        asked.write_text(json.dumps(kept), encoding="utf-8")
        how = ["-mod=mod", "-trimpath", "-vet=off", "-count=1"]
        go(["test", *how, f"./{package.name}", "-args", str(asked), str(answered)], module)
        return json.loads(answered.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _with_outcomes(
    kept: list[Document], parts: str, outcomes: list[list[Document]]
) -> list[Document]:
    return [
        {**item, parts: [{**old, **new} for old, new in zip(item[parts], found, strict=True)]}
        for item, found in zip(kept, outcomes, strict=True)
    ]
