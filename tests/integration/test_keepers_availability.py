"""Demands for data on a local network: an honest keeper answers them by itself, and a job goes on without who withholds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepers.localnet import LocalNetwork, OperatorPlan
from tests.integration.network_kit import TINY, submit
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job, read_operator
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, JobState, JobView
from zoo_compute.cli import main as cli
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import STRANGERS_LANE

pytestmark = pytest.mark.integration

PATIENCE_S = 90
AGGREGATOR = OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50")


def config(**limits: Any) -> dict[str, Any]:
    """One round of two slots, whose claims stand open to demands for a minute."""
    training = TINY["training"] | {"rounds": 1, "slots": 2, "quorum": 1, "inner_steps": 4}
    return TINY | {"training": training, "limits": TINY["limits"] | {"reexecute_s": 20} | limits}


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


def test_demands_of_an_honest_operators_claims__are_answered_by_its_keeper_in_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = (OperatorPlan("alpha", price="0.80"), AGGREGATOR)
    with LocalNetwork(tmp_path / "net", plans) as network:
        job = submit(network, config())
        view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
        chain, anyone = network.devnet.chain, network.devnet.account("anyone")
        sender = Sender(chain, anyone, folder=tmp_path)
        deposit = 2 * least_deposit(10**9)
        for claim in view.pending:
            slot = 0 if claim.seat == AGGREGATOR_SEAT else claim.scope >> 16
            call = chain.availability.demand(job, claim.fields, STRANGERS_LANE, slot, 2**32 - 1, 2**40 - 1)  # type: ignore[arg-type]
            sender.send(call, value=deposit)
        asked = len(view.pending)
        assert {claim.seat for claim in view.pending} == {0, AGGREGATOR_SEAT}
        view = until(
            network, job, "an answer to each", lambda v: len(v.demands) == asked and all(d.end for d in v.demands)
        )
        assert [demand.end for demand in view.demands] == ["bytes"] * asked
        assert not any(claim.state == ClaimState.CONVICTED for claim in view.claims)
        assert cli.run(["job", "demands", str(job), "--network", str(network.network_path), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["demands"]
        assert {each["demander"] for each in told} == {anyone.address}
        assert all(each["asked_at"] <= each["ended_at"] <= each["due"] for each in told)
        owners = [read_operator(chain, number) for number in network.operators]
        assert sum(wei for owner in owners for wei in owner.deposits.values()) == asked * deposit


def test_a_job__goes_on_without_an_operator_that_commits_and_serves_nothing(tmp_path: Path) -> None:
    """alpha's keeper and store end as soon as it has committed; beta is a standby and takes its seat."""
    plans = (OperatorPlan("alpha", price="0.80"), OperatorPlan("beta", price="0.90"), AGGREGATOR)
    with LocalNetwork(tmp_path / "net", plans) as network:
        alpha = network.daemons["alpha"]
        job = submit(network, config(slot_s=30))
        until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
        alpha.kill("gateway", hold=True)
        number = next(n for n, name in network.operators.items() if name == "alpha")
        until(network, job, "alpha's commitment", lambda v: any(c.operator == number for c in v.commits))
        alpha.kill("keeper", hold=True)
        view = until(network, job, "the end of the claim", lambda v: any(d.end for d in v.demands))
        [demand] = view.demands
        assert (demand.end, demand.lane, demand.claim.operator, demand.holds) == ("void", AGGREGATOR_SEAT, number, True)
        view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
        assert view.done == 1
        [lost] = [claim for claim in view.claims if claim.state == ClaimState.CONVICTED]
        assert lost.operator == number
        assert {c.operator for c in view.committed(lost.turn).values()} == set(network.operators) - {
            number,
            view.checkpoints[0].operator,
        }


def test_a_job__goes_on_with_an_operator_that_answers_on_chain_and_serves_nothing(tmp_path: Path) -> None:
    """alpha's store is cut off while its keeper answers: the aggregator computes alpha's slots anew."""
    plans = (OperatorPlan("alpha", price="0.80"), AGGREGATOR)
    with LocalNetwork(tmp_path / "net", plans) as network:
        job = submit(network, config())
        until(network, job, "the start of the job", lambda v: v.state == JobState.RUNNING)
        network.daemons["alpha"].kill("gateway", hold=True)
        view = until(network, job, "the end of the job", lambda v: v.state == JobState.ENDED)
        assert view.done == 1
        assert view.demands[0].end == "bytes"
        assert [claim.state for claim in view.claims] == [ClaimState.PENDING] * 2
