"""A map on a network of real processes, one of whose workers lies about one number: `zoo map` delivers what the module returns."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.liars.commands import lying_worker
from tests.support.waiting import HANG_S
from zoo_compute import Client
from zoo_compute.chain.events import scan
from zoo_compute.chain.snapshot import read_job
from zoo_compute.cli import main as cli
from zoo_compute.spec.params import ZEN

pytestmark = [pytest.mark.integration, pytest.mark.network]

ROUND, SLOT, STEP = 1, 0, 1  # of the lie
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=1, worker_command=lying_worker(round=ROUND, slot=SLOT, step=STEP)),
    OperatorPlan("beta", price="0.90", capacity=2),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    OperatorPlan("epsilon", roles=("verifier",), sample_rate=1.0, ask_zen=100 * ZEN),
)
MODEL = """import torch

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.Linear(12, 4))
"""
JOB = {
    "model": {"module": "model.py:build"},
    "map": {"batch_size": 8, "slots": 2, "inner_steps": 3},
    "market": {"reserve": "1", "max_price": "1.25", "aggregator_reserve": "1", "aggregator_max_price": "1.25"},
    "limits": {"slot_s": 90, "aggregate_s": 90, "reexecute_s": 5},
    "budget_max": 200,
}
ITEMS = np.random.default_rng(2).standard_normal((121, 6)).astype(np.float32)
LONGEST_S = 3 * HANG_S


def in_the_meantime(network: LocalNetwork, call: Any) -> Any:
    """The call's value; meanwhile the processes are watched."""
    with ThreadPoolExecutor(1) as pool:
        future: Future[Any] = pool.submit(call)
        end = time.monotonic() + LONGEST_S
        while not future.done():
            network.poll()
            assert time.monotonic() < end, f"not over after {LONGEST_S} s; logs in {network.folder}"
            time.sleep(1)
        return future.result()


def test_a_map_with_a_lie__gives_what_the_module_returns(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalNetwork(tmp_path_factory.mktemp("map"), PLANS) as network:
        folder: Path = network.folder
        (folder / "model.py").write_text(MODEL)
        (folder / "map.json").write_text(json.dumps(JOB))
        np.savez(folder / "items.npz", images=ITEMS)
        account = network.devnet.account("submitter", zen=200 * ZEN)
        monkeypatch.setattr("zoo_compute.cli.context.Settings.client", lambda _, **given: client)
        client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
        words = [*("map", str(folder / "map.json"), "--data", str(folder / "items.npz")), "--json", "--out"]
        run = lambda name: cli.run([*words, str(folder / name)])  # noqa: E731
        assert in_the_meantime(network, lambda: run("out.npz")) == 0, capsys.readouterr().err
        said = json.loads(capsys.readouterr().out)
        assert (said["items"], said["outputs"]) == (121, {"outputs": [121, 4]})
        spaces: dict[str, Any] = {}
        exec(MODEL, spaces)
        with torch.no_grad():
            wanted = spaces["build"]()(torch.from_numpy(ITEMS)).numpy()
        made = np.load(folder / "out.npz")["outputs"]
        assert np.allclose(made, wanted, atol=1e-6)

        chain, first = network.devnet.chain, network.devnet.network.first_block
        view = read_job(chain, said["job"])
        events = list(scan(chain, first, view.block))
        (convicted,) = [event for event in events if event.name == "ClaimConvicted"]
        assert network.operators[convicted.args["operator"]] == "alpha"
        assert [each.round for each in view.rollbacks] == [ROUND]
        assert view.final_rounds == view.terms.rounds == 3
        assert set(view.checkpoint_roots.values()) == {view.terms.state_root}

        capsys.readouterr()
        assert run("again.safetensors") == 0, "the same job, fetched again: nothing is posted twice"
        assert json.loads(capsys.readouterr().out)["job"] == said["job"]
        assert client.chain.tasks.job_count() == said["job"]
        assert (folder / "again.safetensors").exists()
        sections = {name: JOB[name] for name in ("map", "market", "limits")}
        returned = in_the_meantime(network, lambda: client.map(spaces["build"](), ITEMS, 200, **sections))
        assert client.chain.tasks.job_count() == said["job"], "from Python it is the same job"
        assert np.array_equal(returned.view(np.uint32), made.view(np.uint32))
