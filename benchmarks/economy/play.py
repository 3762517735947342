"""One play: a job from its award to the last payment. Honest parties do what keepers do; a coalition does what its strategy says."""

from __future__ import annotations

from benchmarks.economy.audits import Audits
from benchmarks.economy.disputes import Disputes
from benchmarks.economy.money import Worth
from benchmarks.economy.table import JOB
from benchmarks.economy.work import Work
from zoo_compute.spec import seats
from zoo_compute.spec.state import Claim, JobState


class Play(Work, Disputes, Audits):
    """Of a coalition in some circumstances."""

    def play(self) -> Worth:
        self._ready()
        if self.committee:
            self.hold_start()
        while self._goes_on():
            self._play_turn()
        self._end()
        return self.worth

    def _ready(self) -> None:
        silent = []
        for seat in range(self.run.seats):
            name = self.holder(seat)
            does = self.pick(
                name, f"before the first turn, seat {seat}", "is ready", "declines", "declines half", "is silent"
            )
            if does == "is ready":
                self.n.ok("settlement", "ready", f"{name} hot", JOB, seat, 10)
            elif does == "is silent":
                silent.append(seat)
            else:
                self.decline(seat, whole=does == "declines")
        for seat in silent:
            self.n.to(max(self.n.now, self.run.opened_at + self.n.preset.ready_window_s + 1))
            self.n.ok("settlement", "expire", "stranger", JOB, seat)
        for seat in range(self.run.seats):  # halves that were kept
            if self.run.state == JobState.AWARDED and seats.is_missing(self.run, seat) and self.operator(seat):
                self.n.ok("settlement", "ready", f"{self.holder(seat)} hot", JOB, seat, 10)

    def _goes_on(self) -> bool:
        """Up to the next turn that is open; False once the job is over and nothing can run it again."""
        for dispute in list(self.disputes.values()):
            if dispute.turns <= 0:
                self.resolve(dispute)
        while True:
            run = self.run
            if self.said:
                self.settle_verdicts()
            if run.is_open:
                return True
            if run.state == JobState.ENDED and not self.disputes:
                return False
            if run.state == JobState.ENDED or not self.pending:
                self.resolve(next(iter(self.disputes.values())))
            else:
                self.finalise(min(self.pending))

    def _play_turn(self) -> None:
        turn = self.run.turn
        self.fill()
        self.commit()
        if self.run.turn != turn or not self.run.is_open:
            return
        self.time_out_the_late()
        if not seats.inputs_complete(self.n.world, JOB, self.n.now):
            self.n.to(self.run.inputs_close)
        if self.committee and self.run.committed >= self.run.quorum:
            self.hold_inputs(turn)
        is_enough = self.run.committed >= self.run.quorum
        self._close_turn(turn, self.aggregate(turn) if is_enough else None)

    def _close_turn(self, turn: int, made: Claim | None) -> None:
        if made is None:
            self.n.ok("settlement", "abandon", "stranger", JOB)
        lost = self.pending.pop(turn, [])  # but for those whose data nobody could have
        claims = [claim for claim in lost if self.is_pending(claim)]
        if claims or made is not None:
            self.pending[turn] = claims
        for dispute in self.disputes.values():
            dispute.turns -= 1
        if made is not None:
            claims.append(made)
        self.worth.closed(turn, claims, self.lies, made)
        for claim in list(claims):
            self.look(claim)
        self.ask(turn, claims)
        if self.circumstances.has_audits and claims:
            self.audit(turn, list(claims))
        self.n.wait(1)

    def _end(self) -> None:
        for turn in sorted(self.pending):
            self.finalise(turn)
        assert self.n.world.job(JOB).escrow == 0, "the job is not closed"
        for of, operator in [key for key, kept in self.n.world.kept.items() if kept]:
            self.n.ok("locks", "return_set_aside", "stranger", of, operator)
        if self.said:
            ends = [self.n.world.draws[JOB, turn].deadline for turn, _, _ in self.said]
            self.n.to(max(self.n.now, max(ends) + 1))
            self.settle_verdicts()
        if self.committee:
            self.count_signatures()
