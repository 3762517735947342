"""Two aggregators on a network of real processes: each posts its share of every checkpoint, and is paid; the model is whole."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from node.replay import replay
from repops.files import load_state
from scripts.demo.report import masks_of
from tests.support.local_jobs import TINY, text
from tests.support.waiting import HANG_S
from zoo_compute import Client
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState
from zoo_compute.cli import main as cli
from zoo_compute.client.results import load_checkpoint, manifest_of, module_tensors
from zoo_compute.spec.params import ZEN

pytestmark = [pytest.mark.integration, pytest.mark.network]

PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3),
    *(OperatorPlan(name, roles=("aggregator",), aggregator_price="0.50") for name in ("delta", "theta")),
    *(OperatorPlan(name, roles=("custodian",)) for name in ("epsilon", "zeta", "eta")),
)
JOB = {**TINY, "aggregation": {"aggregators": 2}, "checkpoint": {"redundancy": 3}}
LONGEST_S = 2 * HANG_S


def test_two_aggregators__post_a_share_each_and_are_paid_for_it(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalNetwork(tmp_path_factory.mktemp("aggregators"), PLANS) as network:
        account = network.devnet.account("submitter", zen=200 * ZEN)
        client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
        path = network.folder / "job.json"
        path.write_text(json.dumps(JOB))
        job = client.train(config=path, data=text(network.folder), max_budget=200)
        end = time.monotonic() + LONGEST_S
        while not job.view().settled:
            assert time.monotonic() < end, (
                f"not over after {LONGEST_S} s: {job.view().state!r}; logs in {network.folder}"
            )
            network.poll()
            time.sleep(1)
        view = job.view()
        posted = Counter((made.turn, made.seat) for made in view.checkpoints)
        seats = (AGGREGATOR_SEAT, AGGREGATOR_SEAT + 1)
        assert posted == Counter({(turn, seat): 1 for turn in range(view.terms.rounds) for seat in seats})
        assert all(made.state == ClaimState.PAID for made in view.checkpoints)
        names = {seat: {network.operators[c.operator] for c in view.checkpoints if c.seat == seat} for seat in seats}
        assert sorted(map(list, names.values())) == [["delta"], ["theta"]]
        result = job.result(network.folder / "model.safetensors")
        assert (result.round, result.final) == (view.terms.rounds, True)
        before, after = module_tensors(load_checkpoint(view, client.store, 0)), load_state(result.path)
        assert after.keys() == before.keys()
        assert any((before[name] != after[name]).any() for name in after)
        replayed = replay(manifest_of(view, client.store), client.store, masks_of(view))
        assert replayed.roots == [view.checkpoint_roots[made] for made in range(view.terms.rounds + 1)]
        verified = ["verify", str(job.id), "--all", "--network", str(network.network_path), "--json"]
        capsys.readouterr()
        assert cli.run(verified) == 0, capsys.readouterr().err
        checked = json.loads(capsys.readouterr().out)["checked"]
        assert all(work["agrees"] for work in checked)
        assert {(work["turn"], work["seat"]) for work in checked if work["work"] == "aggregation"} == set(posted)
