"""The pixel that the demo's liar lies about: its place in the job, its proof on chain, and how the picture would look with it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from node.compute.training import train_shard
from node.hardware import use_threads
from node.inputs.job_files import fetch_job, fetch_manifest
from repops.commitments import Array
from repops.graph import OUTPUTS
from zoo_compute.amounts import format_amount
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import scan
from zoo_compute.chain.views import JobView
from zoo_compute.client.dispute_transcript import Transcript
from zoo_compute.client.disputes import list_disputes
from zoo_compute.rendering.layout import Layout
from zoo_compute.rendering.pictures import Picture, developed, png
from zoo_compute.store import BlockStore, raw_cid

AROUND, ZOOM = 12, 12  # of the detail: pixels on each side of the false one, and how large each is drawn


@dataclass(frozen=True)
class Pixel:
    """One colour (channel) of a pixel of the first frame, in the pass that `round` computes; of its word one bit is false."""

    layout: Layout
    slots: int
    round: int
    x: int
    y: int
    channel: int
    bit: int

    @property
    def item(self) -> int:
        """The number of its item: the tile that it is in, in the pass of its round."""
        layout, steps = self.layout, self.layout.steps(self.slots)
        first = self.round * self.slots * steps
        tile = (self.y // layout.down) * (layout.width // layout.across) + self.x // layout.across
        return first + (tile - first) % layout.tiles

    @property
    def options(self) -> dict[str, Any]:
        """Of `tests.support.liars.lying_worker`."""
        layout, steps = self.layout, self.layout.steps(self.slots)
        slot, step = divmod(self.item - self.round * self.slots * steps, steps)
        place = (self.y % layout.down) * layout.across + self.x % layout.across
        element = (step * layout.across * layout.down + place) * 3 + self.channel
        return {
            "round": self.round, "slot": slot, "step": step, "entry": OUTPUTS, "element": element, "bit": self.bit,
        }  # fmt: skip


@dataclass(frozen=True)
class Proof:
    """What the contract judged. said, right: the committed number and the computed one; gas, slashed: in wei and as text."""

    operator: str
    dispute: str
    text: str
    said: float
    right: float
    step: int
    element: int
    gas: int
    slashed: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def proof_of(chain: Chain, view: JobView, names: Mapping[int, str], lie: Pixel) -> Proof | None:
    """The conviction for this pixel; None if there is none."""
    slashed = {
        event.tx: int(event.args["slashed"])
        for event in scan(chain, chain.network.first_block, view.block, names=("ClaimConvicted",))
    }
    for dispute in list_disputes(chain, chain.head(), view.job):
        transcript = Transcript(chain, dispute)
        detail = transcript.conviction
        if (
            detail is None
            or detail.refuted
            or (detail.step, detail.element) != (lie.options["step"], lie.options["element"])
        ):
            continue
        assert detail.committed is not None, "of a part that is computed wrongly"
        assert detail.right is not None, "of a part that is computed wrongly"
        said, right = (struct.unpack("<f", word.to_bytes(4, "little"))[0] for word in (detail.committed, detail.right))
        amount = sum(slashed.get(tx, 0) for tx in dispute.view.transactions)
        return Proof(
            operator=names[dispute.view.operator], dispute=dispute.name, text=detail.text, said=said, right=right, step=detail.step,
            element=lie.options["element"], gas=sum(transcript.gas.values()), slashed=format_amount(amount, places=4),
        )  # fmt: skip
    return None


def computed(view: JobView, store: BlockStore, layout: Layout) -> tuple[bytes, Picture]:
    """The first frame as this process renders it from the job's files alone: its PNG, and its light."""
    use_threads(1)
    manifest = fetch_manifest(store, raw_cid(view.terms.manifest))
    job = fetch_job(store, manifest)
    rows: list[Array] = []
    for round_ in range(manifest.rounds):
        for slot in range(manifest.slots):
            made = train_shard(manifest, job.programs, job.checkpoint, job.examples, round_, slot)
            rows.append(made.update[OUTPUTS].reshape(-1, layout.across * layout.down, 3))
    picture, items = Picture(layout), layout.items_of(layout.first)
    picture.add(layout.items[items.start : items.stop], np.concatenate(rows)[: len(items)])
    return png(picture.pixels()), picture


def zoomed(picture: Picture, lie: Pixel, proof: Proof) -> bytes:
    """Around the pixel: left as the liar's number makes it, right as it is."""
    true = picture.light
    false = true.copy()
    false[lie.y, lie.x, lie.channel] += (proof.said - proof.right) / lie.layout.passes
    rows, columns = (slice(at - AROUND, at + AROUND + 1) for at in (lie.y, lie.x))
    between = np.zeros((2 * AROUND + 1, 1, 3))
    light = np.concatenate([false[rows, columns], between, true[rows, columns]], axis=1)
    colours = developed(light).repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
    return png(np.concatenate([colours, np.full((*colours.shape[:2], 1), 255, np.uint8)], axis=-1))


def as_text(report: Mapping[str, Any]) -> str:
    lie = report["lie"]
    lines = ["", f"picture          {report['picture']}"]
    if lie is None:
        lines.append("NOBODY was convicted of the false pixel")
    else:
        lines += [
            f"the false pixel  {report['lie_picture']} (left as {lie['operator']} claimed it, right as it is)",
            "",
            f"{lie['operator']} is convicted by the contract in dispute {lie['dispute']} ({lie['gas']:,} gas), {lie['slashed']} slashed:",
            f"  {lie['text']}",
            f"rounds done again: {', '.join(map(str, report['done_again'])) or 'none'} (counted from 0)",
        ]
    equal = "equal, bit for bit" if report["pictures_equal"] else "NOT EQUAL"
    return "\n".join([*lines, f"own picture      {report['own_picture']}: {equal}", f"{report['seconds']:.0f} s"])
