"""Tags for pinned files: all files of a round can be released together."""

from __future__ import annotations

import re


def round_tag(job: int, round_: int) -> str:
    """The tag of a round's updates, its slots' private state, and the checkpoint it starts from."""
    return f"job-{job}-round-{round_}"


def parse_round_tag(tag: str) -> tuple[int, int] | None:
    """Job and round of a tag; None if it is not a round's tag."""
    match = re.fullmatch(r"job-(\d+)-round-(\d+)", tag)
    return (int(match[1]), int(match[2])) if match else None
