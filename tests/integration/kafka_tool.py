"""Apache Kafka's own command-line classes, to check the bench against them."""

from __future__ import annotations

import subprocess

from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import find_java

TOOLS = {
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
}


def kafka_tool(tool: str, *arguments: str) -> str:
    """Return what ``tool`` prints."""
    class_path = ":".join(str(jar) for jar in jar_paths(BROKER))
    # Without a configuration log4j prints only errors, as a tool should.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=error"]
    command = [str(find_java().executable), *options, "-cp", class_path, TOOLS[tool], *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
