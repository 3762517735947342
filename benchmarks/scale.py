"""How far does it go? Networks up to 10,000 nodes and 65,536 shards: schedule, bytes of each level of a tree, gas of a shard."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.scaling.scale import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
