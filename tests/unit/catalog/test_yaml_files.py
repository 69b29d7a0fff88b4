"""YAML is read strictly: keys are text, and a date is the text that was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lagbench.catalog.kubernetes_files import parse_objects, typed_objects
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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", False),
        ("on", True),
        ("Y", True),
        ("yEs", "yEs"),
        ('"no"', "no"),
        ("!!str no", "no"),
        ("10:30", "10:30"),
        ("=", "="),
        ("1\t# a comment", 1),
        ("\t1", 1),
        ("010", 8),
        ("0o10", 8),
        ("0o8", "0o8"),
        ("09", 9),
        ("0b11", 3),
        ("0x1F", 31),
        ("1_000", 1000),
        ("_1", "_1"),
        ("1e3", 1000),
        ("1.2e1", 12),
        ("12.0", 12),
        ("0.5", 0.5),
        ("1e400", "1e400"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
    ],
)
def test_a_scalar_is_what_kubectl_makes_of_it(text: str, value: Any) -> None:
    """Booleans and numbers of YAML 1.1, without its dates and its base 60."""
    (found,) = parse_objects(f"a: {text}", where="f")

    assert (found["a"], type(found["a"])) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "key"), [("no", "false"), ("010", "8"), ("1.0", "1"), ("x", "x"), ('"no"', "no")]
)
def test_a_key_is_the_text_of_its_value(text: str, key: str) -> None:
    """A label named no is named false."""
    assert parse_objects(f"{text}: 1", where="f") == [{key: 1}]


@pytest.mark.parametrize("text", ["a: .inf", "~: 1", "\ta: 1", "a: 1\na: 2"])
def test_what_kubectl_does_not_read_is_one_message(text: str) -> None:
    """An infinite number, a key of nothing, an indentation by tab, a key twice."""
    with pytest.raises(WrongInput, match="f: line"):
        parse_objects(text, where="f")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("{kind: List, items: [{kind: A}, {kind: B}]}", ["A", "B"]),
        ("{kind: ScaledObjectList, apiVersion: v, items: [{spec: 1}]}", ["ScaledObject"]),
        ("{kind: List, items: [{kind: List, items: [{kind: A}]}]}", ["A"]),
        ("kind: List\n---\nkind: A", ["A"]),
        ('{\n\t"kind": "A"\n}', ["A"]),
    ],
)
def test_the_items_of_a_list_are_objects(text: str, kinds: list[str]) -> None:
    """As kubectl get -o yaml or -o json writes them."""
    assert [item["kind"] for item in parse_objects(text, where="f")] == kinds


CONTAINER = "spec.template.spec.containers[0]"
GRACE = "spec.template.spec.terminationGracePeriodSeconds"

FILE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 45
      containers:
        - name: orders
          command: [python, x.py]
          ports: [{containerPort: 8080}]
          env: [{name: FLAG, value: ready}]
          readinessProbe: {httpGet: {port: 8080}}
          resources: {requests: {cpu: 0.5, memory: 1Gi}}
"""


def read(old: str, new: str) -> Any:
    """Return the Deployment after one change of its text."""
    assert old in FILE
    (found,) = typed_objects(
        parse_documents(FILE.replace(old, new, 1), where="own.yaml"), where="own.yaml"
    )
    return found


@pytest.mark.parametrize(
    ("old", "new", "place", "value", "allowed"),
    [
        ("ready", "true", f"{CONTAINER}.env[0].value", True, '"true"'),
        ("ready", "1000.0", f"{CONTAINER}.env[0].value", 1000.0, '"1000.0"'),
        ("ready", "{a: b}", f"{CONTAINER}.env[0].value", "a mapping", "a text"),
        ("[{name: FLAG, value: ready}]", "{FLAG: a}", f"{CONTAINER}.env", "a mapping", "a list"),
        ("name: FLAG, ", "", f"{CONTAINER}.env[0].name", None, "required"),
        ("FLAG", "''", f"{CONTAINER}.env[0].name", None, "required"),
        ("FLAG", "A=B", f"{CONTAINER}.env[0].name", "A=B", "without ="),
        ("{name: FLAG, value: ready}", "null", f"{CONTAINER}.env[0].name", None, "required"),
        ("45", "60s", GRACE, "60s", "whole number"),
        ("45", "-1", GRACE, -1, "from 0 to"),
        ("45", "1.5", GRACE, 1.5, "whole number"),
        ("45", "true", GRACE, True, "whole number"),
        ("[{containerPort: 8080}]", "[8080]", f"{CONTAINER}.ports[0]", 8080, "containerPort"),
        ("containerPort: 8080", "name: a", f"{CONTAINER}.ports[0].containerPort", None, "requ"),
        ("Port: 8080", "Port: 70000", f"{CONTAINER}.ports[0].containerPort", 70000, "65535"),
        ("[python, x.py]", "python x.py", f"{CONTAINER}.command", "python x.py", '["python", "x'),
        ("x.py", "8080", f"{CONTAINER}.command[1]", 8080, '"8080"'),
        ("{port: 8080}", "{path: /}", f"{CONTAINER}.readinessProbe.httpGet.port", None, "requ"),
        ("1Gi", "much", f"{CONTAINER}.resources.requests.memory", "much", "quantity"),
        ("- name: orders", "- image: x", f"{CONTAINER}.name", None, "required"),
        ("name: orders}", "labels: {tier: 1}}", "metadata.labels.tier", 1, '"1"'),
        ("{name: orders}", "[]", "metadata", "a list", "a mapping"),
        ("  template:", "  temlate:", "spec.template", None, "required"),
        (
            "  template:",
            "  minReadySeconds: -1\n  template:",
            "spec.minReadySeconds",
            -1,
            "from 0 to",
        ),
        ("spec:\n", "spec:\n  strategy: a\n", "spec.strategy", "a", "a mapping of"),
        ("apps/v1", "extensions/v1beta1", "apiVersion", "extensions/v1beta1", "apps/v1"),
    ],
)
def test_a_field_of_another_type_is_named(
    old: str, new: str, place: str, value: object, allowed: str
) -> None:
    """Place, value and what is allowed: the API server would reject it, too."""
    with pytest.raises(WrongInput) as refused:
        read(old, new)

    assert (refused.value.where, refused.value.field) == ("own.yaml", place)
    assert refused.value.value == value
    assert allowed in refused.value.allowed


def test_nulls_are_not_given_and_whole_numbers_are_whole() -> None:
    """As the API server reads them; a null in a list of texts is the empty text."""
    found = read("ready", "null")["spec"]["template"]["spec"]
    assert found["containers"][0]["env"] == [{"name": "FLAG"}]
    assert read("x.py", "null")["spec"]["template"]["spec"]["containers"][0]["command"][1] == ""
    assert "terminationGracePeriodSeconds" not in read("45", "null")["spec"]["template"]["spec"]
    assert read("45", "45.0")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 45


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (FILE.replace("FLAG", "DB_PASSWORD").replace("ready", "4711"), f"{CONTAINER}.env[0].value"),
        ("{apiVersion: v1, kind: Secret, stringData: {pin: 4711}}", "stringData.pin"),
    ],
)
def test_what_may_be_a_secret_is_not_shown(text: str, place: str) -> None:
    """The message has its type."""
    with pytest.raises(WrongInput) as refused:
        typed_objects(parse_documents(text, where="f"), where="f")

    assert refused.value.field == place
    assert "4711" not in str(refused.value)


def test_other_documents_stay_as_they_are() -> None:
    """What is no workload, ConfigMap or Secret is read elsewhere."""
    documents = [{"kind": "ScaledObject", "spec": 1}, "text", {"kind": ["Deployment"]}]

    assert typed_objects(documents, where="f") == documents


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_right_workload_stays_as_it_is(kind: str) -> None:
    """A field more, such as serviceName of a Deployment, is refused by a server-side apply."""
    documents = parse_documents(FILE.replace("Deployment", kind), where="f")

    assert typed_objects(documents, where="f") == documents
