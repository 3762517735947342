"""What does a served token cost beside eager torch, a voucher, a channel, an item of a map?"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.served.inference import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
