"""Rules of a walk: what is paid, and to whom."""

from dataclasses import replace

from tests.stateful.rules import rule
from tests.stateful.walk import BITS, BOTH, INDEX, OFFSET, TOKENS, Walk, has_claims, is_ended, when
from tests.support.lockstep.stage import OPERATORS, Stage
from zoo_compute.spec.params import CLAIM_EPOCHS, Flow
from zoo_compute.spec.state import Citation, JobState, Receipt, Traffic

LINK = 125_000_000 * 60  # bytes that one Gbps carries in an epoch of a devnet


def has_shares(s: Stage, job: int) -> bool:
    return any(of == job for _, _, of in s.world.shares)


def is_owed(s: Stage, job: int) -> bool:
    """Anybody, in any token or coin: by this job or another."""
    return any(any(owed.values()) for owed in (s.world.owed, s.world.audit_owed, s.world.coin_owed))


def is_uncited(s: Stage, job: int) -> bool:
    return job not in s.world.citations


def has_works(s: Stage, job: int) -> bool:
    return any(of == job for _, _, of, _ in s.world.works)


class Money(Walk):
    """Claims are paid, jobs settled; rewards, data and treasury."""

    @when(has_claims)
    @rule(job=INDEX, some=BITS, offset=OFFSET, forge=INDEX)
    def finalise(self, job: int, some: int, offset: int, forge: int) -> None:
        job = self.job(job, has_claims)
        claims = tuple(claim for index, claim in enumerate(self.s.claims(job)) if some >> index % 16 & 1)
        if claims:
            closed = [claim for claim in claims if (job, claim.turn) in self.s.world.closed_turns]
            latest = self.s.deadline(job, *closed) if closed else self.s.now
            self.s.to(max(self.s.now, latest + offset))
            if forge == 0:
                claims += (replace(claims[0], price=claims[0].price + 1),)
        self.s.attempt("settlement", "finalise", "stranger", job, claims)

    @when(is_ended)
    @rule(job=INDEX)
    def settle(self, job: int) -> None:
        job = self.job(job, is_ended)
        if self.s.world.run(job).state == JobState.ENDED:
            self.judge_all(job, convicted=False)
            self.s.settle(job)

    @when(is_owed)
    @rule(who=(*OPERATORS, "submitter", "stranger"), token=TOKENS)
    def withdraw(self, who: str, token: str) -> None:
        """Whatever anybody owes an account."""
        address = self.s.tokens[token]
        for name in (f"{who} owner", f"{who} hot") if who in OPERATORS else (who, "treasury"):
            account = self.s.accounts.get(name, self.s.world.config.treasury)
            self.s.attempt("tasks", "withdraw", "stranger", address, account)
            self.s.attempt("audits", "withdraw", "stranger", address, account)
            self.s.attempt("availability", "withdraw", "stranger", account)

    @when(is_owed)
    @rule(token=TOKENS, bucket=range(4), amount=range(21))
    def spend(self, token: str, bucket: int, amount: int) -> None:
        address = self.s.tokens[token]
        for account in (self.s.world.config.treasury, self.s.world.config.audit_pool):
            self.s.attempt("tasks", "withdraw", "stranger", address, account)
        self.s.attempt("pool", "collect", "stranger", address)
        self.s.attempt("treasury", "collect", "stranger", address)
        self.s.attempt("treasury", "fund", "stranger", address, bucket, amount)
        self.s.attempt("treasury", "spend", "timelock", address, bucket, self.s.accounts["stranger"], amount)

    # Network rewards -----------------------------------------------------------------------------------------------

    @when(has_shares)
    @rule(who=INDEX, back=range(-1, 2), amount=(0, 1, 10**6))
    def claim_reward(self, who: int, back: int, amount: int) -> None:
        """Of an epoch in which there is something to share, or of one beside it."""
        self.s.attempt("rewards", "fund", "stranger", amount)
        self.s.attempt("rewards", "move_pool", "timelock", self.s.accounts["successor"], amount)
        shares = list(self.s.world.shares)
        operator, epoch, job = shares[who % len(shares)] if shares else (who, self.epoch, 1)
        if back == 0 and self.is_idle:
            self.s.to(max(self.s.now, (epoch + 1) * self.s.preset.epoch_s))
        self.s.attempt("rewards", "claim", "stranger", operator, epoch - back, (job, *self.s.world.jobs))

    @when(has_works)
    @rule(2, some=BITS, ends=BOTH)
    def claim_works(self, some: int, ends: bool) -> None:
        """What was verified or contributed, once its epoch is over, or before."""
        if ends and self.is_idle:
            self.s.to((self.epoch + 1) * self.s.preset.epoch_s)
        for index, (flow, who, job, epoch) in enumerate(list(self.s.world.works)):
            if some >> index % 16 & 1:
                function = "claim_verification" if flow == Flow.VERIFICATION else "claim_data"
                self.s.attempt("rewards", function, "stranger", who, job, epoch)

    @when(has_shares)
    @rule(offset=OFFSET, waits=(False, False, False, True))
    def recycle(self, offset: int, waits: bool) -> None:
        """Any epoch whose budget was fixed; now and then when it has just expired."""
        unspent = [epoch for epoch, total in self.s.world.epochs.items() if total.budget > total.paid]
        epoch = unspent[0] if unspent else self.epoch
        if unspent and waits and self.is_idle:
            self.s.to(max(self.s.now, (epoch + CLAIM_EPOCHS + 1) * self.s.preset.epoch_s + offset))
        self.s.attempt("rewards", "recycle", "stranger", epoch)

    @rule(who=INDEX, client=INDEX, more=(-1, 0, 1, 10**9, LINK // 2, LINK, 2**43), wrong=INDEX)
    def redeem(self, who: int, client: int, more: int, wrong: int) -> None:
        """A receipt that says so much more than the pair's last, or has a wrong epoch, signer or sender."""
        server, client = 1 + who % 5, 1 + client % 5
        epoch = self.epoch - (wrong == 7)
        total = max(0, self.s.world.pairs.get((server, client, epoch), Traffic()).total + more)
        signer = self.s.world.operator(client if wrong != 6 else 1 + client % 5).hot
        receipt = Receipt(signer, server, client, epoch, total)
        sender = self.s.world.operator(server).hot if wrong != 5 else "stranger"
        self.s.attempt("rewards", "redeem", sender, server, client, epoch, total, receipt)

    # Data ----------------------------------------------------------------------------------------------------------

    @when(is_uncited)
    @rule(job=INDEX, cited=((), (1,), (2,), (1, 2), (2, 1), (1, 99)), who=INDEX)
    def cite(self, job: int, cited: tuple[int, ...], who: int) -> None:
        sender = "stranger" if who == 7 else "submitter"
        self.s.attempt("datasets", "cite", sender, self.job(job, is_uncited), cited)

    @when(is_ended)
    @rule(job=INDEX, quality=(0, 50, 100, 100, 101), missing=(0, 0, 0, 1))
    def score(self, job: int, quality: int, missing: int) -> None:
        """Mostly of what was cited; of a job that is settled, or not yet."""
        job = self.job(job, is_ended)
        count = len(self.s.world.citations.get(job, Citation()).cited)
        self.s.attempt("datasets", "score", "submitter", job, (quality,) * max(0, count - missing))
