"""Tags for pinned files: all files of a job or of one of its rounds can be released together."""

from __future__ import annotations

import re


def job_tag(job: int) -> str:
    """The tag of a job's own files (manifest, program, data, initial state), of bundles, and of checkpoints that outlive their round."""
    return f"job-{job}"


def round_tag(job: int, round_: int) -> str:
    """The tag of a round's updates, its slots' private state, and the checkpoint it starts from."""
    return f"job-{job}-round-{round_}"


def parse_tag(tag: str) -> tuple[int, int | None] | None:
    """Job and round of a tag, None as the round of a job's; None if it is neither."""
    match = re.fullmatch(r"job-(\d+)(?:-round-(\d+))?", tag)
    return (int(match[1]), None if match[2] is None else int(match[2])) if match else None
