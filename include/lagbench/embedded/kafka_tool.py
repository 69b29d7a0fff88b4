"""Run one of Apache Kafka's own command-line classes, to check the bench against them.

``python -m lagbench.embedded.kafka_tool offsets --bootstrap-server HOST:PORT --topic T``
``python -m lagbench.embedded.kafka_tool groups --bootstrap-server HOST:PORT --describe --group G``
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import find_java
from lagbench.errors import LagbenchError, WrongInput

TOOLS = {
    "configs": "kafka.admin.ConfigCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "topics": "org.apache.kafka.tools.TopicCommand",
}


def tool_command(tool: str, *arguments: str) -> list[str]:
    """Return the command line that runs ``tool`` with ``arguments``."""
    if tool not in TOOLS:
        raise WrongInput(where="kafka_tool", field="tool", value=tool, allowed=", ".join(TOOLS))
    class_path = ":".join(str(jar) for jar in jar_paths(BROKER))
    # Without a configuration log4j prints only errors, as a tool should.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=error"]
    return [str(find_java().executable), *options, "-cp", class_path, TOOLS[tool], *arguments]


def main(arguments: Sequence[str]) -> NoReturn:
    """Exec the tool, or exit with the code of the error that prevents it."""
    try:
        command = tool_command(*(arguments or ("",)))
    except LagbenchError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(int(error.exit_code))
    os.execv(command[0], command)  # the tool's output and exit code are this command's own


if __name__ == "__main__":
    main(sys.argv[1:])
