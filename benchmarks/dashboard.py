"""How fast the dashboard answers with 10,000 jobs and 1,000 operators in its index."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.network.dashboard import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
