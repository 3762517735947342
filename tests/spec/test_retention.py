"""What is kept of a job, and who makes up for a holder that left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo_compute.spec.params import DEVNET, PRODUCTION
from zoo_compute.spec.retention import SPARE_S, first_needed, outlives, repairers, spare_s

DOMAINS = st.dictionaries(st.integers(1, 40), st.integers(0, 5), min_size=1)


def test_every_so_many_checkpoints_and_the_last__outlive_the_job__the_initial_state_is_none_of_them():
    assert [n for n in range(8) if outlives(n, 3, None)] == [3, 6]
    assert [n for n in range(8) if outlives(n, 3, 7)] == [3, 6, 7]
    assert [n for n in range(4) if outlives(n, 1, None)] == [1, 2, 3]


def test_files_of_a_round__stay_an_hour_after_its_window__less_where_windows_are_of_seconds():
    assert spare_s(PRODUCTION.min_window_s) == SPARE_S == 3_600
    assert spare_s(DEVNET.min_window_s) == 60


@pytest.mark.parametrize(
    ("carry", "delay", "first"), [(1, 0, 6), (1, 1, 5), (4, 0, 3), (4, 1, 2), (7, 0, 6), (8, 0, -1)]
)
def test_a_claim_of_round_7__needs_what_it_goes_on_from(carry: int, delay: int, first: int):
    assert first_needed(7, carry, delay) == first


@given(DOMAINS, st.integers(0, 12), st.sets(st.integers(1, 40)), st.integers(1, 9))
def test_repairers__are_as_many_as_are_missing_and_none_who_keeps_it(
    domains: dict[int, int], count: int, keeping: set[int], job: int
):
    chosen = repairers(job, count, domains, keeping)
    left = set(domains) - keeping
    assert set(chosen) <= left
    assert len(set(chosen)) == len(chosen) == min(count, len(left))
    assert repairers(job, count, dict(reversed(domains.items())), sorted(keeping)) == chosen
    more = repairers(job, count + 1, domains, keeping)
    assert more[: len(chosen)] == chosen, "who was chosen stays so, however long that takes"


def test_repairers__are_on_other_machines_than_the_copies_that_are_left():
    assert set(repairers(1, 2, {1: 7, 2: 7, 3: 8, 4: 9}, [1])) == {3, 4}
    assert repairers(1, 1, {2: 7, 3: 8}, [99]) in [(2,), (3,)], (
        "one that keeps it and is none of them has no known machine"
    )


def test_repairers__differ_from_job_to_job():
    domains = dict.fromkeys(range(1, 20), 0)
    assert len({repairers(job, 1, domains, ()) for job in range(50)}) > 5
