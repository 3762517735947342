"""An operator's gateway, with metrics: `python -m keepers.processes.gateway --root DIR`, normally run by the daemon. It has no keys."""

from __future__ import annotations

import sys

from keepers.monitoring import metrics
from keepers.monitoring.logs import configure_logging
from keepers.monitoring.server import serve_daemon
from zoo_compute.store import gateway


def count(status: int, size: int) -> None:
    metrics.ANSWERS.labels(str(status)).inc()
    metrics.SENT.inc(size)


def main() -> int:
    configure_logging()
    serve_daemon(metrics.GATEWAY, lambda: {"ok": True})
    return gateway.main(count)


if __name__ == "__main__":
    sys.exit(main())
