"""Run localkube in the foreground: ``python -m localkube --state-dir DIR [--port N]``."""

import sys

from localkube.server import main

if __name__ == "__main__":
    sys.exit(main())
