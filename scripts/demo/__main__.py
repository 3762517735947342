"""`make demo`: a whole network on this machine trains a small GPT, loses a worker, convicts a liar, settles and pays.

Once the last checkpoint is posted, its aggregator dies: a custodian delivers the model.

    python -m scripts.demo [--data PATH] [--config FILE] [--json] [--folder DIR] [--no-kill] [--no-cheat] [--no-replay]

Progress goes to stderr, the report to stdout, all files to the run's folder. Ctrl-C ends every process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepers.cli.verify import LIES_EXIT_CODE
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from keepers.queue import broker
from scripts.demo import delivery, report
from scripts.demo.replay import Replaying
from scripts.demo.report import WITNESS
from scripts.demo.stage import Spectator, command_of, parser_of, run, say
from tests.support.liars.commands import lying_worker
from zoo_compute import Client
from zoo_compute.chain.custody import read_custody
from zoo_compute.chain.events import Event
from zoo_compute.chain.snapshot import read_operator
from zoo_compute.chain.views import JobState, JobView
from zoo_compute.errors import ZooError
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.paths import STATUS
from zoo_compute.spec.params import ZEN
from zoo_compute.store.cid import raw_cid

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "demo.yaml"
BUDGET = 60  # ZEN
AUDIT_BUDGET = 40  # ZEN
KILL_IN_ROUND = 1
LONGEST_RUN_S = 900
SETTLE_S = 120

# Every worker runs on this machine's CPU. The GPU classes are labels of the devnet preset, to show their multipliers.
PLANS = (
    OperatorPlan("alpha", roles=("provider", "custodian"), gpu_class=1, vram_gb=24, price="0.80"),
    OperatorPlan("beta", gpu_class=2, vram_gb=48, price="0.90"),
    OperatorPlan("gamma", gpu_class=3, vram_gb=80, price="1.00"),
    OperatorPlan("delta", roles=("aggregator", "custodian"), aggregator_price="0.50"),
    OperatorPlan("epsilon", roles=("verifier", "custodian"), sample_rate=0.2),
)
VICTIM = "beta"
# In the last round the liar flips one bit in this step of its first slot, and computes the rest from there. Its bid is the dearest, so it
# has the last two of six slots.
LIAR, LIE_IN_SLOT, LIE_IN_STEP = "gamma", 4, 7
PURSE = 20  # ZEN of the witness


class Demo:
    """One run, from an empty folder to its report."""

    def __init__(self, folder: Path, config: Path, data: Path, *, kill: bool, cheat: bool, with_replay: bool) -> None:
        self.folder = folder
        self.config = config
        self.data = data
        self.kill = kill
        self.with_replay = with_replay
        self.last_round = ComputeJob.from_file(config).training.rounds - 1
        lie = lying_worker(round=self.last_round, slot=LIE_IN_SLOT, step=LIE_IN_STEP)
        # Its own seat leaves it no capacity for those of others.
        plans = tuple(
            replace(plan, worker_command=lie, capacity=2) if cheat and plan.name == LIAR else plan for plan in PLANS
        )
        self.network = LocalNetwork(folder, plans)
        self.cheat = cheat
        self.witness: subprocess.Popen[bytes] | None = None
        self.killed_at: int | None = None
        self.resumed = False
        self.dead: str | None = None  # the aggregator, from its last checkpoint until the model is delivered
        self.delivery: delivery.Delivery | None = None
        self.replaying: Replaying | None = None

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        say(
            "starting the chain and five operators (three providers, an aggregator, a verifier); devnet preset, all on CPU"
        )
        with self.network:
            job = self.submit()
            self.follow(job)
            return self.finish(job, began)

    def submit(self) -> int:
        """Post the job from a new submitter with its own account, coin, ZEN and store."""
        account = self.network.devnet.account("submitter", zen=(BUDGET + AUDIT_BUDGET) * ZEN)
        store = str(self.network.submitter_store)
        client = Client(network=self.network.network_path, account=account, store=store, say=say)
        job = client.train(config=self.config, data=self.data, max_budget=BUDGET)
        job.fund_audits(AUDIT_BUDGET * ZEN)
        say(f"job {job.id} is posted, with {AUDIT_BUDGET} ZEN for auditors; its auction runs")
        return int(job.id)

    def follow(self, job: int) -> None:
        """Narrate and disturb the job until every wei is paid out."""
        spectator, ended = Spectator(self.network), None
        deadline = time.monotonic() + LONGEST_RUN_S
        while time.monotonic() < deadline:
            view, events, disputes = spectator.look(job)
            self.disturb(view, events)
            self.watch(view)
            self.replay(view)
            if view.state != JobState.ENDED or any(dispute.is_open for dispute in disputes):
                ended = None  # a conviction can make a job run again
            elif ended is None:
                ended = time.monotonic()
            if ended is not None:
                self.deliver(view)
            if ended is not None and (self.settled(view) or time.monotonic() > ended + SETTLE_S):
                self.check_witness()
                return
            time.sleep(0.3)
        raise ZooError(f"the job did not end within {LONGEST_RUN_S} s", hint=f"see the logs in {self.folder}")

    def settled(self, view: JobView) -> bool:
        """Whether every claim is paid, the model delivered, every lock released, every payment withdrawn, every sampled slot re-executed."""
        if self.delivery is None:
            return False
        chain = self.network.devnet.chain
        operators = [read_operator(chain, operator, view.block) for operator in self.network.operators]
        custody = read_custody(chain, view)
        if custody is None or any(role.reserve for role in custody.roles.values()):
            return False
        reports = self.network.verification_reports()
        verified = self.folder / "epsilon" / STATUS
        finished = str(view.job) not in json.loads(verified.read_text())["jobs"] if verified.exists() else True
        return finished and bool(reports) and all(not o.locks and not any(o.owed.values()) for o in operators)

    def disturb(self, view: JobView, events: list[Event]) -> None:
        """Kill the victim's worker while it trains; restart it after another operator took over its shard."""
        if not self.kill or view.run is None:
            return
        daemon = self.network.daemons[VICTIM]
        if self.killed_at is None and view.state == JobState.RUNNING and view.run.round == KILL_IN_ROUND:
            client = broker.connect(daemon.config.broker, daemon.config.folder)
            if any(client.scan_iter(match=f"zoo:lease:train-{view.job}-{KILL_IN_ROUND}-*")):
                pid = daemon.kill("worker-0", hold=True)
                self.killed_at = view.run.round
                say(f"!! kill -9 {pid}: {VICTIM}'s worker is gone in the middle of a shard")
        moved = any(event.name == "SeatTakenOver" for event in events)
        if self.killed_at is not None and not self.resumed and (moved or view.run.round > self.killed_at):
            self.resumed = True
            daemon.resume("worker-0")
            say(f"   {VICTIM}'s power is back")

    def deliver(self, view: JobView) -> None:
        """Of a job that ended: kill its aggregator, and have a custodian deliver the model once every claim is paid."""
        is_first = self.dead is None and self.delivery is None
        if self.kill and is_first and not self.rests_on_the_lie(view):
            self.dead = delivery.aggregator_of(view, self.network.operators)
            delivery.cut_power(self.network.daemons[self.dead])
            say(f"!! {self.dead} posted the last checkpoint; now all of its processes are killed")
        if not view.settled or self.delivery is not None:
            return
        self.delivery = delivery.deliver(self.network, view, self.folder / report.MODEL)
        say(f"   {self.delivery.custodian} delivers the model to its submitter")
        if self.dead is not None:
            delivery.restore_power(self.network.daemons[self.dead])
            say(f"   {self.dead}'s power is back: it withdraws what it earned")

    def rests_on_the_lie(self, view: JobView) -> bool:
        """Whether the newest checkpoint took the liar's slot in: then its round is done again."""
        made = view.checkpoint_of(view.completed_rounds)
        claim = view.committed(made.turn).get(LIE_IN_SLOT) if made else None
        return self.cheat and claim is not None and self.network.operators[claim.operator] == LIAR

    def watch(self, view: JobView) -> None:
        """Before the last round, start an outside verifier: `zoo verify JOB --follow --challenge`."""
        if not self.cheat or self.witness or view.run is None or view.run.turn < self.last_round - 1:
            return
        self.network.devnet.account(WITNESS, zen=PURSE * ZEN)
        home = self.folder / WITNESS
        home.mkdir()
        options = ["--turn", str(self.last_round), "--follow", "--challenge", "--store", str(home / "store"), "--json"]
        words, output = ["verify", str(view.job), *options], home / "verify.json"
        self.witness = command_of(self.network, words, WITNESS, home, log=home / "log", output=output)
        say(f"   an outside witness re-executes what is committed: zoo verify {view.job} {' '.join(options[:4])}")

    def replay(self, view: JobView) -> None:
        """Repeat the closed rounds in a single process; the last one at the end, as a conviction may have it done again."""
        if not self.with_replay:
            return
        if self.replaying is None:
            self.replaying = Replaying(self.folder, report.peers_of(self.network), raw_cid(view.terms.manifest))
        self.replaying.follow(report.masks_of(view)[:-1])

    def check_witness(self) -> None:
        if self.witness is not None and self.witness.wait(SETTLE_S) not in (0, LIES_EXIT_CODE):
            raise ZooError("the witness failed", hint=f"see {self.folder / WITNESS / 'log'}")

    def finish(self, job: int, began: float) -> dict[str, Any]:
        say("reading the books and comparing with the replay of the job in a single process")
        began_reading = time.monotonic()
        if self.delivery is None:
            raise ZooError("the model was not delivered", hint=f"see the logs in {self.folder}")
        if self.kill and self.delivery.aggregator_runs:
            raise ZooError(f"{self.delivery.aggregator} was alive when the model was delivered")
        config = ComputeJob.from_file(self.config)
        result = report.collect(self.network, job, config, self.folder, self.replaying, self.delivery)
        result.report["books_s"] = round(time.monotonic() - began_reading, 1)
        result.report["wall_s"] = round(time.monotonic() - began, 1)
        result.save(self.folder)
        if not int(result.report["audits"]["paid"]):
            raise ZooError("no auditor was paid", hint=f"see {self.folder / 'epsilon' / 'logs' / 'keeper.log'}")
        if not int(result.report["custody"]["paid"]):
            raise ZooError("no custodian was paid", hint=f"see {self.folder / 'epsilon' / 'logs' / 'keeper.log'}")
        return result.report | {"text": result.text()}


def default_data() -> Path:
    """Text that every Python has: the standard library's source."""
    return Path(sysconfig.get_path("stdlib"))


def main() -> int:
    parser = parser_of("demo", (__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=default_data(), help="text to train on: a file or a folder")
    parser.add_argument(
        "--config", type=Path, default=CONFIG, help="the job's configuration (default: scripts/demo/demo.yaml)"
    )
    parser.add_argument("--no-kill", action="store_true", help="kill neither a worker nor the aggregator")
    parser.add_argument("--no-cheat", action="store_true", help="make no worker lie")
    parser.add_argument("--no-replay", action="store_true", help="skip the single-process replay at the end")
    arguments = parser.parse_args()

    def play(folder: Path) -> dict[str, Any]:
        kill, cheat, with_replay = not arguments.no_kill, not arguments.no_cheat, not arguments.no_replay
        return Demo(folder, arguments.config, arguments.data, kill=kill, cheat=cheat, with_replay=with_replay).run()

    return run("demo", arguments, play)


if __name__ == "__main__":
    sys.exit(main())
