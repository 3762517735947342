"""The first message of a worker to a rank. Apart from `rank.py`, so that the worker need not load torch to send it."""

from __future__ import annotations

from dataclasses import dataclass

from repops.parallel.rank import RankPart


@dataclass(frozen=True)
class RankSetup:
    """rendezvous_file: where ranks find each other. timeout_s: how long they wait for each other."""

    part: RankPart
    ranks: int
    rendezvous_file: str
    timeout_s: float
    threads: int
