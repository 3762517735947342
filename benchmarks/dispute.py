"""What does a dispute cost? Lies about real programs, each played to its conviction by the contracts on anvil."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.disputes.dispute import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
