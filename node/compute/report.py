"""A worker's report to its keeper: one JSON object per slot-round, of the same size however many steps it has. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from zoo_compute.json_codec import finite_or_none
from zoo_compute.training.rounds import tokens_of

if TYPE_CHECKING:
    from node.compute.programs import Programs
    from node.compute.training import ShardResult
    from zoo_compute.formats.manifest import Manifest


@dataclass(frozen=True)
class ShardReport:
    """A finished slot-round. Roots in hex; update: CID of the stored update; loss: of the first and the last step, null where it was skipped, and of a map;
    private: CID of the private state that the slot's next round goes on with, kept on this machine alone; null where nothing is carried;
    skipped: how many were (not finite, or an index out of range), which is paid all the same.

    seconds: spent in inner steps; wall_s: of the whole slot-round, with fetching, checking, hashing and storing.
    """

    job: int
    round: int
    slot: int
    update: str
    start_root: str
    segment_root: str
    end_root: str
    update_root: str
    loss: list[float | None]
    skipped: int
    tokens: int
    seconds: float
    wall_s: float
    device: str
    private: str | None = None
    version: int = 1

    @classmethod
    def of(
        cls,
        request: Mapping[str, Any],
        manifest: Manifest,
        programs: Programs,
        result: ShardResult,
        *,
        update: str,
        private: str | None,
        wall_s: float,
    ) -> ShardReport:
        losses = [None, None] if manifest.is_map else [result.losses[0], result.losses[-1]]
        return cls(
            job=request["job"],
            round=result.round,
            slot=result.slot,
            update=update,
            start_root=result.start_root.hex(),
            segment_root=result.segment_root.hex(),
            end_root=result.end_root.hex(),
            update_root=result.update_root.hex(),
            loss=[None if loss is None else finite_or_none(loss) for loss in losses],
            skipped=result.skipped,
            tokens=manifest.inner_steps * tokens_of(programs.graph, manifest.batch_size),
            seconds=result.seconds,
            wall_s=wall_s,
            device=str(programs.device),
            private=private,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
