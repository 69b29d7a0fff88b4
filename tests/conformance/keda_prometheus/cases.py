"""The cases that KEDA's prometheus scaler is asked: metadata, and what the server answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

GOOD = {"serverAddress": "$SERVER", "query": "sum(lag)", "threshold": "100"}
STRICT = {**GOOD, "ignoreNullValues": "false"}
OK = 200
# Past the operator's three seconds for an HTTP request.
TOO_LATE_MS = 3_500


def vector(*values: object) -> str:
    """Return an answer of Prometheus with one series for each value, of one instant."""
    result = [{"metric": {}, "value": [1767571200.123, value]} for value in values]
    return _answer({"resultType": "vector", "result": result})


def _answer(data: Mapping[str, Any]) -> str:
    return json.dumps({"status": "success", "data": data})


def _parsing() -> Iterator[dict[str, Any]]:
    """Yield metadata and secrets that the scaler is built from, good and bad."""
    for name in GOOD:
        yield {
            "name": f"parse: no {name}",
            "metadata": {key: value for key, value in GOOD.items() if key != name},
        }
        yield {"name": f"parse: blank {name}", "metadata": {**GOOD, name: "  "}}
    yield {"name": "parse: nothing", "metadata": {}}
    numbers = ("one", "0", "-5", "0.5", "1e3", "+1", "1.", "01", "1e400", "null", "true", '"1"')
    for field in ("threshold", "activationThreshold"):
        for value in (
            *numbers,
            "0.0004",
            "NaN",
            "nul",
            "fal",
            "1 2",
            "[1]",
            "12x",
            "-",
            "1e",
            "0x10",
            "{",
        ):
            yield {"name": f"parse: {field} {value}", "metadata": {**GOOD, field: value}}
    for value in ("xxxx", "0", "T", "False"):
        metadata = {**GOOD, "ignoreNullValues": value}
        yield {"name": f"parse: ignoreNullValues {value}", "metadata": metadata}
    for value in ("true", "yes"):
        yield {"name": f"parse: unsafeSsl {value}", "metadata": {**GOOD, "unsafeSsl": value}}
    durations = (
        "1000",
        "2s",
        "1m30s",
        "0",
        "0.5h2ms",
        "1us",
        ".5s",
        "-1",
        "-2s",
        "a",
        "1.5",
        "5 s",
    )
    for value in durations:
        yield {"name": f"parse: timeout {value}", "metadata": {**GOOD, "timeout": value}}
    maps = ("a=1,b=2", "a=1,b", "a=1,", "a==1", " a = 1 , b=", "=1", "a=1,a=2", "a=x y&z")
    for field in ("customHeaders", "queryParameters"):
        for value in maps:
            yield {"name": f"parse: {field} {value}", "metadata": {**GOOD, field: value}}
    yield {"name": "parse: namespace", "metadata": {**GOOD, "namespace": "team-a"}}
    yield {"name": "parse: unknown key", "metadata": {**GOOD, "metricName": "lag"}}
    yield {"name": "parse: from env", "metadata": {**GOOD, "query": "", "queryFromEnv": "QUERY"}}
    yield {"name": "parse: padded", "metadata": {k: f" {v} " for k, v in GOOD.items()}}
    yield {
        "name": "parse: several wrong",
        "metadata": {"threshold": "x", "ignoreNullValues": "x", "timeout": "x", "unsafeSsl": "x"},
    }
    for kind in ("AverageValue", "Value", "Utilization", "Average"):
        yield {"name": f"parse: metricType {kind}", "metadata": GOOD, "metricType": kind}
    yield {"name": "parse: third trigger", "metadata": GOOD, "index": 2}
    yield from _logins()


def _logins() -> Iterator[dict[str, Any]]:
    secrets = {
        "bearer": {"bearerToken": "token"},
        "basic": {"username": "user", "password": "word"},
        "custom": {"customAuthHeader": "X-Key", "customAuthValue": "value"},
        "apiKey": {"apiKey": "key"},
        "tls": {"cert": "no certificate", "key": "no key"},
        "oauth": {"oauthTokenURI": "http://127.0.0.1:1/token", "clientID": "client"},
    }
    for mode, auth in secrets.items():
        metadata = {**GOOD, "authModes": mode}
        yield {"name": f"login: {mode}", "metadata": metadata, "auth": auth}
        yield {"name": f"login: {mode}, no secret", "metadata": metadata}
        if mode == "basic":
            only_user = {"username": "user"}
            yield {"name": "login: basic, no password", "metadata": metadata, "auth": only_user}
    modes = ("none", "bearer,basic", "bearer, custom", "Bearer")
    everything = {key: value for auth in secrets.values() for key, value in auth.items()}
    for mode in modes:
        metadata = {**GOOD, "authModes": mode}
        yield {"name": f"login: {mode}", "metadata": metadata, "auth": everything}
    in_secret = {"authModes": "bearer", "bearerToken": "token"}
    yield {"name": "login: modes in the secret", "metadata": GOOD, "auth": in_secret}
    short = {"authMode": "bearer", "token": "token"}
    yield {"name": "login: short names", "metadata": GOOD, "auth": short}
    yield {"name": "login: secrets without a mode", "metadata": GOOD, "auth": secrets["bearer"]}


def _answers() -> Iterator[dict[str, Any]]:
    """Yield answers of the server, each with and without ``ignoreNullValues``."""
    value = "7"
    bodies = {
        "value": vector(value),
        "fraction": vector("0.0005"),
        "fraction up": vector("0.0015"),
        "large": vector("1.5e+07"),
        "huge": vector("1e+300"),
        "negative": vector("-3"),
        "zero": vector("0"),
        "hexadecimal": vector("0x1p4"),
        "underscore": vector("1_000"),
        "blank text": vector(""),
        "text": vector("seven"),
        "out of range": vector("1e400"),
        "null": vector(None),
        "number": vector(7),
        "boolean": vector(True),
        "list": vector([7]),
        "NaN": vector("NaN"),
        "+Inf": vector("+Inf"),
        "-Inf": vector("-Inf"),
        "Inf": vector("inf"),
        "two series": vector("1", "2"),
        "empty vector": _answer({"resultType": "vector", "result": []}),
        "result null": _answer({"resultType": "vector", "result": None}),
        "empty object": "{}",
        "data null": '{"status":"success","data":null}',
        "no value": _answer({"resultType": "vector", "result": [{"metric": {}}]}),
        "value null": _answer({"result": [{"value": None}]}),
        "empty value": _answer({"result": [{"value": []}]}),
        "one of two": _answer({"result": [{"value": [1]}]}),
        "three": _answer({"result": [{"value": [1, "7", "8"]}]}),
        "series null": _answer({"result": [None]}),
        "value text": _answer({"result": [{"value": "7"}]}),
        "scalar": _answer({"resultType": "scalar", "result": [1767571200, "7"]}),
        "matrix": _answer({"resultType": "matrix", "result": [{"values": [[1, "7"]]}]}),
        "string result": _answer({"resultType": "string", "result": "7"}),
        "labels": '{"data":{"result":[{"metric":{"a":"b"},"value":[1,"7"]}]}}',
        "metric text": '{"data":{"result":[{"metric":"m","value":[1,"7"]}]}}',
        "status error": '{"status":"error","errorType":"bad_data","error":"parse error"}',
        "other case": '{"DATA":{"Result":[{"VALUE":[1,"7"]}]}}',
        "key twice": '{"data":{"result":[]},"data":{"result":[{"value":[1,"7"]}]}}',
        "nothing": "",
        "html": "<html>login</html>",
        "cut off": '{"data":{"result":[',
        "list body": "[]",
        "null body": "null",
        "more behind": vector(value) + "x",
        "status number": '{"status":1,"data":{"result":[]}}',
    }
    for name, body in bodies.items():
        case = {"status": OK, "body": body}
        yield {"name": f"answer: {name}", "metadata": GOOD, **case}
        yield {"name": f"answer: {name}, strict", "metadata": STRICT, **case}
    for status in (200, 201, 204, 299, 300, 400, 401, 404, 422, 500, 503):
        case = {"status": status, "body": vector(value) if status != 204 else ""}
        yield {"name": f"answer: HTTP {status}", "metadata": GOOD, **case}


def _activity() -> Iterator[dict[str, Any]]:
    for threshold in ("0", "6.9", "7", "-1"):
        for value in ("7", "0", "-1", "0.0001", "NaN"):
            metadata = {**GOOD, "activationThreshold": threshold}
            yield {
                "name": f"active: {value} above {threshold}",
                "metadata": metadata,
                "status": OK,
                "body": vector(value),
            }
    metadata = {**GOOD, "activationThreshold": "-1"}
    body = _answer({"result": []})
    yield {"name": "active: empty above -1", "metadata": metadata, "status": OK, "body": body}


def _requests() -> Iterator[dict[str, Any]]:
    """Yield what the request holds beside the query."""
    case = {"status": OK, "body": vector("7")}
    written = {
        "path": {"serverAddress": "$SERVER/prefix"},
        "slash": {"serverAddress": "$SERVER/"},
        "query in address": {"serverAddress": "$SERVER/?x=1&y="},
        "escapes": {"query": 'sum(lag{a="b c",d=~"e|f+"}) / 2 % 3 & é # ?'},
        "several lines": {"query": "sum(\n  lag\n)"},
        "namespace": {"namespace": "team-a"},
        "namespace unescaped": {"namespace": "a&b=c"},
        "headers": {"customHeaders": "X-Scope-OrgID=tenant, x-other=1"},
        "parameters": {"queryParameters": "a=b c,dedup=true"},
        "parameter query": {"queryParameters": "query=other,time=1"},
        "ftp": {"serverAddress": "ftp://127.0.0.1:1"},
        "no scheme": {"serverAddress": "prometheus:9090"},
        "host alone": {"serverAddress": "prometheus"},
        "broken": {"serverAddress": "http://[::1"},
        "control": {"serverAddress": "http://a\u007fb"},
        "bad header": {"customHeaders": "a b=1"},
    }
    for name, metadata in written.items():
        yield {"name": f"request: {name}", "metadata": {**GOOD, **metadata}, **case}
    yield {"name": "request: down", "metadata": GOOD, "isDown": True}
    late = {**case, "delayMs": TOO_LATE_MS}
    yield {"name": "request: late", "metadata": GOOD, **late}
    patient = {**GOOD, "timeout": "10s"}
    yield {"name": "request: late with patience", "metadata": patient, **late}
    hasty = {**GOOD, "timeout": "200"}
    yield {"name": "request: hasty", "metadata": hasty, **case, "delayMs": 1000}


def all_cases() -> list[dict[str, Any]]:
    """Return every case in the order in which they are recorded."""
    asked = {"status": OK, "body": vector("7")}
    cases = (*_parsing(), *_answers(), *_activity(), *_requests())
    return [{**asked, **case} for case in cases]
