"""``python -m tests.plain_english``: find phrases that read as translated, by a word list.

It reads the documents, the comments of manifests, the page of the report, and the programs'
docstrings and messages (all other string literals). Code and quoted words are left out, because
they repeat the words of others. List and exceptions are in ``plain_english.toml``. No tool of the
package index fits: codespell compares single words, proselint takes no list, vale is a download.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_PROSE = ("README.md", "docs/**/*.md", "k8s/**/*.y*ml", "include/**/*.yaml", "include/**/*.j2")
_PROGRAMS = ("include/**/*.py", "plugins/**/*.py", "spark_jobs/**/*.py", "dags/*.py")
_NOT_PROSE = re.compile(r"```.*?```|`[^`]*`|\{[{%].*?[%}]\}|<[^>]*>|\]\([^)]*\)", re.DOTALL)
_QUOTED = re.compile(r'"[^"|]*"')
_BLOCK_END = re.compile(r"\n\s*\n|\n(?=\s*[*#|-])")
_COMMENT = re.compile(r"(?:^|\s)#\s(.*)")


def findings(file: str, text: str) -> Iterator[str]:
    """Yield a line for each phrase in a file's prose, and for each exception without a use."""
    unused = [each["block"] for each in LIST["allowed"] if each["file"] == file]
    allowed = list(unused)
    for line, block in _messages(text) if file.endswith(".py") else _paragraphs(file, text):
        prose = " ".join(_QUOTED.sub('""', block).split())
        if used := [pattern for pattern in allowed if re.search(pattern, prose)]:
            unused = [pattern for pattern in unused if pattern not in used]
            continue
        for phrase, instead in LIST["phrases"].items():
            for found in re.finditer(phrase, prose):
                yield f"{file}:{line}: {found[0].strip()!r}: {instead}"
    yield from (f"{file}: no text matches the exception {pattern!r}" for pattern in unused)


def _paragraphs(file: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each paragraph, list item, table row or run of comments."""
    if not file.endswith((".md", ".j2")):
        comments = [_COMMENT.search(line) for line in text.splitlines()]
        text = "\n".join(found[1] if found else "" for found in comments)
    text = _NOT_PROSE.sub(lambda found: "\n" * found[0].count("\n") or " X ", text)
    at = 0
    for block in map(str.strip, _BLOCK_END.split(text)):
        at = text.index(block, at)
        yield text.count("\n", 0, at) + 1, block


def _messages(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring and string literal; X for a field and for code."""
    tree = ast.parse(text)
    docstrings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    skipped = {id(node) for node in docstrings}
    for node in docstrings:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, re.sub("``.*?``", "X", node.value, flags=re.DOTALL)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [v.value if isinstance(v, ast.Constant) else "X" for v in node.values]
            skipped.update(id(inner) for inner in ast.walk(node))
            yield node.lineno, "".join(map(str, pieces))
        elif isinstance(node, ast.Constant) and id(node) not in skipped and " " in str(node.value):
            yield node.lineno, str(node.value)


def main() -> int:
    """Print all findings; return 1 if there are any."""
    found_at = [path for pattern in _PROSE + _PROGRAMS for path in sorted(ROOT.glob(pattern))]
    paths = [path for path in found_at if "_pb2" not in path.name]  # written by protoc
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    found = [line for file, text in texts.items() for line in findings(file, text)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
