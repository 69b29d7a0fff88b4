"""Seal the inputs of a run before its stream, and the evidence once it is accounted for.

A verdict belongs to the limits and the policy of then. Tables and counts are computed from what was
recorded, so they contradict each other only where one was changed: such a folder is refused. A
digest is one of what a file says: comments and the order of keys do not count. A folder of an older
version has no seals; it is judged, and the verdict says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.evidence.observed_group import OBSERVED_FIELD
from lagbench.errors import WrongInput

SEALED_FIELD = "sealed"
"""Of the manifest: digests by the name of the file."""
_INPUTS = ("scenario.yaml", "conf.json", "policy*.yaml", "own-*.yaml", "payload.txt")
EVIDENCE_FIELD = "sealed_evidence"
"""The same for what the accounting read and wrote."""
_EVIDENCE = ("accounting.json", "fence.json", "tables/*/*.parquet")
_JUDGED = ("scenario.yaml", "policy*.yaml", "accounting.json", "fence.json", "measures.json")


def seal(folder: RunFolder) -> None:
    """Note the digests of the inputs in the manifest; again: nothing changes."""
    if SEALED_FIELD not in folder.read_json(folder.manifest):
        folder.update_manifest(**{SEALED_FIELD: _digests(folder, _INPUTS)})


def seal_evidence(folder: RunFolder) -> None:
    """Note the digests of what was accounted for; a repeated accounting is sealed again."""
    folder.update_manifest(**{EVIDENCE_FIELD: _digests(folder, _EVIDENCE)})


def require_seals(folder: RunFolder) -> None:
    """Reject a folder of which a file was changed, added or removed after it was sealed.

    :raises WrongInput: it names the file.
    """
    manifest = folder.read_json(folder.manifest) if folder.manifest.exists() else {}
    for field, patterns, since in (
        (SEALED_FIELD, _INPUTS, "the stream began"),
        (EVIDENCE_FIELD, _EVIDENCE, "the run was accounted for"),
    ):
        sealed: Mapping[str, str] | None = manifest.get(field)
        if sealed is None:
            continue
        for name in sorted(_changed(sealed, _digests(folder, patterns))):
            where, value = f"run {folder.reference}", f"changed since {since}"
            allowed = "the file as the run had it; lagbench report RUN --slo NAME=LIMIT asks"
            allowed += " what the verdict would be with another limit"
            raise WrongInput(where=where, field=name, value=value, allowed=allowed)


def unsealed_note(manifest: Mapping[str, Any]) -> str:
    """Return the note of a run without seals; empty: it has them, or was only observed."""
    if SEALED_FIELD in manifest or OBSERVED_FIELD in manifest:
        return ""
    return "inputs not sealed: an older version made the run, and anyone may have changed them"


def judged_files(folder: RunFolder) -> dict[str, str]:
    """Return the digests of the files that a verdict rests on."""
    return _digests(folder, _JUDGED)


def changed_since(folder: RunFolder, judged: Mapping[str, str]) -> list[str]:
    """Return the files that are not as they were when the verdict was written."""
    now = {name: digest for name, digest in judged_files(folder).items() if name in judged}
    return sorted(_changed({name: judged[name] for name in now}, now))


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {name for name in {*before, *now} if before.get(name) != now.get(name)}


def _digests(folder: RunFolder, patterns: Iterable[str]) -> dict[str, str]:
    files = {path for pattern in patterns for path in folder.path.glob(pattern)}
    return {
        str(path.relative_to(folder.path)): _digest(path.name, path.read_bytes())
        for path in sorted(files)
    }


def _digest(name: str, content: bytes) -> str:
    """Return the SHA-256 of what a file says, of its bytes where it cannot be read."""
    try:
        if name.endswith((".json", ".yaml")):
            said = yaml.safe_load(content) if name.endswith(".yaml") else json.loads(content)
            content = json.dumps(said, sort_keys=True, default=str).encode()
    except (ValueError, yaml.YAMLError):
        pass
    return hashlib.sha256(content).hexdigest()
