"""What a commitment holds, made and checked (the records themselves: zoo_compute.formats.bundles). No torch: keepers use it too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from node.errors import BadInputs
from zoo_compute.formats.bundles import MAX_BUNDLE_BYTES, BadRecord, Bundle, SlotResult, round_root

__all__ = [
    "MAX_BUNDLE_BYTES",
    "Bundle",
    "SlotResult",
    "bundle_bytes",
    "parse_bundle",
    "result_of",
    "round_root",
    "verify_bundle",
]


def result_of(report: Mapping[str, Any]) -> SlotResult:
    """The bundle entry of a shard report (node.compute.report)."""
    return SlotResult.of_report(report)


def bundle_bytes(job: int, round: int, operator: int, results: Sequence[SlotResult]) -> bytes:
    """The bundle's canonical file, one raw block."""
    return Bundle(job, round, operator, tuple(results)).to_bytes()


def parse_bundle(data: bytes) -> Bundle:
    """Read a bundle that strangers wrote. Raises BadInputs."""
    try:
        return Bundle.from_bytes(data)
    except BadRecord as error:
        raise BadInputs(str(error)) from error


def verify_bundle(
    bundle: Bundle, *, job: int, round: int, operator: int, slots: Collection[int], root: bytes, start_root: bytes
) -> None:
    """Raises BadInputs unless the bundle is what the chain says was committed."""
    scope = (bundle.job, bundle.round, bundle.operator)
    if scope != (job, round, operator):
        raise BadInputs(f"bundle: is of job, round, operator {scope}, expected {(job, round, operator)}")
    if {result.slot for result in bundle.results} != set(slots):
        raise BadInputs(f"bundle: holds slots {[r.slot for r in bundle.results]}, committed were {sorted(slots)}")
    if bundle.root != root:
        raise BadInputs(f"bundle: its results make the root {bundle.root.hex()}, committed was {root.hex()}")
    for result in bundle.results:
        if result.start_root != start_root:
            raise BadInputs(f"bundle: slot {result.slot} starts from {result.start_root.hex()}, not {start_root.hex()}")
