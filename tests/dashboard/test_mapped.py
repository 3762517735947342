"""What a map job's page shows: its items, and of a rendering the picture, which grows as rounds become final."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.dashboard.conftest import Filled
from tests.support import chain_events as made
from tests.support.rendering_job import LAYOUT, RenderedJob
from tests.support.scenes import few_steps as few_steps
from zoo_compute.dashboard import mapped as mapping
from zoo_compute.dashboard.mapped import MappedJob
from zoo_compute.dashboard.reading import Network, NoLooks, Reader
from zoo_compute.dashboard.server import application
from zoo_compute.dashboard.views import JobLook, MapLook, PictureLook
from zoo_compute.store import ContentMissing


@pytest.fixture
def rendered(tmp_path: Path, few_steps: None) -> RenderedJob:
    return RenderedJob(tmp_path)


def opaque(picture: bytes) -> float:
    """The share of pixels that are there."""
    with Image.open(io.BytesIO(picture)) as image:
        assert image.size == (LAYOUT.width, LAYOUT.height)
        return float(np.mean(np.asarray(image)[..., 3] == 255))


def test_a_picture__grows_as_rounds_become_final_and_the_newest_frame_is_shown(rendered: RenderedJob) -> None:
    job, rounds = MappedJob(rendered.view(), rendered.job.store), rendered.job.manifest.rounds
    assert job.look(0, rendered.view) == MapLook(LAYOUT.count, 0, None)
    assert job.picture == b""
    items = LAYOUT.count // rounds
    looks = {final: (job.look(final, rendered.view), job.picture) for final in range(1, rounds + 1)}
    for final, (look, picture) in looks.items():
        assert (look.items, look.final) == (LAYOUT.count, final * items)
        frame = 3 if final * items <= LAYOUT.frame_items else 4
        done = final * items - (frame - 3) * LAYOUT.frame_items
        assert look.picture == PictureLook(16, 8, frame, 3, 4, done // LAYOUT.tiles, LAYOUT.passes, final)
        assert opaque(picture) == min(1.0, done / LAYOUT.tiles)
    late = MappedJob(rendered.view(), rendered.job.store)
    fetched: list[int] = []
    of_round = late._outputs.of_round
    late._outputs.of_round = lambda view, number: fetched.append(number) or of_round(view, number)  # type: ignore[func-returns-value]
    late.look(rounds, rendered.view)
    assert late.picture == looks[rounds][1], "whoever looks later sees the same"
    assert fetched == [2, 3], "of the newest frame alone"


def test_outputs_that_nobody_has__are_waited_for(rendered: RenderedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job = MappedJob(rendered.view(), rendered.job.store)
    bundle, rendered.claims[0].bundle = rendered.claims[0].bundle, bytes(32)
    look = job.look(1, rendered.view)
    assert (look.final, look.picture is None or look.picture.passes, job.picture) == (LAYOUT.count // 4, 0, b"")
    with pytest.raises(ContentMissing):
        job._outputs.of_round(rendered.view(), 0)
    rendered.claims[0].bundle = bundle
    job.look(1, rendered.view)
    assert job.picture == b"", "not asked again at once"
    monkeypatch.setattr(mapping.time, "monotonic", lambda: 1e12)
    job.look(1, rendered.view)
    assert job.picture


def test_a_map_that_is_no_rendering__has_items_and_no_picture(tmp_path: Path) -> None:
    from tests.support.map_job import ITEMS, publish

    job = publish(tmp_path)
    root = bytes.fromhex(job.manifest.state.root)
    terms = type("Terms", (), {"manifest": job.manifest.digest})
    view: Any = type("View", (), {"job": 1, "terms": terms, "checkpoint_roots": {0: root}})
    look = MappedJob(view, job.store).look(1, lambda: view)
    assert look == MapLook(len(ITEMS), 40, None)


def test_a_picture_too_large_for_a_page__is_left_out(rendered: RenderedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "MOST_PIXELS", LAYOUT.width * LAYOUT.height - 1)
    assert MappedJob(rendered.view(), rendered.job.store).look(2, rendered.view).picture is None


class Looking(NoLooks):
    """At a map. picture_look: of a rendering."""

    def __init__(self, picture_look: PictureLook | None) -> None:
        self._picture_look = picture_look

    def want(self, name: str, type_: Any) -> Any:
        if type_ is not JobLook:
            return None
        return JobLook(1, "running", None, [], "slots", [], MapLook(1234, 617, self._picture_look))

    def picture(self, job: int) -> bytes:
        return b"png" if self._picture_look and job == 1 else b""


@pytest.mark.parametrize("with_picture", [True, False])
def test_the_page_of_a_map__shows_its_items_and_no_loss(filled: Filled, with_picture: bool) -> None:
    filled.append(made.whole_job(filled.chain, 1, [1, 2], 3, until=1))
    look = PictureLook(640, 360, 12, 1, 48, 3, 4, 47) if with_picture else None
    reader = Reader(filled.index, Network("testnet", 7, "devnet"), Looking(look))
    page = TestClient(application(reader), base_url="http://127.0.0.1")
    text = page.get("/jobs/1").text
    assert "617 of 1,234 items are final" in text
    assert "No loss" not in text
    assert "zoo job outputs 1 --out outputs.npz" in text
    assert ('src="/jobs/1/picture.png?rounds=47"' in text) == with_picture
    assert ("3 of 4 passes done" in text) == with_picture
    answer = page.get("/jobs/1/picture.png")
    assert answer.status_code == (200 if with_picture else 404)
    if with_picture:
        assert (answer.content, answer.headers["content-type"]) == (b"png", "image/png")
    assert page.get("/jobs/2/picture.png").status_code == 404
    assert page.get("/api/jobs/1").json()["look"]["map"]["items"] == 1234
