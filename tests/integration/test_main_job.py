"""The main job on real parts: chain, auction, brokers, workers, stores, aggregation, payment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepers.processes.local_network import LocalNetwork
from node.inputs.job_files import fetch_manifest
from node.replay import replay
from tests.support.liars.commands import lying_worker
from tests.support.local_jobs import PLANS, Finished, follow, submit
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.views import ClaimState
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid

pytestmark = [pytest.mark.integration, pytest.mark.network]

CHEAT = {"round": 1, "slot": 0, "tensor": "norm.weight"}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory):
    with LocalNetwork(
        tmp_path_factory.mktemp("net"), (replace(PLANS[0], worker_command=lying_worker(**CHEAT)), *PLANS[1:])
    ) as network:
        yield network


@pytest.fixture(scope="module")
def finished(network: LocalNetwork) -> Finished:
    """A job in which alpha's worker flips one bit of one result."""
    return follow(network, submit(network))


def test_money__is_conserved_to_the_wei(finished: Finished):
    money = finished.balances()
    assert money["escrowed"] > 0
    assert money["paid_nodes"] > 0
    assert money["escrowed"] == money["paid_nodes"] + money["fee_treasury"] + money["refunded"]
    assert (
        money["slashed"] == finished.total("CollateralCredited", "amount") + finished.total("PotBurned", "amount") == 0
    )


def test_every_slot_of_every_round__was_trained_and_paid(finished: Finished):
    run = finished.view.run
    assert run is not None
    every = (1 << run.seats) - 1
    assert [c.mask for c in finished.view.checkpoints] == [every] * 3
    assert [len(finished.view.committed(turn)) for turn in range(3)] == [3] * 3
    assert all(claim.state == ClaimState.PAID for claim in finished.view.claims)
    assert finished.view.final_rounds == 3
    paid = [event for event in finished.events if event.name == "ClaimFinalised"]
    assert len({event.tx for event in paid}) < len(paid), "several turns are paid at once"


def test_one_flipped_bit__is_exactly_one_mismatch(finished: Finished):
    wrong = [report for report in finished.reports if not report.get("agrees")]
    assert [(r["round"], r["slot"], r["tensor"], r["element"]) for r in wrong] == [(1, 0, CHEAT["tensor"], 3)]
    assert len(finished.reports) == 9 + 3  # slot-rounds and aggregations


def test_the_final_weights__are_the_single_process_replay_but_for_the_lie(
    finished: Finished, network: LocalNetwork, tmp_path
):
    """Round 1's checkpoint (index 1) is honest and bit-equal; what follows carries the flipped bit."""
    peers = [f"http://127.0.0.1:{d.config.gateway_port}" for d in network.daemons.values()]
    store = BlockStore(tmp_path / "store", [*peers, *load_network(network.network_path).storage])
    manifest = fetch_manifest(store, raw_cid(finished.view.terms.manifest))
    own = replay(manifest, store, [0b111] * 3)
    roots = finished.view.checkpoint_roots
    assert own.roots[:2] == [roots[0], roots[1]]
    assert own.roots[2] != roots[2]
