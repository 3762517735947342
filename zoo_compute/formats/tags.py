"""The tags under which a job's files are pinned: what a round needed is released together."""

from __future__ import annotations

import re


def round_tag(job: int, round_: int) -> str:
    """Of a round's updates, what its slots left, and the checkpoint that it starts from."""
    return f"job-{job}-round-{round_}"


def parse_round_tag(tag: str) -> tuple[int, int] | None:
    """Job and round of a tag; None where it is no round's."""
    match = re.fullmatch(r"job-(\d+)-round-(\d+)", tag)
    return (int(match[1]), int(match[2])) if match else None
