"""Run the consumer under test on Spark: the driver of ``consumer.kind: spark``.

``python -m enrich_stream --help`` lists the flags; the pod of the driver runs it.
"""

from __future__ import annotations

import sys

from lagbench_enrich.driver import main

if __name__ == "__main__":
    sys.exit(main())
