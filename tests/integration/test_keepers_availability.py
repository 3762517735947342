"""Demands for data on a local network: an honest keeper answers them by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepers.processes.local_network import LocalNetwork
from tests.support.withholding_jobs import PLANS, post, until
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, JobState
from zoo_compute.cli import main as cli
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import STRANGERS_LANE

pytestmark = [pytest.mark.integration, pytest.mark.network]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    with LocalNetwork(tmp_path_factory.mktemp("net"), PLANS) as network:
        yield network


def test_demands_of_honest_operators_claims__are_answered_by_their_keepers_in_time(
    network: LocalNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = post(network)
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
    asked = json.loads(capsys.readouterr().out)["demands"]
    assert {each["demander"] for each in asked} == {anyone.address}
    assert all(each["asked_at"] <= each["ended_at"] <= each["due"] for each in asked)
