"""What a map job has made, and of a rendering the picture, as it grows: from outputs that are final, checked against the chain."""

from __future__ import annotations

import time
from collections.abc import Callable

from repops.files import FileRefused
from repops.graph import OUTPUTS
from zoo_compute.chain.views import JobView
from zoo_compute.client.outputs import Outputs
from zoo_compute.client.results import load_checkpoint
from zoo_compute.dashboard.views import MapLook, PictureLook
from zoo_compute.errors import UserError
from zoo_compute.rendering.layout import ENTRY, Layout
from zoo_compute.rendering.pictures import Picture, png
from zoo_compute.store import Store
from zoo_compute.store.errors import StoreError

MOST_PIXELS = 1 << 22  # of a picture that a page shows
RETRY_S = 30.0  # to wait for outputs that nobody had
MOST_STATE = 1 << 20  # words of a renderer's tensors, which are fetched to know what it renders


class MappedJob:
    """Raises UserError for a job that trains. picture: the newest frame as PNG, as far as it is final; empty without one."""

    def __init__(self, view: JobView, store: Store) -> None:
        self._store, self._outputs = store, Outputs(view, store)
        self._layout = self._layout_of(view)
        self._frame, self._rounds = -1, 0  # frame: the one that is drawn; rounds: those that are in it or before it
        self._drawn: Picture | None = None
        self._again_at = 0.0
        self.picture = b""

    @property
    def _round_items(self) -> int:
        manifest = self._outputs.manifest
        return manifest.slots * manifest.inner_steps * manifest.batch_size

    def look(self, final_rounds: int, read: Callable[[], JobView]) -> MapLook:
        """Fetches what became final of the newest frame. A frame whose outputs nobody has now is drawn later. read: the job."""
        final = min(self._outputs.items, final_rounds * self._round_items)
        if self._layout is not None and self._rounds < final_rounds and time.monotonic() >= self._again_at:
            try:
                self._draw(read(), self._layout, final)
            except (StoreError, UserError):
                self._again_at = time.monotonic() + RETRY_S
        return MapLook(self._outputs.items, final, self._picture_look())

    def _picture_look(self) -> PictureLook | None:
        layout, drawn = self._layout, self._drawn
        if layout is None or drawn is None:
            return None
        return PictureLook(
            layout.width,
            layout.height,
            self._frame,
            layout.first,
            layout.last,
            drawn.passes,
            layout.passes,
            self._rounds,
        )

    def _draw(self, view: JobView, layout: Layout, final: int) -> None:
        newest = layout.first + (final - 1) // layout.frame_items
        if newest != self._frame or self._drawn is None:
            self._frame, self._drawn = newest, Picture(layout)
            self._rounds = layout.items_of(newest).start // self._round_items
        final_rounds = -(-final // self._round_items)
        while self._rounds < final_rounds:
            made = self._outputs.of_round(view, self._rounds)
            own = layout.items_of(newest)
            first, last = max(own.start, made.first), min(own.stop, made.first + len(made.outputs[OUTPUTS]))
            rows = made.outputs[OUTPUTS][first - made.first : last - made.first]
            self._drawn.add(layout.items[first:last], rows)
            self._rounds += 1
        self.picture = png(self._drawn.pixels())

    def _layout_of(self, view: JobView) -> Layout | None:
        """Of a rendering that a page can show; None for any other map."""
        graph, nodes = self._outputs.graph, self._outputs.graph.nodes
        entries = {entry.name: nodes[entry.before].shape for entry in graph.state}
        tensors = [nodes[entry.before].elements for entry in graph.state if entry.name not in graph.outputs]
        if ENTRY not in entries or OUTPUTS not in entries or sum(tensors) > MOST_STATE:
            return None
        try:
            layout = Layout.read(load_checkpoint(view, self._store, 0)[ENTRY].reshape(-1).tolist())
        except (UserError, FileRefused, OverflowError, ValueError):
            return None
        fits = entries[OUTPUTS][1:] == (1, layout.across * layout.down, 3) and layout.count == self._outputs.items
        return layout if fits and layout.width * layout.height <= MOST_PIXELS else None
