"""What does training over the network cost, in a node's time and in the loss?"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.network.efficiency import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
