"""The ``lagbench`` command: use the bench without knowledge of Airflow."""

import sys


def main() -> None:
    """Run the command; Ctrl-C ends it with one word also while its modules are imported."""
    try:
        from lagbench.cli.app import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(130)
