"""Openings built from the files an operator keeps: the contract takes every one of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from repops.chunks import chunk_at_byte, chunk_of
from repops.commitments import DTYPE_CODES, state_root
from repops.files import parse_state, state_bytes
from tests.contracts.availability_driver import STRANGERS, deployed_fixture, job_fixture  # noqa: F401
from tests.contracts.protocol_double import AGGREGATION, JOB, changed, claim_hash
from tests.support.openings import update_opening as expected_opening
from zoo_compute.disputes.openings import checkpoint_opening, update_opening
from zoo_compute.formats.bundles import Bundle, SlotResult

# One leaf, a group, a group and a byte's worth, three groups of four, none: 11 tensors of 16 places.
SHAPES = {"scalar": (), "leaf": (64,), "group": (8, 128), "more": (1025,), "groups": (3, 1024), "none": (0, 4)}


def every_dtype() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    state = {name: rng.integers(0, 2, shape).astype("float32") for name, shape in SHAPES.items()}
    for dtype in DTYPE_CODES:
        state[f"of/{dtype}"] = rng.integers(0, 2, (9, 600)).astype(dtype)
    state["of/float32"][0, 0] = np.nan
    return state


def as_kept(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Through the file, as an operator's store gives it back."""
    return parse_state(state_bytes(state))


def as_struct(opening: object) -> tuple:
    return dataclasses.astuple(opening)  # type: ignore[call-overload]


def answered(job, claim, opening, lane: int = STRANGERS) -> bool:
    job.contract.answer(JOB, claim, lane, as_struct(opening), sender=job.watched.anyone)
    asked = job.contract.demands(JOB, claim_hash(claim), lane)
    return int(asked.demander, 16) == 0


@pytest.mark.parametrize("tensor", range(16))
def test_an_aggregations_state__has_an_opening_at_every_place_for_every_dtype(job, tensor: int):
    state = every_dtype()
    assert len(state) == 11
    claim = changed(job.claims[AGGREGATION], root=state_root(state))
    job.watched.set_claim(claim)
    for lane, group in zip((0, 1, 2, STRANGERS), (0, 2, 3, 2**40 - 1), strict=True):
        job.demand(AGGREGATION, lane, tensor=tensor + 16 * lane, group=group, claim=claim)
        opening = checkpoint_opening(chunk_of(as_kept(state), tensor + 16 * lane, group))
        assert answered(job, claim, opening, lane)
        assert bool(opening.head) == (tensor < 11)


@pytest.mark.parametrize(("seat", "slot"), [(0, 0), (0, 1), (0, 2), (1, 4), (2, 5)])
def test_a_slots_update__is_opened_under_the_bundle_of_its_seat(job, seat: int, slot: int):
    results = job.watched.results[seat]
    bundle = Bundle(JOB, 3, 1, tuple(_entry(result) for result in results))
    assert bundle.root == job.claims[seat][7]
    update = results[slot - results[0].slot].update
    for lane, tensor, group in ((AGGREGATION, 0, 4), (STRANGERS, 1, 0)):
        job.demand(seat, lane, slot=slot, tensor=tensor, group=group)
        opening = update_opening(bundle, slot, chunk_of(as_kept(update), tensor, group))
        assert answered(job, job.claims[seat], opening, lane)
        assert as_struct(opening) == expected_opening(results, slot - results[0].slot, tensor, group)


def test_a_state_of_one_tensor__has_no_path():
    opening = checkpoint_opening(chunk_of({"one": np.zeros(3, np.float32)}, 2**32 - 1, 2**40 - 1))
    assert (opening.state_path, opening.tensor_path, opening.chunk) == ((), (), bytes(12))


@pytest.mark.parametrize(
    ("offset", "place"), [(0, (0, 0)), (4095, (0, 0)), (4096, (0, 1)), (12_287, (0, 2)), (12_288, (2, 0))]
)
def test_a_byte_of_a_file__lies_in_one_tensor_and_group(offset: int, place: tuple[int, int]):
    shapes = {"c": (5,), "a": (3, 1024), "b": (0, 4)}
    assert chunk_at_byte(shapes, offset) == place
    with pytest.raises(ValueError, match="behind"):
        chunk_at_byte(shapes, 4 * (5 + 3072))


def _entry(result) -> SlotResult:
    roots = (result.start_root, result.segment_root, result.end_root, result.update_root)
    return SlotResult(result.slot, "cid", *roots, (1.0, 0.5), 0.1)
