"""The journeys, in the order a person makes them. The first ones are on one machine; the others are on machines of
their own, for whom the network of the first is a public network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.journeys.walk import Walk, wait_until

README, TRAIN, SEEDS = "README.md", "docs/guides/train.md", "tests/journeys/seeds.md"
MAPS, RENDERING = "docs/guides/maps.md", "docs/guides/rendering.md"
OPERATING = "docs/guides/operating.md"
JOB_FILE, PYTHON = "docs/reference/job-file.md", "docs/reference/python.md"
FIRST_JOB, TUNE, HUGGINGFACE = (
    "docs/tutorials/first-job.md",
    "docs/tutorials/fine-tune-gpt2.md",
    "docs/guides/huggingface.md",
)
PAGES = (README, FIRST_JOB, TRAIN, MAPS, RENDERING, TUNE, HUGGINGFACE, JOB_FILE, PYTHON, SEEDS, OPERATING)
LONG = {OPERATING, TUNE, HUGGINGFACE}  # pages of the journeys for which continuous integration has no time


def train(walk: Walk) -> None:
    """Install, start a network, train a module of one's own, use it (README, guides/train.md)."""
    walk.do(README, "zoo devnet --nodes 3")
    walk.do(README, "class Bytes")
    walk.do(README, 'module: "model.py:build", width: 192')
    walk.do(README, "zoo train job.yaml")
    walk.do(TRAIN, "load_state_dict")
    walk.do(TRAIN, "python use.py")
    walk.do(TRAIN, "client = Client()")


def verify(walk: Walk) -> None:
    """Check the work of others (README), and let the model write, as the tutorial does (tutorials/first-job.md)."""
    walk.do(README, "zoo verify 1 --all")
    walk.do(FIRST_JOB, "torch.multinomial")
    walk.do(FIRST_JOB, "python use.py")


def provide(walk: Walk) -> None:
    """Earn with a node of one's own: it is registered, it runs, it is paid (README)."""
    walk.do(README, "zoo node register")
    wait_until("the node's first look at the chain", lambda: _status(walk)["block"] is not None, timeout_s=120)
    # Somebody's jobs, in which the node is the cheapest. It measures a program that is new to it before it bids: on a machine with other
    # work that may outlast a devnet's auction, and then it has a seat of the next job.
    for job in (3, 4):
        walk.type("zoo train job.yaml --max-budget 40 --again")
        walk.type(f"zoo job watch {job} --settled")
        if int(_json(walk, "zoo node earnings")["paid"]):
            break
    walk.do(README, "zoo node status")
    earned = _json(walk, "zoo node earnings")
    assert int(earned["paid"]) > 0, f"the node was paid nothing: {earned}"
    assert _status(walk)["needs"] == [], f"the node lacks something: {_status(walk)['needs']}"


def maps(walk: Walk) -> None:
    """Map a module over items, by the command and from Python (guides/maps.md)."""
    walk.do(MAPS, "def build")
    walk.do(MAPS, "map: {batch_size")
    walk.do(MAPS, "numpy.savez")
    walk.do(MAPS, "zoo map map.yaml")
    [returned] = walk.do(MAPS, "Client().map(")
    assert "(1000, 10)" in returned.output, returned.output


def rendering(walk: Walk) -> None:
    """Render a scene of one's own (guides/rendering.md)."""
    walk.do(RENDERING, "def scene")
    walk.do(RENDERING, "zoo render scene.py")
    walk.type("ls frames/000001.png frames/000003.png")


def _status(walk: Walk) -> dict[str, Any]:
    return _json(walk, "zoo node status")


def _json(walk: Walk, command: str) -> dict[str, Any]:
    """What a command prints with --json, after what it says and asks."""
    parsed: dict[str, Any] = json.loads(walk.type(f"{command} --json").output.strip().splitlines()[-1])
    return parsed


def seeds(walk: Walk) -> None:
    """What the seed documents print, on another machine (tests/journeys/seeds.md)."""
    _arrive(walk)
    walk.do(SEEDS, "layers: 1")
    walk.do(SEEDS, "model_config = {")
    walk.do(SEEDS, "ComputeJob(", after=("before.py",))
    walk.do(SEEDS, "checkpoint_config", after=("before.py",))
    walk.do(SEEDS, "client.train(")
    walk.do(SEEDS, "gym register")
    walk.interrupt("gym start")
    walk.do(SEEDS, "gym node register")
    walk.type("zoo dataset contribute corpus.txt --name zoo-dataset-v2")
    [printed] = walk.do(SEEDS, "DistributedTrainer", codes=(1,))
    assert "no operator has 226 GB" in printed.output, printed.output


def manual(walk: Walk) -> None:
    """The examples of the reference, on the other machine."""
    walk.do(README, "class Bytes")
    walk.do(README, 'module: "model.py:build", width: 192')
    walk.do(JOB_FILE, "budget_max: 60 ")
    walk.type("zoo quote full.yaml")
    walk.type("cp ~/.zoo/network.json .")
    walk.do(PYTHON, "CheckpointConfig")


def tune(walk: Walk) -> None:
    """Fine-tune a GPT-2 of one's own, on a network of one's own (tutorials/fine-tune-gpt2.md, guides/huggingface.md)."""
    walk.do(TUNE, "zoo devnet --nodes 3")
    walk.do(TUNE, "import pydoc_data")
    walk.do(TUNE, "python make_model.py")
    walk.do(TUNE, "transformers: my-gpt2")
    walk.do(TUNE, "zoo train job.yaml")
    walk.do(TUNE, "zoo job evaluate")
    walk.do(TUNE, "model.generate")
    walk.do(HUGGINGFACE, "Client().train(")


def operator(walk: Walk) -> None:
    """A new operator on a clean machine: it runs after five commands, and is paid for strangers' jobs (guides/operating.md)."""
    first = walk.network
    assert first is not None
    walk.type(f"cp {first.machine.home}/.zoo/devnet/network.json .")  # as the network's site has it
    typed = walk.do(OPERATING, "install -D network.json")
    [address] = re.findall(r"0x[0-9a-fA-F]{40}", typed[-1].output)
    first.type(f"zoo account fund {address} --zen 3600 --coin 2")
    typed += walk.do(OPERATING, "zoo node start")
    assert len(typed) == 5, f"a node in five commands: {[ran.command for ran in typed]}"
    wait_until("the node's first look at the chain", lambda: _status(walk)["block"] is not None, timeout_s=120)
    assert _status(walk)["needs"] == [], f"the node lacks something: {_status(walk)['needs']}"
    first.interrupt("zoo node start")  # which asks the same price
    for _ in range(3):  # as in `provide`: what outlasts an auction is measured for the next one
        job = json.loads(
            first.type("zoo train job.yaml --max-budget 40 --again --json").output.strip().splitlines()[-1]
        )
        first.type(f"zoo job watch {job['job']} --settled")
        if int(_json(walk, "zoo node earnings")["paid"]):
            break
    earned = _json(walk, "zoo node earnings")
    assert int(earned["paid"]) > 0, f"the node was paid nothing: {earned}"
    assert int(earned["costs"]["gas_wei"]) > 0
    assert _status(walk)["needs"] == [], f"the node lacks something: {_status(walk)['needs']}"


def _arrive(walk: Walk) -> None:
    """A newcomer to somebody's network: its file, an account with money, a text."""
    first = walk.network
    assert first is not None
    walk.do(SEEDS, "pip install zoo-compute")
    devnet = first.machine.home / ".zoo" / "devnet"
    walk.type(f"mkdir -p ~/.zoo && cp {devnet}/network.json ~/.zoo/network.json")
    walk.type(f"export ZOO_STORE={devnet}/store")  # as an IPFS daemon that both reach
    walk.type(f"cp {first.machine.work}/corpus.txt .")
    account = _json(walk, "zoo account create me")
    first.type(f"zoo account fund {account['address']} --zen 50000 --coin 10")


FIRST: dict[str, Callable[[Walk], None]] = {
    "train": train, "verify": verify, "provide": provide, "maps": maps, "rendering": rendering,
}  # fmt: skip
SECOND: dict[str, Callable[[Walk], None]] = {"seeds": seeds, "manual": manual}
THIRD: dict[str, Callable[[Walk], None]] = {"operator": operator}
FOURTH: dict[str, Callable[[Walk], None]] = {"tune": tune}
JOURNEYS = {**FIRST, **SECOND, **THIRD, **FOURTH}
