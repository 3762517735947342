"""`zoo job branch` on real parts: the job's chain is out of reach for a while, a branch trains on another one, and both are merged."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.faults.geth_node import GethNode
from benchmarks.faults.relays import Relay
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from repops.commitments import state_root
from repops.files import load_state
from tests.support.local_jobs import TINY, text
from tests.support.waiting import HANG_S
from zoo_compute import Client, Job
from zoo_compute.chain.events import scan
from zoo_compute.chain.network import load
from zoo_compute.client import partition
from zoo_compute.client.partition import RECORD, START, Partition, Record, Rule
from zoo_compute.client.results import manifest_of
from zoo_compute.errors import UserError
from zoo_compute.formats.lineage import Parents
from zoo_compute.spec.params import ZEN
from zoo_compute.training.merge import Merge

pytestmark = [pytest.mark.integration, pytest.mark.network]

ROLES = ("provider", "aggregator", "custodian")
BUDGET = "200"
ROUNDS = 8  # of four seconds
WHOLE: dict[str, Any] = {
    **TINY,
    "training": {**TINY["training"], "rounds": ROUNDS, "slots": 2, "quorum": 1},
    "checkpoint": {"redundancy": 3},
}


class Sides:
    """Two networks. The relay is the home network's RPC for `zoo job branch`; its mode says whether that is in reach."""

    def __init__(self, home: LocalNetwork, far: LocalNetwork, folder: Path) -> None:
        self.home, self.far, self.folder = home, far, folder
        self.relay = Relay(home.devnet.network.rpcs[0], GethNode())
        self.account = home.devnet.account("submitter", zen=3_000 * ZEN)
        far.devnet.fund(str(self.account.address), coin=10**20, zen=3_000 * ZEN)
        self.relayed = folder / "relayed.json"
        replace(home.devnet.network, rpcs=(self.relay.url,), storage=load(home.network_path).storage).save(self.relayed)
        self.file = folder / "job.json"
        self.file.write_text(json.dumps({**WHOLE, "data": {"path": str(text(folder))}}))

    def client(self, network: Path, store: Path | None = None, say: Callable[[str], None] = print) -> Client:
        """By default with the store of the far side."""
        return Client(
            network=network, account=self.account, store=str(store or self.far.submitter_store), say=say
        )  # fmt: skip

    def at_home(self) -> Client:
        return self.client(self.home.network_path, self.home.submitter_store)

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 3 * HANG_S
        while not is_so():
            assert time.monotonic() < deadline, f"logs in {self.folder}"
            self.home.poll()
            self.far.poll()
            time.sleep(0.3)


@dataclass
class Outcome:
    """What waiting by came to."""

    sides: Sides
    folder: Path
    rule: Rule
    record: Record
    job: Job
    continued: Job
    branch: Job

    @property
    def parents(self) -> Parents:
        parents = manifest_of(self.continued.view(), self.sides.at_home().store).parents
        assert parents is not None
        return parents


def plans(trainer: str, *others: str, worker: tuple[str, ...] = (), **settings: Any) -> tuple[OperatorPlan, ...]:
    """One that trains and aggregates; all keep copies."""
    first = OperatorPlan(trainer, ROLES, capacity=2, worker_command=worker, settings=settings)
    return (first, *(OperatorPlan(name, ROLES[2:], settings=settings) for name in others))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("nets")
    with LocalNetwork(folder / "far", plans("delta", "epsilon", "zeta")) as far:
        slow = (
            sys.executable,
            "-m",
            "benchmarks.network.fixed_time_worker",
            "--slot-s",
            "2",
            "--log",
            f"{folder}/slow.jsonl",
        )
        ours = plans("alpha", "beta", "gamma", worker=slow, branch_networks=[str(far.network_path)])
        with LocalNetwork(folder / "home", ours, more_storage=load(far.network_path).storage) as home:
            made = Sides(home, far, folder)
            yield made
            made.relay.stop()


@pytest.fixture(scope="module")
def outcome(sides: Sides, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The chain is silent from the first checkpoint on, until the branch is posted."""
    folder, said, done = tmp_path_factory.mktemp("branch"), list[str](), list[Record]()
    even: Any = SimpleNamespace(loss=lambda _: 1.0)  # which side is better, so short a training leaves to chance
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partition, "Heldout", lambda *_: even)
        return partitioned(sides, folder, said, done)


def partitioned(sides: Sides, folder: Path, said: list[str], done: list[Record]) -> Outcome:
    job = sides.at_home().train(sides.file, BUDGET)
    rule = Rule(sides.file, after_s=4.0, rounds=1, slots=1, then=1, max_budget=BUDGET)

    def run() -> None:
        home, far = sides.client(sides.relayed, say=said.append), sides.client(sides.far.network_path)
        done.append(Partition(home, far, job.id, rule, folder).run())

    waiting = threading.Thread(target=run, daemon=True)
    waiting.start()
    sides.until(lambda: (folder / RECORD).exists() or bool(done))
    assert not done, "the job was over before its first checkpoint was kept"
    sides.relay.mode = "limits"
    sides.until(lambda: any("is the branch" in line for line in said))
    sides.relay.mode = "honest"
    sides.until(lambda: not waiting.is_alive())
    [record] = done
    home, far = sides.client(sides.home.network_path), sides.client(sides.far.network_path)
    return Outcome(sides, folder, rule, record, job, home.job(record.continued), far.job(record.branch))


def test_both_sides__are_merged_by_what_each_trained(outcome: Outcome) -> None:
    assert (outcome.job.view().completed_rounds, outcome.branch.view().completed_rounds) == (ROUNDS, 1)
    ends = {(branch.since, branch.round) for branch in outcome.parents.branches}
    assert ends == {(outcome.record.round, ROUNDS), (0, 1)}
    assert outcome.continued.check_parents(outcome.sides.client(outcome.sides.far.network_path)).matches


def test_nodes_train_the_job_that_continues__once_its_custodian_computed_the_merge(outcome: Outcome) -> None:
    outcome.sides.until(lambda: outcome.continued.view().settled)
    assert outcome.continued.view().completed_rounds == 1
    log = (outcome.sides.home.folder / "beta" / "logs" / "keeper.log").read_text()
    assert f"job {outcome.continued.id} begins at the merge of its parents" in log


def test_started_again__it_does_nothing_twice(outcome: Outcome) -> None:
    home, far = outcome.sides.at_home(), outcome.sides.client(outcome.sides.far.network_path)
    count = home.chain.tasks.job_count(), far.chain.tasks.job_count()
    assert Partition(home, far, outcome.job.id, outcome.rule, outcome.folder).run() == outcome.record
    assert (home.chain.tasks.job_count(), far.chain.tasks.job_count()) == count


def test_a_custodian__holds_no_job_that_begins_elsewhere_than_its_parents_say(outcome: Outcome) -> None:
    client, weights = outcome.sides.client(outcome.sides.home.network_path), outcome.folder / START
    first, second = outcome.parents.branches
    false = replace(outcome.parents, branches=(replace(first, examples=1_000_000), second))
    merge = Merge(state_root(load_state(weights)).hex(), false)
    job = client.train(outcome.sides.file, BUDGET, weights=weights, merge=merge, training={"rounds": 1})
    log = outcome.sides.home.folder / "beta" / "logs" / "keeper.log"
    outcome.sides.until(lambda: f"job {job.id} does not begin at the merge of its parents" in log.read_text())
    offers = scan(client.chain, client.description.first_block, client.chain.head().number, names=("CustodyOffered",))
    assert job.id not in {int(event.args["job"]) for event in offers}


def test_what_would_fail_when_nobody_is_there__is_refused_at_once(outcome: Outcome, tmp_path: Path) -> None:
    home, far, number = outcome.sides.at_home(), outcome.sides.client(outcome.sides.far.network_path), outcome.job.id
    with pytest.raises(UserError, match="both networks are"):
        Partition(home, outcome.sides.at_home(), number, outcome.rule, tmp_path).run()
    other = tmp_path / "other.json"
    wider = {**WHOLE["model"], "width": 32}
    other.write_text(json.dumps({**json.loads(outcome.sides.file.read_text()), "model": wider}))
    with pytest.raises(UserError, match="trains another program than job"):
        Partition(home, far, number, replace(outcome.rule, file=other), tmp_path).run()
    (tmp_path / RECORD).write_text("{}")
    with pytest.raises(UserError) as refused:
        Partition(home, far, number, outcome.rule, tmp_path)
    assert "choose another --folder" in str(refused.value.hint)
