"""``make licences``: write the licence of each locked runtime package, as the SBOM names it."""

import csv
import json
import re
import sys
from pathlib import Path

from lagbench.project import PROJECT_ROOT

TABLE = PROJECT_ROOT / "third-party-licences.csv"


def locked(lock: Path = PROJECT_ROOT / "requirements.txt") -> set[tuple[str, str]]:
    """Return name and version of each package of a lock."""
    return set(re.findall(r"^([a-z0-9._-]+)==([^ ;]+)", lock.read_text(), re.MULTILINE))


def main(sbom: Path) -> None:
    """Write the table from CycloneDX's file of an environment."""
    rows = []
    for part in json.loads(sbom.read_text())["components"]:
        name = re.sub(r"[-_.]+", "-", part["name"]).lower()
        choices = [
            one.get("expression") or one["license"].get("id") or one["license"]["name"]
            for one in part.get("licenses", [])
        ]
        ids = [one for one in choices if not one.startswith("License ::")] or choices
        if (name, part["version"]) in locked():
            rows.append((name, part["version"], "; ".join(ids) or "see its page"))
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("package", "version", "licence"))
        writer.writerows(sorted(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
