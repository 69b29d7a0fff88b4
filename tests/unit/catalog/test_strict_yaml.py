"""YAML is read strictly: keys are text, and a date is the text that was written."""

from pathlib import Path

import pytest

from lagbench.catalog.strict_yaml import parse_documents, parse_mapping, read_text
from lagbench.errors import WrongInput


@pytest.mark.parametrize("key", ["1", "2024-01-01", "true", "1.5", "on"])
def test_a_key_is_the_text_as_it_is_written(key: str) -> None:
    """A key that looks like a number, a date or a truth value is a text, as for kubectl."""
    assert parse_mapping(f"{key}: x\ninner: {{{key}: y}}", where="f") == {
        key: "x",
        "inner": {key: "y"},
    }


@pytest.mark.parametrize("text", ["? [a, b]\n: x", "? ~\n: x", "a: {~: x}"])
def test_a_key_without_a_text_is_refused_by_its_line(text: str) -> None:
    """A list as a key, and no key, are wrong input that names the line."""
    with pytest.raises(WrongInput, match="line 1 "):
        parse_mapping(text, where="f")


def test_a_merged_mapping_gives_its_keys() -> None:
    """Keys from a merge are keys of the mapping, and its own ones take precedence."""
    text = "base: &base {1: a, b: c}\nown: {<<: *base, b: d}"

    assert parse_mapping(text, where="f")["own"] == {"1": "a", "b": "d"}


def test_a_date_is_the_text_that_was_written() -> None:
    """YAML 1.2 has no dates: the value is shown as its author wrote it."""
    assert parse_mapping("at: 2024-01-01", where="f") == {"at": "2024-01-01"}


def test_a_merged_mapping_may_be_merged_into_a_third() -> None:
    """Its own keys take precedence there, too, however deep it is."""
    text = "base: &b {k: 1, l: 1}\nx: {y: &o {<<: *b, k: 2}}\nthird: {<<: *o, l: 3}"

    assert parse_mapping(text, where="f")["third"] == {"k": 2, "l": 3}


ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("a: " + "[" * 3000 + "]" * 3000, "100 deep"),
        ("- " * 3000 + "a", "100 deep"),
        ("? " * 3000, "100 deep"),
        ("\n".join(f"{' ' * depth}a:" for depth in range(500)), "100 deep"),
        (ALIASES, "at most 100,000"),
        (MERGES, "at most 100,000"),
        ("a: [" + "x," * 200_000 + "]", "at most 100,000"),
        ("a: &a [*a]", "inside of what it stands for"),
        ("a: &a {<<: *a}", "inside of what it stands for"),
        ("a: " + "x" * 2**20, "at most 1,048,576 bytes"),
        ("a: !!binary aGk=", "JSON"),
        ("a: !!timestamp 2024-01-01", "JSON"),
        ("a: !!set {x}", "JSON"),
        (r'a: "\ud800"', "surrogate"),
        (r'a: "\0"', "zero byte"),
        ("a: " + "9" * 5000, "digits"),
    ],
)
def test_a_text_beyond_a_limit_is_refused_with_the_limit(text: str, limit: str) -> None:
    """Neither a crash of the reader nor a file that takes all memory."""
    with pytest.raises(WrongInput, match=limit):
        parse_mapping(text, where="f")


def test_an_anchor_belongs_to_its_document() -> None:
    """The same name in the next document is another one."""
    assert parse_documents("a: &a [x]\nb: *a\n---\na: &a [y]\nb: *a", where="f") == [
        {"a": ["x"], "b": ["x"]},
        {"a": ["y"], "b": ["y"]},
    ]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (None, "file"),
        (b"\xff\xfea\x00", "file"),
        (b"\x80", "file"),
        (b"A=\0", "file"),
        (b"x" * (2**20 + 1), "size"),
    ],
)
def test_a_file_that_is_no_text_is_one_message(
    tmp_path: Path, content: bytes | None, field: str
) -> None:
    """A folder, UTF-16, other bytes, too many bytes."""
    path = tmp_path / "x.yaml"
    path.mkdir() if content is None else path.write_bytes(content)

    with pytest.raises(WrongInput) as refused:
        read_text(path)

    assert refused.value.field == field


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "a\0b", "/nowhere/x.yaml", "x" * 5000])
def test_a_path_without_a_file_is_one_message(path: str) -> None:
    """A device is never read: it may have no end."""
    with pytest.raises(WrongInput):
        read_text(Path(path))


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """Spreadsheets and editors of Windows write it."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xef\xbb\xbfsecond,rate\r\n")

    assert read_text(path) == "second,rate\r\n"
