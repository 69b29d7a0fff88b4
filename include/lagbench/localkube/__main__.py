"""Run localkube in the foreground: ``python -m lagbench.localkube --state-dir DIR [--port N]``."""

import sys

from lagbench.localkube.server import main

if __name__ == "__main__":
    sys.exit(main())
