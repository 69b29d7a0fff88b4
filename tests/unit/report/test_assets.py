"""Scripts and styles: the vendored library as published, ours complete, and their policy."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

import pytest

from lagbench.report import assets

PUBLISHED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""SHA-256 of the files of uPlot 1.6.32, as published (LICENSE without its ending)."""
ROOM = resources.files("lagbench.report")


def test_the_library_is_the_published_one() -> None:
    """No file of uPlot was changed, and there is no other."""
    files = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in ROOM.joinpath("vendor/uplot").iterdir()
    }

    assert files == PUBLISHED


@pytest.mark.parametrize(
    ("folder", "names"), [("scripts", assets.SCRIPTS), ("styles", assets.STYLES)]
)
def test_every_file_is_part_of_the_page(folder: str, names: tuple[str, ...]) -> None:
    """A script or style that is not listed would never be read."""
    assert {file.name.split(".")[0] for file in ROOM.joinpath(folder).iterdir()} == set(names)


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No address but that of the library, whose licence goes along; no text ends its element."""
    text = assets.scripts() + assets.styles()

    assert "Permission is hereby granted, free of charge" in text
    addresses = set(re.findall(r"https?://[^\s\"')]+", text))
    assert addresses == {"https://github.com/leeoniya/uPlot", "http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts)\b|@import|url\(", text)
    assert not re.search("</(script|style)", text, re.IGNORECASE)


def test_ours_make_no_markup_from_text() -> None:
    """Names reach the page as text: nothing is set as HTML, nothing is evaluated."""
    ours = "\n".join(
        file.read_text(encoding="utf-8") for file in ROOM.joinpath("scripts").iterdir()
    )

    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", ours
    )


def test_the_policy_names_the_exact_text() -> None:
    """A browser runs a script only if its hash is in the policy."""
    digest = base64.b64encode(hashlib.sha256(b"go()").digest()).decode()

    policy = assets.content_security_policy(["go()"], ["a {}"])

    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
