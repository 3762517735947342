"""What a keeper asks of its RPC and its machine: catching up, starting again, and waiting."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.network.keepers import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
