"""A delayed job that carries private state, on real parts: every claim is verified, and the weights are the replay's."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepers.processes.local_network import LocalNetwork
from node.inputs.job_files import fetch_manifest
from node.replay import replay
from tests.support.local_jobs import PLANS, TINY, follow, submit
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.views import ClaimState
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid

pytestmark = [pytest.mark.integration, pytest.mark.network]

ROUNDS = 4
DELAYED = {**TINY, "training": {**TINY["training"], "rounds": ROUNDS, "delay": 1, "carry_rounds": 3}}


def test_a_delayed_job__is_trained_and_verified_one_checkpoint_behind(tmp_path: Path):
    with LocalNetwork(tmp_path / "net", PLANS) as network:
        finished = follow(network, submit(network, DELAYED))
        peers = [f"http://127.0.0.1:{daemon.config.gateway_port}" for daemon in network.daemons.values()]
        store = BlockStore(tmp_path / "store", [*peers, *load_network(network.network_path).storage])
        manifest = fetch_manifest(store, raw_cid(finished.view.terms.manifest))
        own = replay(manifest, store, [0b111] * ROUNDS)
    view = finished.view
    assert [view.checkpoint_roots[round_] for round_ in range(ROUNDS + 1)] == own.roots
    started = {commit.turn: commit.start_root for commit in view.commits}
    assert started == {turn: own.roots[max(0, turn - 1)] for turn in range(ROUNDS)}
    assert all(claim.state == ClaimState.PAID for claim in view.claims)
    assert len(finished.reports) == 3 * ROUNDS + ROUNDS
    assert all(report["agrees"] for report in finished.reports)
