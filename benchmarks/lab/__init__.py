"""The network laboratory: hosts on one machine with shaped links, and faults that are counted.

    with laboratory({"a": link, "b": link}) as lab:
        server = lab.start("a", [python, "-m", ...])
        address, port = lab.endpoint("a", 8080, seen_from="b")

Two kinds behind one interface. `lab.kind` names the one in use; by default the better one that works:
  tun    each host a network namespace, a user-space switch between them (root, `ip`, /dev/net/tun)
  relay  hosts are processes on the loopback, a TCP relay between them (needs nothing)
"""

from benchmarks.lab.faults import Faults
from benchmarks.lab.laboratory import Laboratory, laboratory, tun_missing
from benchmarks.lab.link import Link

__all__ = ["Faults", "Laboratory", "Link", "laboratory", "tun_missing"]
