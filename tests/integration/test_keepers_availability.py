"""Demands for data on a local network: an honest keeper answers them by itself, and a job goes on without who withholds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keepers.daemon import Daemon
from keepers.localnet import LocalNetwork, OperatorPlan
from tests.integration.network_kit import TINY, submit
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, JobState, JobView
from zoo_compute.cli import main as cli
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import STRANGERS_LANE

pytestmark = pytest.mark.integration

PATIENCE_S = 90
PLANS = (
    OperatorPlan("alpha", price="0.80"),  # the cheapest: wins the slots of every job
    OperatorPlan("beta", roles=("provider", "aggregator"), price="0.90", aggregator_price="0.90"),
    # Patient enough for a test to end a keeper before it is asked.
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50", demand_after_s=5),
)


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


def post(network: LocalNetwork, seed: int, rounds: int = 1) -> int:
    """A job of two slots, whose claims stand open to demands for a minute."""
    training = TINY["training"] | {"rounds": rounds, "slots": 2, "quorum": 1, "inner_steps": 4, "seed": seed}
    return submit(
        network, TINY | {"training": training, "limits": {"slot_s": 30, "aggregate_s": 30, "reexecute_s": 20}}
    )


def number_of(network: LocalNetwork, name: str) -> int:
    return next(number for number, each in network.operators.items() if each == name)


def until(network: LocalNetwork, job: int, what: str, reached: Callable[[JobView], Any]) -> JobView:
    """The first view of which `reached` is true."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        network.poll()
        view = read_job(network.devnet.chain, job)
        if reached(view):
            return view
        assert time.monotonic() < deadline, f"{what} did not happen; {view.state!r}, logs in {network.folder}"
        time.sleep(0.2)


def test_demands_of_honest_operators_claims__are_answered_by_their_keepers_in_time(
    network: LocalNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = post(network, seed=1)
    view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
    chain, anyone = network.devnet.chain, network.devnet.account("anyone")
    sender = Sender(chain, anyone, folder=tmp_path)
    deposit = 2 * least_deposit(10**9)
    for claim in view.pending:
        slot = 0 if claim.seat == AGGREGATOR_SEAT else claim.scope >> 16
        call = chain.availability.demand(job, claim.fields, STRANGERS_LANE, slot, 2**32 - 1, 2**40 - 1)  # type: ignore[arg-type]
        sender.send(call, value=deposit)
    assert {claim.seat for claim in view.pending} == {0, AGGREGATOR_SEAT}
    view = until(network, job, "an answer to each", lambda v: len(v.demands) == 2 and all(d.end for d in v.demands))
    assert [demand.end for demand in view.demands] == ["bytes", "bytes"]
    assert not any(claim.state == ClaimState.CONVICTED for claim in view.claims)
    assert cli.run(["job", "demands", str(job), "--network", str(network.network_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["demands"]
    assert {each["demander"] for each in told} == {anyone.address}
    assert all(each["asked_at"] <= each["ended_at"] <= each["due"] for each in told)


def test_a_job__goes_on_with_an_operator_that_answers_on_chain_and_serves_nothing(
    network: LocalNetwork, alpha: Daemon
) -> None:
    """alpha's store is cut off while its keeper answers: the aggregator computes alpha's slots anew."""
    job = post(network, seed=2)
    until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
    alpha.kill("gateway", hold=True)
    view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
    assert view.done == 1
    assert view.demands[0].end == "bytes"
    assert {claim.operator for claim in view.commits} == {number_of(network, "alpha")}
    assert not any(claim.state == ClaimState.CONVICTED for claim in view.claims)


def test_a_job__goes_on_without_an_operator_that_commits_and_then_is_silent(
    network: LocalNetwork, alpha: Daemon
) -> None:
    """alpha's store and keeper end as soon as it has committed; beta is a standby and takes its seat."""
    job, number = post(network, seed=3), number_of(network, "alpha")
    until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
    alpha.kill("gateway", hold=True)
    until(network, job, "alpha's commitment", lambda v: any(c.operator == number for c in v.commits))
    alpha.kill("keeper", hold=True)
    view = until(network, job, "the end of the claim", lambda v: any(d.end == "void" for d in v.demands))
    demand = view.demands[-1]
    assert (demand.lane, demand.claim.operator, demand.holds) == (AGGREGATOR_SEAT, number, True)
    view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
    assert view.done == 1
    assert [c.operator for c in view.claims if c.state == ClaimState.CONVICTED] == [number]
    assert {c.operator for c in view.committed(0).values()} == {number_of(network, "beta")}


def test_a_checkpoint_that_is_withheld__is_demanded_by_who_trains_from_it_and_made_again_by_another(
    network: LocalNetwork, delta: Daemon
) -> None:
    """delta's store and keeper end as soon as it has aggregated; beta is its standby."""
    job, number = post(network, seed=4, rounds=3), number_of(network, "delta")
    until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
    delta.kill("gateway", hold=True)
    until(network, job, "delta's checkpoint", lambda v: v.checkpoints)
    delta.kill("keeper", hold=True)
    view = until(network, job, "a checkpoint of another", lambda v: len(v.checkpoints) > 1)
    [demand] = [demand for demand in view.demands if demand.end == "void"]
    assert (demand.lane, demand.claim.operator, demand.claim.seat) == (0, number, AGGREGATOR_SEAT)
    first, again = view.checkpoints
    assert (first.state, first.round, again.round) == (ClaimState.CONVICTED, 0, 0)
    assert again.operator == number_of(network, "beta")
    assert again.root == first.root, "nothing was false: the same round gives the same checkpoint"
