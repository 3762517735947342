"""What does training over the network lose? Of a node's time (benchmarks/network/utilisation.py), and of the loss (benchmarks/training/loss_gap.py)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.network.efficiency import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
