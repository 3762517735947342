"""A worker lies about one bit of one number in one step, and defends it: the verifier's keeper has it convicted, by the contract."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address

from benchmarks.disputes.depth import depth_of
from keepers.processes.local_network import LocalNetwork
from node.inputs.job_files import fetch_manifest
from node.inputs.programs import fetch_programs
from node.replay import replay
from tests.support.local_jobs import Finished, follow, submit
from tests.support.lying_network import CONFIG, PLANS, ROUND, STEP
from tests.support.waiting import wait_until
from zoo_compute.chain.explorations import ANSWERS, ASKS, DisputeView, read_disputes
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.views import ClaimState
from zoo_compute.client.dispute_transcript import Transcript
from zoo_compute.client.disputes import list_disputes
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import COIN, ZEN
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid

pytestmark = [pytest.mark.integration, pytest.mark.network]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory):
    with LocalNetwork(tmp_path_factory.mktemp("net"), PLANS) as network:
        yield network


@pytest.fixture(scope="module")
def finished(network: LocalNetwork) -> Finished:
    return follow(network, submit(network, CONFIG))


@pytest.fixture(scope="module")
def dispute(finished: Finished, network: LocalNetwork) -> DisputeView:
    chain = network.devnet.chain
    (only,) = read_disputes(chain, chain.head())
    return only


def test_the_liar__is_convicted_at_the_number_that_is_false(dispute: DisputeView, network: LocalNetwork):
    assert (dispute.end, dispute.operator) == (End.JUDGED, 1)
    chain = network.devnet.chain
    [listed] = list_disputes(chain, chain.head())
    verdict = Transcript(chain, listed).conviction
    assert verdict is not None
    assert (verdict.step, verdict.operator, verdict.element) == (STEP, "dot", 3)
    assert verdict.committed != verdict.right


def test_what_rested_on_the_lie__is_done_again_and_the_result_is_the_honest_one(
    finished: Finished, network: LocalNetwork, tmp_path: Path
):
    assert [e.args["round"] for e in finished.events if e.name == "RolledBack"] == [ROUND]
    states = [c.state for c in finished.view.commits if c.operator == 1 and c.turn == ROUND]
    assert ClaimState.CONVICTED in states
    peers = [f"http://127.0.0.1:{d.config.gateway_port}" for d in network.daemons.values()]
    store = BlockStore(tmp_path / "store", [*peers, *load_network(network.network_path).storage])
    manifest = fetch_manifest(store, raw_cid(finished.view.terms.manifest))
    own = replay(manifest, store, [0b111] * 2)
    assert own.roots == [finished.view.checkpoint_roots[made] for made in range(3)]


def test_money__is_conserved_and_the_submitter_is_whole(finished: Finished):
    money = finished.balances()
    assert money["escrowed"] + money["restored"] == money["paid_nodes"] + money["fee_treasury"] + money["refunded"]
    (convicted,) = (e for e in finished.events if e.name == "ClaimConvicted")
    assert convicted.args["restored"] > 0
    assert convicted.args["to_finder"] > 0


def test_the_asker__has_what_it_prepaid_and_the_finders_share_of_the_lock(
    finished: Finished, dispute: DisputeView, network: LocalNetwork
):
    chain = network.devnet.chain
    (convicted,) = (e for e in finished.events if e.name == "ClaimConvicted")
    [asker] = {node.record.payment.asker for node in dispute.picture.nodes.values()}
    asker = to_checksum_address(asker)
    # its seal counts after others had time to open older ones
    wait_until("its share", lambda: chain.zen.balanceOf(asker) > 100 * ZEN, poll_s=0.5)
    assert chain.zen.balanceOf(asker) == 100 * ZEN + convicted.args["to_finder"]
    assert chain.referee.owed(COIN, asker) == 0


def test_a_lie__is_convicted_by_no_more_asks_than_the_trees_of_its_program_are_deep(
    dispute: DisputeView, finished: Finished, network: LocalNetwork, tmp_path: Path
):
    """One path from the segments down to the false number, each place asked about once, and every ask but the last answered."""
    store = BlockStore(tmp_path / "store", [*load_network(network.network_path).storage])
    manifest = fetch_manifest(store, raw_cid(finished.view.terms.manifest))
    longest = depth_of(fetch_programs(store, manifest).graph, manifest.inner_steps, manifest.segment_steps)
    names = Counter(event.name for event in dispute.picture.events)
    asks, answers = (sum(names[name] for name in of) for of in (ASKS, ANSWERS))
    assert 1 < asks <= longest.pairs
    assert answers == asks, "it was evidence that ended it, not silence"
    assert names["ClaimResolved"] == 1
