"""Rewards and Datasets against their specification, in lockstep through seeded walks; with accounts in the recorders' place.

The law: both accept, answer the same and show the same, or both refuse for the same reason and nothing changes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest

from tests.support.evm import Reverted, chain
from tests.support.rewards_driver import DEVNET, EPOCH_S, GBPS, RewardsStage
from zoo_compute.spec import datasets, node_registry, promises, rewards
from zoo_compute.spec.params import FEE_BPS, REWARD_CAP_BPS, REWARD_FLOW_BPS, ZEN, Flow
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import (
    CalledFees,
    Citation,
    Config,
    Dataset,
    Earned,
    Job,
    JobState,
    Message,
    Receipt,
    Signed,
    Traffic,
    World,
)

STEPS = 130
JOBS = (1, 2)
NODES = 3
FEES = (0, 1, 3, 20, 999, 10**6, 100 * ZEN, 3_000 * ZEN)
WEIGHTS = (0, 1, 50, 10**12, 10**20)
ROOT, NAMED = b"\x01" * 32, b"named".ljust(32, b"\0")


class Twin:
    """Both sides. `call` makes one step on each."""

    def __init__(self, stage: RewardsStage) -> None:
        self.s = stage
        self.nodes = [stage.register(gpu_class=3) for _ in range(NODES)]
        config = Config(
            preset=DEVNET,
            zen=str(stage.zen.address),
            registry=str(stage.registry.address),
            rewards=str(stage.rewards.address),
        )
        self.w = World(config=config)
        for account in (stage.deployer, *(node.owner for node in self.nodes)):
            self.w.balances[config.zen, str(account)] = 10**9 * ZEN
        for node in self.nodes:
            args = (node.hot.address, 3, 80, DEVNET.min_stake, "http://node")
            assert node_registry.register(self.w, self.message(node.owner), *args) == node.id
        self.contributors = [str(chain.account(f"contributor {i}")) for i in range(2)]
        self.reasons: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()

    @property
    def now(self) -> int:
        return int(chain.timestamp)

    def message(self, sender: Any) -> Message:
        return Message(str(sender), self.now, block_time=self.now)

    def call(self, name: str, ours: Callable[[World], Any], theirs: Callable[[], Any]) -> None:
        """One step on both sides, compared."""
        after, refused = self.w.fork(), ""
        try:
            result = ours(after)
        except Refused as refusal:
            refused = refusal.reason
        if refused:
            self.reasons[refused] += 1
            with pytest.raises(Reverted) as caught:
                theirs()
            assert caught.value.reason == refused, name
        else:
            self.accepted[name] += 1
            answer = theirs()
            assert result is None or answer == result, f"{name}: contract {answer}, specification {result}"
            self.w = after
        self.compare()

    # --- what is shown

    def compare(self) -> None:
        w, contract = self.w, self.s.rewards
        assert contract.pool() == w.pool
        assert self.s.zen.balanceOf(contract) == w.pool + sum(e.budget - e.paid for e in w.epochs.values())
        now = self.s.epoch
        for epoch in (now, now - 1):
            assert tuple(contract.epochs(epoch)) == astuple(w.epoch(epoch))
            assert tuple(contract.called(epoch)) == tuple(w.called.get((flow, epoch), 0) for flow in (3, 4))
            assert contract.total_bytes(epoch) == w.total_bytes.get(epoch, 0)
        node, job = self.nodes[self.now % NODES].id, JOBS[self.now % len(JOBS)]
        other = self.nodes[(self.now + 1) % NODES].id
        assert tuple(contract.job_fees(job)) == astuple(w.fees_of(job))
        assert tuple(contract.shares(node, now, job)) == astuple(w.share(node, now, job))
        assert tuple(contract.earned(node, now - 1)) == astuple(w.earned.get((node, now - 1), Earned()))
        assert tuple(contract.served(node, now)) == astuple(w.served.get((node, now), Traffic()))
        assert tuple(contract.signed(node, now)) == astuple(w.signed.get((node, now), Signed()))
        assert tuple(contract.pairs(node, other, now)) == astuple(w.pairs.get((node, other, now), Traffic()))
        assert contract.return_bps(node, now - 1) == rewards.return_bps(w, node, now - 1)
        for flow in (Flow.VERIFICATION, Flow.DATA):
            call = w.reward_calls.get((flow, job, now), CalledFees())
            assert tuple(contract.calls(flow, job, now)) == astuple(call)
        citation = w.citations.get(job, Citation())
        assert tuple(self.s.datasets.citations(job)) == (list(citation.cited), citation.scored)
        newest = len(w.datasets)
        assert self.s.datasets.dataset_count() == newest
        assert tuple(self.s.datasets.datasets(newest)) == astuple(w.datasets.get(newest, Dataset()))
        assert self.s.datasets.named(NAMED) == w.dataset_names.get(NAMED, 0)
        check_caps(w)


def check_caps(w: World) -> None:
    """Each epoch pays at most its budget, and what all flows of a job may pay is at most its fee."""
    for epoch in w.epochs.values():
        assert epoch.paid <= epoch.budget <= w.config.preset.emission_per_epoch
    for fees in w.job_fees.values():
        assert fees.verification <= fees.fees * REWARD_CAP_BPS[Flow.VERIFICATION] // 10_000
        assert fees.data <= fees.fees * REWARD_CAP_BPS[Flow.DATA] // 10_000
    assert sum(epoch.paid for epoch in w.epochs.values()) <= sum(fees.fees for fees in w.job_fees.values())


class Walk:
    """One seeded walk: every step draws a deed."""

    def __init__(self, twin: Twin, seed: int) -> None:
        self.t, self.r = twin, random.Random(seed)

    def node(self) -> Any:
        return self.r.choice(self.t.nodes)

    def epoch(self) -> int:
        return self.t.s.epoch - self.r.choice((0, 1, 1, 1, 2, 91))

    def fund(self) -> None:
        s, amount = self.t.s, self.r.choice((0, 7, 10**6, 500 * ZEN, 5_000 * ZEN))
        self.t.call("fund", lambda w: rewards.fund(w, self.t.message(s.deployer), amount), lambda: s.fund(amount))

    def record(self) -> None:
        s, node, job = self.t.s, self.node(), self.r.choice(JOBS)
        weight, fee = self.r.choice(WEIGHTS), self.r.choice(FEES)
        self.t.call(
            "record",
            lambda w: rewards.record(w, job, node.id, weight, fee, now=self.t.now),
            lambda: s.record(job, node, weight, fee),
        )

    def verify(self) -> None:
        s, node, job, weight = self.t.s, self.node(), self.r.choice(JOBS), self.r.choice(WEIGHTS)
        self.t.call(
            "record_verification",
            lambda w: rewards.record_verification(w, node.id, job, weight, now=self.t.now),
            lambda: s.verify(node, job, weight),
        )

    def data(self) -> None:
        s, who, job = self.t.s, self.r.choice(self.t.contributors), self.r.choice(JOBS)
        size, quality = self.r.choice((1, 1_000)), self.r.randint(0, 100)
        self.t.call(
            "record_data",
            lambda w: rewards.record_data(w, who, job, quality * size, 100 * size, now=self.t.now),
            lambda: s.data(who, job, quality * size, 100 * size),
        )

    def redeem_any(self) -> None:
        s, server, client = self.t.s, self.node(), self.node()
        epoch = s.epoch - self.r.choice((0, 0, 0, 0, 1))
        last = self.t.w.pairs.get((server.id, client.id, epoch), Traffic()).total
        total = max(0, last + self.r.choice((-1, 0, 1, 10**9, GBPS // 2, GBPS, 2**40, 2**128)))
        signer = client if self.r.random() < 0.9 else server
        sender = server.hot.address if self.r.random() < 0.95 else server.owner
        self.redeem(server, client, total, epoch=epoch, signer=signer, sender=sender)

    def redeem(self, server: Any, client: Any, total: int, **changes: Any) -> None:
        """By default as it should be; another `signer` signs as the client that it is."""
        s, signer = self.t.s, changes.get("signer", client)
        epoch, sender = changes.get("epoch", self.t.s.epoch), changes.get("sender", server.hot.address)
        receipt = Receipt(signer.hot.address, server.id, signer.id, epoch, total)
        signature = s.sign(signer, server, epoch, total)
        self.t.call(
            "redeem",
            lambda w: rewards.redeem(w, self.t.message(sender), server.id, client.id, epoch, total, receipt),
            lambda: s.redeem(server, client, total, epoch=epoch, signature=signature, sender=sender),
        )

    def beat(self) -> None:
        s, node = self.t.s, self.node()
        self.t.call(
            "heartbeat",
            lambda w: promises.heartbeat(w, self.t.message(node.hot.address), node.id),
            lambda: s.registry.heartbeat(node.id, sender=node.hot.address),
        )

    def declare(self) -> None:
        s, node, tier = self.t.s, self.node(), self.r.randint(0, 3)
        self.t.call(
            "declare",
            lambda w: promises.declare(w, self.t.message(node.owner), node.id, tier, 1),
            lambda: s.registry.declare(node.id, tier, 1, sender=node.owner),
        )

    def claim(self) -> None:
        s, node, epoch = self.t.s, self.node(), self.epoch()
        jobs = tuple(self.r.choice(JOBS) for _ in range(self.r.randint(0, 4)))
        self.t.call(
            "claim",
            lambda w: rewards.claim(w, self.t.message(s.anyone), node.id, epoch, jobs),
            lambda: s.claim(node, epoch, *jobs),
        )

    def work(self, flow: Flow) -> tuple[Any, int, int]:
        """Who, for which job and of which epoch: mostly a weight that is still there."""
        there = [key[1:] for key in self.t.w.works if key[0] == flow]
        if there and self.r.random() < 0.9:
            return self.r.choice(there)
        who = self.node().id if flow == Flow.VERIFICATION else self.r.choice(self.t.contributors)
        return who, self.r.choice(JOBS), self.epoch()

    def claim_verification(self) -> None:
        s, (who, job, epoch) = self.t.s, self.work(Flow.VERIFICATION)
        self.t.call(
            "claim_verification",
            lambda w: rewards.claim_verification(w, self.t.message(s.anyone), who, job, epoch),
            lambda: s.rewards.claim_verification(who, job, epoch, sender=s.anyone),
        )

    def claim_data(self) -> None:
        s, (who, job, epoch) = self.t.s, self.work(Flow.DATA)
        self.t.call(
            "claim_data",
            lambda w: rewards.claim_data(w, self.t.message(s.anyone), who, job, epoch),
            lambda: s.rewards.claim_data(who, job, epoch, sender=s.anyone),
        )

    def recycle(self) -> None:
        s = self.t.s
        unspent = [epoch for epoch, total in self.t.w.epochs.items() if total.budget > total.paid]
        epoch = self.r.choice([*unspent, s.epoch])
        if self.r.random() < 0.3:
            s.to_epoch(max(s.epoch, epoch + self.r.choice((90, 91))))
        self.t.call(
            "recycle",
            lambda w: rewards.recycle(w, self.t.message(s.anyone), epoch),
            lambda: s.rewards.recycle(epoch, sender=s.anyone),
        )

    def contribute(self) -> None:
        who, name = self.r.choice(self.t.contributors), bytes([len(self.t.w.datasets) + 1]) * 32
        root, size = self.r.choice((ROOT, ROOT, bytes(32))), self.r.choice((0, 1, 500, 2**64 - 1, 2**64))
        self.contribute_as(who, root, ROOT, size, name if size == 500 else bytes(32))

    def contribute_as(self, who: Any, *answer: Any) -> None:
        ours, theirs, message = datasets.contribute, self.t.s.datasets.contribute, self.t.message(who)
        self.t.call("contribute", lambda w: ours(w, message, *answer), lambda: theirs(*answer, sender=who))

    def advance_job(self) -> None:
        """TaskRegistry's part: a job is opened, ends, and is settled."""
        s, job = self.t.s, self.r.choice(JOBS)
        states = [(JobState.RUNNING, 5), (JobState.ENDED, 5), (JobState.ENDED, 0)]
        state, escrow = self.r.choice(states[2 * (job in self.t.w.citations and self.r.random() < 0.7) :])
        self.t.w.jobs[job] = Job(submitter=str(s.submitter), state=state, escrow=escrow)
        s.tasks.set_job(job, s.submitter, int(state), escrow)

    def cite(self) -> None:
        s, job = self.t.s, self.r.choice(JOBS)
        cited = tuple(self.r.choice(((), (1,), (1, 2), (2, 1), (1, 9), (0,))))
        sender = self.r.choice((s.submitter, s.submitter, s.anyone))
        self.t.call(
            "cite",
            lambda w: datasets.cite(w, self.t.message(sender), job, cited),
            lambda: s.datasets.cite(job, list(cited), sender=sender),
        )

    def score(self) -> None:
        s, job = self.t.s, self.r.choice(JOBS)
        count = len(self.t.w.citations.get(job, Citation()).cited) - (self.r.random() < 0.1)
        qualities = tuple(self.r.choice((0, 1, 50, 99, 100, 100, 100, 101)) for _ in range(max(0, count)))
        sender = self.r.choice((*(5 * [s.submitter]), s.anyone))
        self.t.call(
            "score",
            lambda w: datasets.score(w, self.t.message(sender), job, qualities),
            lambda: s.datasets.score(job, list(qualities), sender=sender),
        )

    def wait(self) -> None:
        chain.timestamp = self.t.now + self.r.choice((1, 5, EPOCH_S // 2))

    def a_job_with_data(self) -> None:
        """From the citation to the last claim, with what is refused on the way."""
        t, s, job = self.t, self.t.s, 9
        for who in (t.contributors[0], t.contributors[-1]):
            self.contribute_as(who, ROOT, ROOT, 1, NAMED)
        phases = {
            (JobState.RUNNING, 5): [("cite", ()), ("cite", (2, 1)), ("cite", (1,)), ("cite", (1,)), ("score", (1,))],
            (JobState.ENDED, 0): [("score", ()), ("score", (101,)), ("score", (60,)), ("score", (60,))],
        }
        t.call("fund", lambda w: rewards.fund(w, t.message(s.deployer), 10**9), lambda: s.fund(10**9))
        t.call(
            "record",
            lambda w: rewards.record(w, job, t.nodes[0].id, 1, 10**6, now=t.now),
            lambda: s.record(job, t.nodes[0], 1, 10**6),
        )
        for (state, escrow), calls in phases.items():
            t.w.jobs[job] = Job(submitter=str(s.submitter), state=state, escrow=escrow)
            s.tasks.set_job(job, s.submitter, int(state), escrow)
            for name, args in calls:
                t.call(
                    name,
                    lambda w, name=name, args=args: getattr(datasets, name)(w, t.message(s.submitter), job, args),
                    lambda name=name, args=args: getattr(s.datasets, name)(job, list(args), sender=s.submitter),
                )
        epoch, owner = s.next_epoch(), t.w.datasets[1].contributor
        t.call(
            "claim_data",
            lambda w: rewards.claim_data(w, t.message(s.anyone), owner, job, epoch),
            lambda: s.rewards.claim_data(owner, job, epoch, sender=s.anyone),
        )

    def a_violation(self) -> None:
        """The narrowest link's owner signs for more than it carries, to two servers; the third call finds it out."""
        self.t.s.next_epoch()
        epoch = self.t.s.epoch
        client, *servers = sorted(self.t.nodes, key=lambda node: rewards.link_bytes(self.t.w, node.id, epoch))
        half = rewards.link_bytes(self.t.w, client.id, epoch) // 2 + 1
        for server, total in ((servers[0], half), (servers[1], half), (servers[0], half + 1)):
            self.redeem(server, client, total)

    def run(self) -> None:
        deeds = [
            *(
                3
                * [self.record, self.claim, self.redeem_any, self.beat, self.wait, self.verify, self.claim_verification]
            ),
            *(2 * [self.fund, self.claim_data, self.data, self.advance_job, self.cite, self.score]),
            *(self.declare, self.recycle, self.contribute),
        ]
        for deed in (self.contribute, self.contribute, self.contribute, self.advance_job, self.cite):
            deed()
        for _ in range(STEPS):
            self.r.choice(deeds)()
        self.a_job_with_data()
        self.a_violation()


REASONS: Counter[str] = Counter()
ACCEPTED: Counter[str] = Counter()


@pytest.fixture(scope="module")
def deployed() -> RewardsStage:
    return RewardsStage()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_contract_and_specification__agree_through_a_walk(deployed: RewardsStage, seed: int) -> None:
    with chain.anchor():
        twin = Twin(deployed)
        Walk(twin, seed).run()
        REASONS.update(twin.reasons)
        ACCEPTED.update(twin.accepted)
    deployed.count = 0


@pytest.mark.long
def test_the_walks__reached_every_function_and_refusal() -> None:
    """Runs after the walks of this process; refusals of strangers to the recorders are unit tests'."""
    if not ACCEPTED:
        pytest.skip("the walks ran elsewhere")
    functions = {"fund", "record", "record_verification", "record_data", "redeem", "claim", "claim_verification"}
    functions |= {"claim_data", "recycle", "contribute", "cite", "score", "heartbeat", "declare"}
    assert functions - set(ACCEPTED) == set()
    expected = {
        *("rewards: zero amount", "rewards: epoch not over", "rewards: epoch expired", "rewards: nothing to claim"),
        *("rewards: claims still open", "rewards: nothing to recycle", "rewards: not the hot key"),
        *("rewards: not the current epoch", "rewards: own receipt", "rewards: signer has violated"),
        *("rewards: receipt not signed", "rewards: nothing new", "rewards: beyond the server's link"),
        *("datasets: zero root", "datasets: size out of range", "datasets: not the submitter", "datasets: job is over"),
        *("datasets: already cited", "datasets: nothing cited", "datasets: unknown dataset", "datasets: out of order"),
        *("datasets: already scored", "datasets: job not settled", "datasets: one score each"),
        *("datasets: score out of range", "datasets: name taken"),
    }
    assert expected - set(REASONS) == set()


def test_the_shares__sum_to_the_whole() -> None:
    assert sum(REWARD_FLOW_BPS.values()) == sum(REWARD_CAP_BPS.values()) == 10_000
    assert FEE_BPS == 500
