"""A job of four slots on one chain; for --cut-s seconds in its middle, the node with two of them reaches nobody there, but a second chain.

    python -m benchmarks.network.two_chains [--json] [--cut-s 600] [--before 4] [--rounds 20] [--branch-rounds 12] [--then 4] [--step-s 0.4]

Real keepers, workers and gateways, and `zoo job branch` on the side that is cut off: nothing else is done to either chain than that their
clocks are put forward past the windows at the end. While it is apart, the first chain's job goes on by its quorum, and a branch trains
on the second. Afterwards both are merged, custodians of the first chain compute the merge before they hold it, and the job goes on.

  parted_s   from the cut to the branch's first round: --after-s of it is waited for
  loss       held-out: base (where the sides parted), home and branch (their ends), start and end of the job that continues; undivided: one
             job of as many rounds as the first and the last have, all slots in all of them
  money      of each job: escrow in and out, in the token's smallest units; operators: paid, and what they lost
  custody    of each job: what custodians were paid, what they still have reserved, and who holds the last checkpoint
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lab import Link, laboratory
from benchmarks.lab.run_parameters import parameters_of
from benchmarks.network.large_job import Submitter
from benchmarks.network.utilisation import SUBMITTER, ShapedNetwork
from benchmarks.training.loss_gap import HELDOUT, MODEL, TEXT, published
from keepers.config import OperatorConfig
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from node.replay import simulate
from zoo_compute.chain.events import scan
from zoo_compute.chain.ledger import job_account
from zoo_compute.chain.network import load
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobState, JobView
from zoo_compute.client.client import Client
from zoo_compute.client.results import manifest_of
from zoo_compute.jobs.data_source import dataset_of
from zoo_compute.jobs.loading import plan_job
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore

CHAIN, CUT_OFF = "chain", "beta"
SLOTS, OWN, BUDGET = 4, 2, 200
LONGEST_S = 5_400
HOME_ROLES = {
    "alpha": ("provider", "custodian"),
    CUT_OFF: ("provider", "custodian"),
    "gamma": ("aggregator", "custodian"),
}
FAR_ROLES = {"delta": ("provider", "custodian"), "epsilon": ("aggregator", "custodian"), "zeta": ("custodian",)}


def plans(
    roles: Mapping[str, tuple[str, ...]], worker: tuple[str, ...] = (), **settings: Any
) -> tuple[OperatorPlan, ...]:
    return tuple(
        OperatorPlan(name, roles=each, price="0.001", aggregator_price="0.001", capacity=OWN, worker_command=worker, settings=settings)
        for name, each in roles.items()
    )  # fmt: skip


def job_file(options: argparse.Namespace, folder: Path) -> Path:
    slot_s = 30 * options.step_s
    training = {
        "batch_size": 8,
        "inner_steps": 30,
        "segment_steps": 10,
        "rounds": options.rounds,
        "slots": SLOTS,
        "quorum": 2,
    }
    training |= {"learning_rate": 0.004, "warmup_steps": 10, "outer_learning_rate": 0.8, "outer_momentum": 0.6}
    job = {
        "model": MODEL,
        "data": {"paths": [str(each) for each in TEXT], "heldout": HELDOUT},
        "training": training,
        "aggregation": {"rule": "mean"},
        "checkpoint": {"redundancy": 3},
        "market": {"reserve": "0.001", "max_price": "0.00125", "aggregator_reserve": "0.001", "aggregator_max_price": "0.00125"},
        "limits": {"slot_s": round(30 + 3 * slot_s), "aggregate_s": 60, "reexecute_s": 30, "depth": 16},
    }  # fmt: skip
    path = folder / "job.json"
    path.write_text(json.dumps(job, indent=1))
    return path


@dataclass(kw_only=True)
class HomeNetwork(ShapedNetwork):
    """The cut-off operator reaches its chain over the laboratory's links as well. more_storage: the gateway of its side."""

    def enlist(self, plan: OperatorPlan) -> OperatorConfig:
        if plan.name == CUT_OFF:
            settings = {**plan.settings, "network": str(self.seen("keeper", load(self.network_path).storage))}
            plan = dataclasses.replace(plan, settings=settings)
        return super().enlist(plan)

    def seen(self, by: str, storage: Sequence[str]) -> Path:
        """A network file of the side that is cut off."""
        path = self.folder / f"network-of-{by}.json"
        port = int(self.devnet.network.rpcs[0].rpartition(":")[2])
        host, relayed = self.lab.endpoint(CHAIN, port, seen_from=CUT_OFF)
        dataclasses.replace(self.devnet.network, rpcs=(f"http://{host}:{relayed}",), storage=tuple(storage)).save(path)
        return path

    def start(self) -> None:
        super().start()
        (far_storage,) = self.more_storage
        port = int(far_storage.rpartition(":")[2])
        for name in self.daemons:
            host, relayed = self.lab.endpoint(CUT_OFF, port, seen_from=name)
            way = far_storage if name == CUT_OFF else f"http://{host}:{relayed}"
            routes = json.loads(self.routes(name).read_text())
            self.routes(name).write_text(json.dumps({**routes, far_storage: way}))

    def submitters_file(self) -> Path:
        """What `zoo job branch` reaches this network by."""
        port = int(load(self.network_path).storage[0].rpartition(":")[2])
        host, relayed = self.lab.endpoint(SUBMITTER, port, seen_from=CUT_OFF)
        return self.seen("branch", (f"http://{host}:{relayed}", *self.more_storage))


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass
class Sides:
    """Both networks, and when their jobs' rounds were closed, in seconds since the start."""

    home: HomeNetwork
    far: LocalNetwork
    began: float = field(default_factory=time.monotonic)
    rounds: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))

    def now(self) -> float:
        return time.monotonic() - self.began

    def poll(self) -> None:
        """Keep all processes running, note rounds, and put the clocks past the windows of jobs that are over."""
        for side, network in (("home", self.home), ("far", self.far)):
            network.poll()
            for number in range(1, network.devnet.chain.tasks.job_count() + 1):
                self._note(side, network, read_job(network.devnet.chain, number))
        time.sleep(1)

    def _note(self, side: str, network: LocalNetwork, view: JobView) -> None:
        seen = self.rounds[side, view.job]
        while len(seen) < view.completed_rounds:
            seen.append(self.now())
            made = view.checkpoint_of(len(seen))
            say(f"{side}: round {len(seen)} of job {view.job} is closed, of slots {bin(made.mask) if made else '?'}")
        if view.state == JobState.ENDED and view.run and view.pending:
            network.devnet.warp(view.run.window_s)

    def until(self, what: str, is_so: Any) -> None:
        while not is_so():
            if self.now() > LONGEST_S:
                raise TimeoutError(f"not within {LONGEST_S} s: {what}; logs in {self.home.folder.parent}")
            self.poll()


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    link, hosts = Link.of_round_trip(options.mbit, options.rtt_ms / 1000), [*HOME_ROLES, SUBMITTER, CHAIN]
    slot_s, log = str(30 * options.step_s), str(folder / "far-workers.jsonl")
    paced = (sys.executable, "-m", "benchmarks.network.fixed_time_worker", "--slot-s", slot_s, "--log", log)
    with (
        laboratory(dict.fromkeys(hosts, link), "relay") as lab,
        LocalNetwork(folder / "far", plans(FAR_ROLES, paced)) as far,
        HomeNetwork(
            folder / "near",
            plans(HOME_ROLES, branch_networks=[str(far.network_path)]),
            lab=lab,
            step_s=dict.fromkeys(HOME_ROLES, options.step_s),
            more_storage=load(far.network_path).storage,
        ) as home,
    ):
        sides, submitter, path = Sides(home, far), Submitter(home, folder), job_file(options, folder)
        far.devnet.fund(str(home.devnet.account(SUBMITTER).address), coin=10**20, zen=2 * BUDGET * ZEN)
        number = int(submitter.zoo("train", str(path), "--max-budget", str(BUDGET), "--no-watch")["job"])
        branching = start_branch(options, submitter, sides, number, path)
        try:
            sides.until("the rounds before the cut", lambda: len(sides.rounds["home", number]) >= options.before)
            cut_at = sides.now()
            say("cut")
            lab.order("cut", CUT_OFF, value=True)
            sides.until("the partition", lambda: sides.now() > cut_at + options.cut_s)
            lab.order("cut", CUT_OFF, value=False)
            healed_at = sides.now()
            say("healed")
            sides.until("the merge", lambda: branching.poll() is not None)
            done = json.loads(branching.communicate()[0])
            say(f"zoo job branch: {done}")
        finally:
            branching.kill()
            branching.wait()
        ours = home.devnet.chain
        sides.until("the end", lambda: read_job(ours, done["continued"]).settled and read_job(ours, number).settled)
        jobs = {"home": (home, number), "branch": (far, done["branch"]), "continued": (home, done["continued"])}
        first = min(sides.rounds["far", done["branch"]])
        mine = sides.rounds["home", number]
        return {
            "wall_s": round(sides.now()),
            "cut_s": round(healed_at - cut_at),
            "parted_s": round(first - cut_at),
            "checkpoint": done["checkpoint"],
            "rounds": {
                "home": {
                    "before": sum(at <= cut_at for at in mine),
                    "during": sum(cut_at < at <= healed_at for at in mine),
                    "after": sum(healed_at < at for at in mine),
                },
                "branch": {
                    "during": sum(at <= healed_at for at in sides.rounds["far", done["branch"]]),
                    "after": sum(at > healed_at for at in sides.rounds["far", done["branch"]]),
                },
                "continued": len(sides.rounds["home", done["continued"]]),
            },
            "loss": losses(options, path, far, jobs),
            "money": {name: money(*at) for name, at in jobs.items()},
            "custody": {name: custody(at[0], at[1], far) for name, at in jobs.items()},
            "parents_agree": parents_agree(submitter, done["continued"], far),
        }


def start_branch(
    options: argparse.Namespace, submitter: Submitter, sides: Sides, number: int, path: Path
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "zoo_compute.cli.main", "job", "branch", str(number), str(path), "--json"]
    command += ["--on", str(sides.far.network_path), "--after", str(options.after_s), "--max-budget", str(BUDGET)]
    command += ["--slots", str(OWN), "--rounds", str(options.branch_rounds), "--then", str(options.then)]
    environment = {
        **submitter.environment,
        "ZOO_NETWORK": str(sides.home.submitters_file()),
        "ZOO_STORE": str(sides.far.submitter_store),
    }
    log = (submitter.folder / "branch.log").open("w")
    return subprocess.Popen(command, cwd=submitter.folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)  # fmt: skip


def client_of(network: LocalNetwork, store: Path) -> Client:
    return Client(network=network.network_path, store=str(store))


def losses(options: argparse.Namespace, path: Path, far: LocalNetwork, jobs: Mapping[str, Any]) -> dict[str, float]:
    ends = dict[str, tuple[float, float]]()
    for name, (network, number) in jobs.items():
        first, last = client_of(network, far.submitter_store).job(number).evaluate()
        if first.loss is None or last.loss is None:
            raise RuntimeError(f"nobody keeps the first or the last checkpoint of job {number}")
        ends[name] = first.loss, last.loss
    whole = plan_job(path, BUDGET, training={"rounds": options.rounds + options.then}).job
    manifest, files = published(whole, dataset_of(whole, say))
    masks = [(1 << SLOTS) - 1] * manifest.rounds
    undivided = simulate(manifest, files.programs, files.checkpoint, files.examples, files.heldout, masks).losses
    return {
        "first": ends["home"][0],
        "base": ends["branch"][0],
        "home": ends["home"][1],
        "branch": ends["branch"][1],
        "start": ends["continued"][0],
        "end": ends["continued"][1],
        "undivided_at_start": undivided[options.rounds],
        "undivided": undivided[-1],
        "gap": ends["continued"][1] / undivided[-1] - 1,
    }


def money(network: LocalNetwork, number: int) -> dict[str, Any]:
    """Of one job. balanced: what went in came out, and nothing is held."""
    chain, view = network.devnet.chain, read_job(network.devnet.chain, number)
    account, names = job_account(chain, view), network.operators
    paid = dict.fromkeys(names.values(), 0)
    owners = {str(network.devnet.account(f"{name}-owner").address): name for name in names.values()}
    for event in scan(chain, view.posted_block, view.block, names=("Paid",), job=number):
        paid[owners[event.args["account"]]] += event.args["net"]
    totals = {
        name: getattr(account, name) for name in ("escrowed", "restored", "paid", "fee", "refunded", "held", "slashed")
    }
    is_balanced = (
        account.held == 0 and account.escrowed + account.restored == account.paid + account.fee + account.refunded
    )
    lost = [
        {"operator": names[each.operator], "amount": each.amount, "returned": each.returned, "turn": each.turn, "why": each.why}
        for each in account.penalties
    ]  # fmt: skip
    return {**totals, "balanced": is_balanced, "operators": paid, "lost": lost}


def custody(network: LocalNetwork, number: int, far: LocalNetwork) -> dict[str, Any]:
    job, names = client_of(network, far.submitter_store).job(number), network.operators
    held, copies = job.custody(), job.redundancy()
    assert held is not None, "the jobs ask for custodians"
    places, view = held["places"], job.view()
    forfeited = scan(
        network.devnet.chain, view.posted_block, view.block, names=("ReserveForfeited", "CustodianLapsed"), job=number
    )
    return {
        "paid": {names[each["operator"]]: each["paid"] for each in places if each["operator"]},
        "reserved": sum(int(each["reserve"]) for each in places),
        "escrow": held["escrow"],
        "forfeited": {names[event.args["operator"]]: event.args["burned"] for event in forfeited},
        "demands": len(view.demands),
        "last_checkpoint": copies and {"wanted": copies.wanted, "confirmed": copies.confirmed},
    }


def parents_agree(submitter: Submitter, number: int, far: LocalNetwork) -> bool | None:
    """None: it continues from one side, as that had less loss than the merge."""
    view = read_job(submitter.network.devnet.chain, number)
    if manifest_of(view, BlockStore(far.submitter_store)).parents is None:
        return None
    return bool(submitter.zoo("job", "parents", str(number), "--branch-network", str(far.network_path))["agrees"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut-s", type=float, default=600)
    parser.add_argument(
        "--after-s", type=float, default=60, help="silence of the chain after which the branch is posted"
    )
    parser.add_argument("--before", type=int, default=4, help="rounds before the cut")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--branch-rounds", type=int, default=12)
    parser.add_argument("--then", type=int, default=4, help="rounds after the merge")
    parser.add_argument("--step-s", type=float, default=0.4)
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--rtt-ms", type=float, default=40)
    parser.add_argument("--folder", type=Path, help="to keep logs in; by default a temporary one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="two-chains-") as scratch:
        folder = (options.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        result = {"parameters": parameters_of(options), **measured(options, folder)}
    print(json.dumps(result, indent=None if options.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
