"""A GPT-2 of `transformers`, fine-tuned on a Parquet file by the nodes of a real network, comes back as a folder for `from_pretrained`.

So does one with adapters alone (LoRA), under a schedule.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from node.inputs.job_files import fetch_job
from node.replay import replay
from repops import encoding
from repops.commitments import Array
from repops.graph import RATE
from tests.support import tiny_gpt2
from tests.support.tiny_gpt2 import CONTEXT, VOCABULARY, generated, logits_of
from tests.support.waiting import HANG_S
from zoo_compute import Client
from zoo_compute.chain.views import ClaimState, JobState, JobView
from zoo_compute.client.results import load_checkpoint, manifest_of
from zoo_compute.formats.manifest import Manifest
from zoo_compute.huggingface.lora import ADAPTER
from zoo_compute.spec.params import ZEN
from zoo_compute.store import Store

pytestmark = [pytest.mark.integration, pytest.mark.network]

ROUNDS, BATCH = 2, 2
PROMPT = "Story 7: the fox"
NODES = (
    OperatorPlan("alpha", price="0.80", capacity=1),
    OperatorPlan("beta", roles=("provider", "aggregator"), price="0.90", aggregator_price="0.50", capacity=1),
)
JOB = f"""
model: {{transformers: gpt2}}
data: {{path: stories.parquet, column: story, heldout: 16}}
training: {{batch_size: {BATCH}, inner_steps: 44, rounds: {ROUNDS}, slots: 2, quorum: 2, learning_rate: 0.01, clip_norm: 1.0}}
market: {{reserve: "1", max_price: "1.25", aggregator_reserve: "1", aggregator_max_price: "1.25"}}
limits: {{slot_s: 90, aggregate_s: 90, reexecute_s: 4}}
"""
LORA_JOB = JOB.replace("gpt2}", "gpt2, lora: {r: 4, alpha: 8}}").replace(
    "clip_norm", "lr_scheduler_type: linear, clip_norm"
)


class Submitter:
    """A person with a folder of a model, a file of stories and an account, who runs `zoo`. There is no hub."""

    def __init__(self, network: LocalNetwork, folder: Path) -> None:
        self.folder, self.network = folder, network
        network.devnet.account("submitter", zen=200 * ZEN)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ZOO_", "HF_"))}
        self._environment = inherited | {
            "ZOO_HOME": str(folder / "home"),
            "ZOO_NETWORK": str(network.network_path),
            "ZOO_ACCOUNT": str(network.devnet.key_file("submitter")),
            "ZOO_PASSPHRASE_FILE": str(network.devnet.passphrase_file),
            "ZOO_STORE": str(network.submitter_store),
            "HF_HOME": str(folder / "hub"),
            "HF_HUB_OFFLINE": "1",
        }
        tiny_gpt2.save_all(folder)
        (folder / "job.yaml").write_text(JOB)
        (folder / "lora.yaml").write_text(LORA_JOB)

    def zoo(self, *arguments: str) -> str:
        """What a command prints; it succeeds."""
        done = subprocess.run(
            [sys.executable, "-m", "zoo_compute.cli.main", *arguments],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=HANG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Finished(NamedTuple):
    """A job that is trained and settled, and its result. store: a new one, which has what it fetches from the network."""

    number: int
    result: dict[str, Any]
    submitter: Submitter
    view: JobView
    store: Store
    network: LocalNetwork

    @property
    def folder(self) -> Path:
        return self.submitter.folder / "tuned"

    @property
    def manifest(self) -> Manifest:
        return manifest_of(self.view, self.store)


@pytest.fixture(scope="module")
def submitter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitter]:
    folder = tmp_path_factory.mktemp("huggingface")
    with LocalNetwork(folder / "net", NODES) as network:
        yield Submitter(network, folder)


@pytest.fixture(scope="module")
def finished(submitter: Submitter) -> Finished:
    return finish(submitter, "job.yaml", "tuned")


def finish(submitter: Submitter, file: str, out: str) -> Finished:
    """Post a job, wait until it is settled, and fetch its result into a folder."""
    job = int(json.loads(submitter.zoo("train", file, "--max-budget", "20", "--json"))["job"])
    submitter.zoo("job", "watch", str(job), "--settled")
    fresh = submitter.folder / f"fresh-{job}"
    fetched = submitter.zoo("job", "result", str(job), "--format", "hf", "--out", out, "--store", str(fresh), "--json")
    client = Client(network=submitter.network.network_path, store=str(fresh))
    client.use_peers()
    return Finished(job, json.loads(fetched), submitter, client.job(job).view(), client.store, submitter.network)


def test_the_job__is_trained_by_two_nodes_and_paid(finished: Finished) -> None:
    view = finished.view
    assert view.state == JobState.ENDED
    assert [each.mask for each in view.checkpoints] == [0b11] * ROUNDS
    assert {claim.operator for claim in view.claims} == set(finished.network.operators)
    assert all(claim.state == ClaimState.PAID for claim in view.claims)
    assert view.final_rounds == ROUNDS


def test_its_checkpoints__are_the_single_process_replays(finished: Finished) -> None:
    own = replay(finished.manifest, finished.store, [0b11] * ROUNDS)
    assert [finished.view.checkpoint_roots[round_] for round_ in range(ROUNDS + 1)] == own.roots


def test_the_folder__computes_and_generates_what_the_jobs_program_computes(finished: Finished) -> None:
    """The program as the nodes have it, on the checkpoint whose root is on chain."""
    tokens, length = generated(finished.folder, PROMPT)
    inputs = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, CONTEXT)).astype(np.int32)
    inputs[0, : len(tokens)] = tokens
    data = finished.store.read(finished.manifest.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=HANG_S)
    own = logits_of(encoding.decode(data), load_checkpoint(finished.view, finished.store, ROUNDS), inputs)
    assert np.abs(logits_in(finished.folder, inputs) - own).max() < 1e-5
    assert np.abs(logits_in(finished.submitter.folder / "gpt2", inputs) - own).max() > 1e-2, "it was trained"
    assert np.array_equal(tokens[length:], own[0, length - 1 : len(tokens) - 1].argmax(-1))


def test_the_folder__generates_text_like_the_stories(finished: Finished) -> None:
    from transformers import AutoTokenizer

    text = AutoTokenizer.from_pretrained(finished.folder).decode(generated(finished.folder, PROMPT)[0])
    assert text.startswith(f"{PROMPT} went ")


def test_the_card__names_job_chain_and_root(finished: Finished) -> None:
    result, network = finished.result, finished.network.devnet.network
    assert (result["round"], result["final"]) == (ROUNDS, True)
    assert result["root"] == "0x" + finished.view.checkpoint_roots[ROUNDS].hex()
    card = (finished.folder / "README.md").read_text()
    for text in (
        f"| job | {finished.number} |",
        f"| network | {network.name}, chain {network.chain_id} |",
        f"| TaskRegistry | `{network.contracts['tasks']}` |",
        f"| final checkpoint | root `{result['root']}`",
        "| started from | gpt2 |",
        "| data | stories.parquet, column story; ",
        "final: nobody can challenge it",
    ):
        assert text in card


def test_the_held_out_loss__falls_in_every_round(finished: Finished) -> None:
    store = str(finished.submitter.folder / "evaluated")
    printed = finished.submitter.zoo("job", "evaluate", str(finished.number), "--all", "--store", store)
    rows = [line.split() for line in printed.splitlines()]
    assert [row[0] for row in rows] == ["round", "start", *map(str, range(1, ROUNDS + 1))]
    losses = [float(row[1]) for row in rows[1:]]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] - losses[-1] > 1
    assert abs(losses[0] - np.log(VOCABULARY)) < 0.5, "it starts from weights that know nothing"
    assert rows[-1][-1] == finished.result["root"]


def test_adapters_alone__are_trained_and_sent_under_a_schedule__and_peft_loads_them(finished: Finished) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    tuned = finish(finished.submitter, "lora.yaml", "adapters")
    assert all(claim.state == ClaimState.PAID for claim in tuned.view.claims)
    own = replay(tuned.manifest, tuned.store, [0b11] * ROUNDS)
    assert [tuned.view.checkpoint_roots[round_] for round_ in range(ROUNDS + 1)] == own.roots
    rates = fetch_job(tuned.store, tuned.manifest).examples[RATE]
    assert len(set(rates.tolist())) > ROUNDS, "each step has a factor of its own in the data"
    inputs = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, CONTEXT)).astype(np.int32)
    data = tuned.store.read(tuned.manifest.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=HANG_S)
    graph = encoding.decode(data)
    assert graph.exchanged
    assert all(name.startswith(ADAPTER) for name in graph.exchanged), "what travels"
    program = logits_of(graph, load_checkpoint(tuned.view, tuned.store, ROUNDS), inputs)
    base = AutoModelForCausalLM.from_pretrained(tuned.submitter.folder / "gpt2")
    adapted = PeftModel.from_pretrained(base, tuned.submitter.folder / "adapters").eval()
    assert np.abs(logits_from(adapted, inputs) - program).max() < 1e-5
    assert np.abs(logits_in(tuned.submitter.folder / "gpt2", inputs) - program).max() > 1e-3, "it was trained"


def logits_in(folder: Path, inputs: Array) -> Array:
    """What the model that `from_pretrained` loads computes."""
    from transformers import AutoModelForCausalLM

    return logits_from(AutoModelForCausalLM.from_pretrained(folder).eval(), inputs)


def logits_from(model: Any, inputs: Array) -> Array:
    import torch

    with torch.no_grad():
        return model(torch.from_numpy(inputs).long()).logits.numpy()
