"""A real broker with two more listeners: TLS with SCRAM and client certificates, and SASL PLAIN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.integration.certificates import Authority

from lagbench.embedded import broker as broker_module
from lagbench.embedded.broker import Broker, BrokerLayout, server_properties
from lagbench.embedded.child_server import free_port

USER, PASSWORD = "alice", "open-sesame-4711"
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecuredBroker:
    """A running broker, its addresses, and what a client needs for the TLS one."""

    broker: Broker
    tls_servers: str
    sasl_servers: str
    client_pem: dict[str, str]

    def tls_settings(self, folder: Path) -> dict[str, str]:
        """Write the client's PEM files into ``folder``; return librdkafka's settings with them."""
        for name, text in self.client_pem.items():
            (folder / f"{name}.pem").write_text(text)
        return self.settings_with_files_in(folder)

    def settings_with_files_in(self, folder: Path) -> dict[str, str]:
        """Return librdkafka's settings for a client whose PEM files are in ``folder``."""
        return {
            "bootstrap.servers": self.tls_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(folder / "ca.pem"),
            "ssl.certificate.location": str(folder / "cert.pem"),
            "ssl.key.location": str(folder / "key.pem"),
            "ssl.endpoint.identification.algorithm": "none",
        }


@contextmanager
def secured_broker(
    folder: Path, *, has_acls: bool = False, host: str = "127.0.0.1"
) -> Iterator[SecuredBroker]:
    """Run the broker for the time of the block, at the address ``host``.

    With ``has_acls`` it has KRaft's authorizer: ``USER`` may do nothing until a rule allows it,
    and everybody on the plain listener may do everything.
    """
    folder.mkdir(parents=True)
    authority = Authority()
    own, client = authority.issue("broker", host), authority.issue("client")
    keystore, truststore = folder / "broker.pem", folder / "authority.pem"
    keystore.write_text(own.private_key + own.certificate)
    truststore.write_text(authority.certificate)
    tls_port = free_port()
    tls, sasl = f"{host}:{tls_port}", f"{host}:{free_port(besides={tls_port})}"
    more: dict[str, Any] = {
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": keystore,
        "listener.name.tls.ssl.truststore.type": "PEM",
        "listener.name.tls.ssl.truststore.location": truststore,
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.tls.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.tls.scram-sha-512.sasl.jaas.config": (
            f"{_MODULES}.scram.ScramLoginModule required;"
        ),
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
    }

    if has_acls:
        more |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def with_listeners(layout: BrokerLayout, **addresses: Any) -> str:
        lines = server_properties(layout, **addresses).splitlines()
        added = {
            "listeners": f",TLS://{tls},SASL://{sasl}",
            "advertised.listeners": f",TLS://{tls},SASL://{sasl}",
            "listener.security.protocol.map": ",TLS:SASL_SSL,SASL:SASL_PLAINTEXT",
        }
        lines = [line + added.get(line.split("=")[0], "") for line in lines]
        lines += [f"{name}={value}" for name, value in more.items()]
        return "\n".join(lines) + "\n"

    running = Broker(folder / "broker", host=host)
    with patch.object(broker_module, "server_properties", with_listeners):
        running.start()
    try:
        _add_scram_user(running.bootstrap_servers)
        pem = {"ca": authority.certificate, "cert": client.certificate, "key": client.private_key}
        yield SecuredBroker(running, tls, sasl, pem)
    finally:
        running.stop()


def _add_scram_user(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    admin.alter_user_scram_credentials([change])[USER].result(60)
