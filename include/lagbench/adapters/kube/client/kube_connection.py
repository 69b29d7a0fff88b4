"""Log in to a Kubernetes API, and read from it what the dynamic client would parse too slowly."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagbench.errors import NotReady

if TYPE_CHECKING:
    from kubernetes.client import ApiClient
    from urllib3 import Retry


def log_in(
    kubeconfig: Path | str | None = None,
    *,
    context: str | None = None,
    is_in_cluster: bool = False,
    retries: Retry | int,
    pool_size: int | None = None,
    advice: str,
) -> ApiClient:
    """Return a client of the API server that a kubeconfig names (None: where kubectl looks).

    The library's default configuration, which all threads share, stays as it is.

    :param is_in_cluster: use the pod's service account instead.
    :param pool_size: connections that are kept open; None: the library's default.
    :param advice: ends the error text: the next step for the user.
    :raises NotReady: the kubeconfig or the account cannot be used.
    """
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        if is_in_cluster:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(
                config_file=None if kubeconfig is None else str(kubeconfig),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
    except (config.ConfigException, OSError) as error:
        place = kubeconfig or ("(in-cluster)" if is_in_cluster else "(default)")
        raise NotReady(f"the kubeconfig {place} cannot be used: {error}. {advice}") from error
    configuration.retries = retries
    if pool_size is not None:
        configuration.connection_pool_maxsize = pool_size
    return client.ApiClient(configuration)


def known_contexts(kubeconfig: Path | str | None, *, advice: str) -> dict[str, str | None]:
    """Return the contexts of a kubeconfig (None: where kubectl looks) with their namespaces.

    :param advice: ends the error text: the next step for the user.
    :raises NotReady: the kubeconfig cannot be used.
    """
    merged = _merged(kubeconfig, advice)
    known = [node.value for node in merged["contexts"]]
    return {item["name"]: (item.get("context") or {}).get("namespace") for item in known}


def written_token(
    kubeconfig: Path | str | None, context: str | None = None, *, advice: str
) -> str | None:
    """Return the token that a kubeconfig has for a context; None: it logs in by another way.

    Tokens of a plugin or of a file are left out: both are renewed.

    :param context: None: the current one.
    :param advice: ends the error text: the next step for the user.
    :raises NotReady: the kubeconfig cannot be used.
    """
    merged = _merged(kubeconfig, advice)
    context = context or merged.safe_get("current-context")
    used = _entry(merged, "contexts", context).get("context") or {}
    user = _entry(merged, "users", used.get("user")).get("user") or {}
    token = user.get("token")
    return None if not token or user.get("tokenFile") else str(token)


def _entry(merged: Any, kind: str, name: str | None) -> Mapping[str, Any]:
    """Return the entry of that name in a list of a kubeconfig; empty: there is none."""
    known = [node.value for node in merged.safe_get(kind) or ()]
    return next((item for item in known if item["name"] == name), {})


def _merged(kubeconfig: Path | str | None, advice: str) -> Any:
    import yaml
    from kubernetes.config import ConfigException, kube_config

    place = str(kubeconfig or kube_config.KUBE_CONFIG_DEFAULT_LOCATION)
    try:
        # list_kube_config_contexts rejects a kubeconfig without a current context
        merged = kube_config.KubeConfigMerger(place).config
    except (ConfigException, OSError, yaml.YAMLError) as error:
        raise NotReady(f"the kubeconfig {place} cannot be used: {error}. {advice}") from error
    if merged is None:
        raise NotReady(f"there is no kubeconfig {place}. {advice}")
    return merged


def get(
    api_client: ApiClient,
    path: str,
    *,
    timeout_seconds: float | tuple[float, float],
    query: Mapping[str, object] | None = None,
) -> Any:
    """Return the answer to a GET with its body unread, as urllib3 has it."""
    return api_client.call_api(
        path,
        "GET",
        query_params=list((query or {}).items()),
        header_params={"Accept": "application/json"},
        auth_settings=["BearerToken"],
        _preload_content=False,
        _return_http_data_only=True,
        _request_timeout=timeout_seconds,
    )


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

_ESCAPED = re.compile(r"\\(.)")


def warnings_of(headers: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of headers ``Warning``, in their order; several may be in one header.

    The API server writes ``299 - "TEXT"`` (RFC 7234, section 5.5), with quotes and backslashes
    escaped.
    """
    found = (text for header in headers for text in _WARNING.findall(header))
    return tuple(_ESCAPED.sub(r"\1", text) for text in found)
