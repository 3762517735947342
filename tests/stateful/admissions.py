"""Rules of a walk: operators show their machines, are recalled by chance, and lose what they cannot show."""

from dataclasses import replace
from typing import Any

from tests.stateful.rules import precondition, rule
from tests.stateful.walk import BOTH, INDEX, OFFSET, Walk
from tests.support.lockstep.stage import AUDITORS, OPERATORS
from tests.support.lockstep.stage import block_hash as hash_of_block
from zoo_compute.spec import admissions
from zoo_compute.spec.clocks import End
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS, Workload

ROOT = b"r" * 32
SOON = 40  # epochs
NAMES = (*OPERATORS, *AUDITORS, "alice")


class Admissions(Walk):
    """Trials, what the referee says of them, and recalls."""

    def on_admissions(self, function: str, sender: str, *args: Any) -> str | None:
        return self.s.attempt("admissions", function, sender, *args)

    @rule(who=INDEX, blocks=(2, 2, 2, 2, 1, 0, 258), wait=(0, 1, 5, 10, 11), wrong=INDEX)
    def show_machine(self, who: int, blocks: int, wait: int, wrong: int) -> None:
        """A trial is entered and answered: mostly once its block is known, in time, under its seed."""
        name = NAMES[who]
        operator, hot = self.s.ids[name], f"{name} hot"
        self.on_admissions("enter", hot, operator)
        self.s.mine(blocks)
        self.s.wait(wait)
        work, entry = admissions.workload_of(self.s.world, operator), self.s.world.entries.get(operator)
        block_hash = hash_of_block(entry.block if entry and wrong else 0)
        self.on_admissions("answer", hot, operator, admissions.seed(block_hash, operator, work), ROOT)

    @precondition(lambda self: bool(self.s.world.trials))
    @rule(2, index=INDEX, disputes=(0, 0, 1, 2), end=tuple(End), offset=OFFSET, forged=INDEX)
    def judge_trial(self, index: int, disputes: int, end: End, offset: int, forged: int) -> None:
        """A trial is disputed, and mostly that ends; at the edge of its window it settles."""
        claim, referee = self.trial(index), "referee"
        deadline = self.s.world.trials[claim.operator].deadline
        if forged == 7:
            claim = replace(claim, round=claim.round ^ 1)
        for _ in range(disputes):
            self.on_admissions("open_dispute", referee, TRIALS, claim)
        self.s.to(max(self.s.now, deadline + offset))
        self.on_admissions("settle", "stranger", claim)
        if disputes < 2 or forged % 2:
            self.on_admissions("close_dispute", referee, TRIALS, claim, int(end), 0, 0)
            self.on_admissions("reward_finder", referee, TRIALS, claim, self.s.accounts["stranger"])
        self.on_admissions("settle", "stranger", claim)

    def trial(self, index: int) -> Claim:
        trials = list(self.s.world.trials.values())
        return trials[index % len(trials)].claim

    @rule(2, who=INDEX, blocks=(2, 2, 2, 2, 2, 2, 1, 258), offset=OFFSET, ends=BOTH)
    def recall(self, who: int, blocks: int, offset: int, ends: bool) -> None:
        """An epoch's draw is tried on everybody; where nothing else runs, one that picks somebody."""
        if self.is_idle and who:
            self.to_draw(who)
        self.on_admissions("schedule", "stranger")
        self.s.mine(blocks)
        for operator in self.s.ids.values():
            self.on_admissions("recall", "stranger", operator)
        if ends:
            self.lapse(who, offset)

    def to_draw(self, who: int) -> None:
        """The first second of an epoch in which one of the admitted is drawn, if one is soon."""
        admitted = [operator for operator in self.s.ids.values() if self.s.world.operator(operator).is_admitted]
        for _ in range(SOON) if admitted else ():
            self.s.to((self.epoch + 1) * self.s.preset.epoch_s)
            if admissions.is_drawn(hash_of_block(self.s.block + 1), self.epoch, admitted[who % len(admitted)]):
                break

    @precondition(lambda self: bool(self.due()))
    @rule(who=INDEX, offset=OFFSET)
    def lapse(self, who: int, offset: int) -> None:
        """At the edge of a recall's time, where there is one."""
        due = self.due()
        operator = list(due)[who % len(due)] if due else self.s.ids[NAMES[who]]
        self.s.to(max(self.s.now, due.get(operator, 0) + offset))
        self.on_admissions("lapse", "stranger", operator)

    def due(self) -> dict[int, int]:
        """When each of the recalled must have shown its machine."""
        return {operator: recall.due for operator, recall in self.s.world.recalls.items() if recall.due}

    @rule(vram_gb=(0, 8, 48, 49), steps=(0, 1, 64), governs=BOTH)
    def set_workload(self, vram_gb: int, steps: int, governs: bool) -> None:
        """Of trials to come; a trial entered before has another seed then."""
        sender = "deployer" if governs else "guardian"
        self.on_admissions("set_workload", sender, vram_gb, Workload(b"p" * 32, b"s" * 32, steps, 10**15))
