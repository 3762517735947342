"""A generation on a network of real processes, one of whose workers lies about one token: `zoo map` writes the texts of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.integration.test_keepers_maps import PLANS as HONEST_AND_LYING
from tests.integration.test_keepers_maps import in_the_meantime
from tests.support.generation_job import NEW, SIZES, continued, model
from tests.support.liars.commands import lying_worker
from zoo_compute import Client
from zoo_compute.chain.events import scan
from zoo_compute.chain.snapshot import read_job
from zoo_compute.cli import main as cli
from zoo_compute.spec.params import ZEN

pytestmark = [pytest.mark.integration, pytest.mark.network]

PROMPTS = ["The cat", "Hello", "a", "One more", "two"]
# What the operator makes is the token that the step gives.
LIAR = OperatorPlan(
    "alpha", price="0.80", capacity=1, worker_command=lying_worker(round=0, slot=0, step=4, op="to_float")
)
PLANS = (LIAR, *HONEST_AND_LYING[1:])
JOB = {
    "model": SIZES,
    "map": {"batch_size": 4, "slots": 2, "new_tokens": NEW},
    "market": {"reserve": "1", "max_price": "1.25", "aggregator_reserve": "1", "aggregator_max_price": "1.25"},
    "limits": {"slot_s": 90, "aggregate_s": 90, "reexecute_s": 5},
    "budget_max": 200,
}


def test_a_generation_with_a_lie__gives_the_texts_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalNetwork(tmp_path_factory.mktemp("generation"), PLANS) as network:
        folder: Path = network.folder
        (folder / "generate.json").write_text(json.dumps(JOB))
        (folder / "prompts.txt").write_text("\n".join(PROMPTS))
        account = network.devnet.account("submitter", zen=200 * ZEN)
        monkeypatch.setattr("zoo_compute.cli.context.Settings.client", lambda _, **options: client)
        client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
        words = ["map", str(folder / "generate.json"), "--data", str(folder / "prompts.txt"), "--json", "--out"]
        run = lambda: cli.run([*words, str(folder / "texts.jsonl")])  # noqa: E731
        assert in_the_meantime(network, run) == 0, capsys.readouterr().err
        report = json.loads(capsys.readouterr().out)
        assert report["texts"] == len(PROMPTS)

        made: list[dict[str, Any]] = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
        assert [each["prompt"] for each in made] == PROMPTS
        assert [each["tokens"] for each in made] == [continued(model(), prompt.encode(), NEW) for prompt in PROMPTS]

        view = read_job(network.devnet.chain, report["job"])
        events = list(scan(network.devnet.chain, network.devnet.network.first_block, view.block))
        (convicted,) = [event for event in events if event.name == "ClaimConvicted"]
        assert network.operators[convicted.args["operator"]] == "alpha"
        assert set(view.checkpoint_roots.values()) == {view.terms.state_root}

        options = {name: JOB[name] for name in ("market", "limits")} | {
            "new_tokens": NEW,
            "batch_size": 4,
            "map": {"slots": 2},
        }
        texts = in_the_meantime(network, lambda: client.generate(SIZES, PROMPTS, 200, **options))
        assert client.chain.tasks.job_count() == report["job"], "from Python it is the same job"
        assert [each.tokens for each in texts] == [each["tokens"] for each in made]
