"""Read where a query's checkpoint says that it will continue."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from lagbench.errors import NotReady, WrongInput

_VERSION = "v1"


class Checkpoint:
    """The checkpoint of the query in a folder; one in an object store is Spark's alone to read."""

    def __init__(self, place: str) -> None:
        """Take a path, or a URI."""
        parts = urlsplit(place)
        self._place = place
        self._folder = Path(parts.path) if parts.scheme in {"", "file"} else None

    def offsets_of(self, topic: str) -> dict[int, int] | None:
        """Return the end of the last committed batch, by partition; None: there is none.

        :raises WrongInput: the checkpoint is one of another topic.
        :raises NotReady: it cannot be read.
        """
        if self._folder is None:
            return None
        planned, committed = self._numbers("offsets"), self._numbers("commits")
        if planned:
            self._of_batch(planned[-1], topic)
        return self._of_batch(committed[-1], topic) if committed else None

    def _numbers(self, log: str) -> list[int]:
        if self._folder is None or not (self._folder / log).is_dir():
            return []
        return sorted(
            int(file.name) for file in (self._folder / log).iterdir() if file.name.isdigit()
        )

    def _of_batch(self, number: int, topic: str) -> dict[int, int]:
        file = Path(str(self._folder)) / "offsets" / str(number)
        try:
            version, _, *sources = file.read_text(encoding="utf-8").splitlines()
            offsets = json.loads(sources[0])
        except (OSError, ValueError, IndexError) as error:
            raise NotReady(f"cannot read the checkpoint {file}: {error}") from error
        if version != _VERSION or not isinstance(offsets, dict):
            raise NotReady(f"{file} is not an offset log of version {_VERSION}")
        if set(offsets) != {topic}:
            raise WrongInput(
                where="enrich_stream",
                field="--checkpoint",
                value=f"{self._place}, a checkpoint of topic {', '.join(sorted(offsets))}",
                allowed=f"a new folder, or a checkpoint of topic {topic}",
            )
        return {int(partition): int(at) for partition, at in offsets[topic].items()}
