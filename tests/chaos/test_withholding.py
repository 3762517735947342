"""Operators that commit and then withhold: jobs go on without them, or with what others compute anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keepers.processes.daemon import Daemon
from keepers.processes.local_network import LocalNetwork
from tests.support.withholding_jobs import PLANS, number_of, post, until
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, JobState

pytestmark = pytest.mark.chaos


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    with LocalNetwork(tmp_path_factory.mktemp("net"), PLANS) as network:
        yield network


@pytest.fixture
def alpha(network: LocalNetwork) -> Iterator[Daemon]:
    yield from _mended(network, "alpha")


@pytest.fixture
def delta(network: LocalNetwork) -> Iterator[Daemon]:
    yield from _mended(network, "delta")


def _mended(network: LocalNetwork, name: str) -> Iterator[Daemon]:
    """One operator's processes, which run again afterwards for the next test."""
    daemon = network.daemons[name]
    yield daemon
    for part in ("gateway", "keeper"):
        daemon.resume(part)
    network.wait_ready()


def test_a_job__goes_on_with_an_operator_that_answers_on_chain_and_serves_nothing(
    network: LocalNetwork, alpha: Daemon
) -> None:
    """alpha's store is cut off while its keeper answers: the aggregator computes alpha's slots anew."""
    job = post(network)
    until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
    alpha.kill("gateway", hold=True)
    view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
    assert view.completed_rounds == 1
    assert view.demands[0].end == "bytes"
    assert {claim.operator for claim in view.commits} == {number_of(network, "alpha")}
    assert not any(claim.state == ClaimState.CONVICTED for claim in view.claims)


def test_a_job__goes_on_without_an_operator_that_commits_and_then_is_silent(
    network: LocalNetwork, alpha: Daemon
) -> None:
    """alpha's store and keeper end as soon as it has committed; beta is a standby and takes its seat."""
    job, number = post(network), number_of(network, "alpha")
    until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
    alpha.kill("gateway", hold=True)
    until(network, job, "alpha's commitment", lambda v: any(c.operator == number for c in v.commits))
    alpha.kill("keeper", hold=True)
    view = until(network, job, "the end of the claim", lambda v: any(d.end == "convicted" for d in v.demands))
    demand = view.demands[-1]
    assert (demand.lane, demand.claim.operator, demand.holds) == (AGGREGATOR_SEAT, number, True)
    view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
    assert view.completed_rounds == 1
    assert [c.operator for c in view.claims if c.state == ClaimState.CONVICTED] == [number]
    assert {c.operator for c in view.committed(0).values()} == {number_of(network, "beta")}


def test_a_checkpoint_that_is_withheld__is_demanded_by_who_trains_from_it_and_made_again_by_another(
    network: LocalNetwork, delta: Daemon
) -> None:
    """delta's store and keeper end as soon as it has aggregated; beta is its standby."""
    job, number = post(network, rounds=3), number_of(network, "delta")
    until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
    delta.kill("gateway", hold=True)
    until(network, job, "delta's checkpoint", lambda v: v.checkpoints)
    delta.kill("keeper", hold=True)
    view = until(network, job, "a checkpoint of another", lambda v: len(v.checkpoints) > 1)
    [demand] = [demand for demand in view.demands if demand.end == "convicted"]
    assert (demand.lane, demand.claim.operator, demand.claim.seat) == (0, number, AGGREGATOR_SEAT)
    first, again = view.checkpoints
    assert (first.state, first.round, again.round) == (ClaimState.CONVICTED, 0, 0)
    assert again.operator == number_of(network, "beta")
    assert again.root == first.root, "nothing was false: the same round gives the same checkpoint"


def test_a_checkpoint_of_a_delayed_job__is_demanded_a_turn_before_slots_start_from_it(
    network: LocalNetwork, delta: Daemon
) -> None:
    """Were it demanded when their turn begins, its claim would be final by then."""
    job, number = post(network, rounds=3, delay=1), number_of(network, "delta")
    until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
    delta.kill("gateway", hold=True)
    until(network, job, "delta's checkpoint", lambda v: v.checkpoints)
    delta.kill("keeper", hold=True)
    view = until(network, job, "a checkpoint of another", lambda v: len(v.checkpoints) > 1)
    [demand] = [demand for demand in view.demands if demand.end == "convicted"]
    assert (demand.lane, demand.claim.operator, demand.claim.seat) == (0, number, AGGREGATOR_SEAT)
    first, again = view.checkpoints
    assert (again.turn, again.round, again.operator) == (2, 0, number_of(network, "beta"))
    assert {c.start_root for c in view.commits if c.turn == 1} == {first.start_root}, "it was not needed yet"
    assert again.root == first.root
