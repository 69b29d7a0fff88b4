"""Where the checkout is that holds the Dags, the manifests and the catalog."""

from __future__ import annotations

from pathlib import Path


def project_root() -> Path:
    """Return the nearest folder above this package with a pyproject.toml, else the current one."""
    here = Path(__file__).resolve()
    return next((f for f in here.parents if (f / "pyproject.toml").is_file()), Path.cwd())


PROJECT_ROOT = project_root()
