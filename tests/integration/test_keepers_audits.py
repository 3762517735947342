"""The auditor's lane on a real chain: it draws, says what it found in time, settles, and is paid; one claim refuses nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from web3.types import RPCEndpoint

from keepers.cli.verify import LIES_EXIT_CODE
from keepers.services.auditing import Auditing
from tests.support.devnet_driver import rolled_back
from tests.support.disputed_job import Dispute
from zoo_compute.chain.audits import read_audits, summary, units_of
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobView
from zoo_compute.cli import main as cli
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, Role, lapses_at
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration

RESERVE, AGGREGATION_RESERVE = 10, 5  # of the driver's jobs
BUDGET, DEPOSIT = 1_000, 10 * ZEN + 10_000
ALL_CLEAN: dict[int | None, bool | None] = {0: True, 1: True, None: True}


class Audited(Dispute):
    """A job all of whose three units are drawn: two slots, one each of two operators, and the aggregation of the second."""

    TERMS = {**Dispute.TERMS, "audit_bps": 10_000}  # noqa: RUF012

    def fund(self, amount: int = BUDGET) -> None:
        self.submitter.send(self.chain.zen.approve(self.chain.audits.address, 2**256 - 1))
        self.submitter.send(self.chain.audits.fund(self.job, amount))

    def offer(self, party: Any, deposit: int = DEPOSIT) -> None:
        audits = self.chain.audits
        party.send(self.chain.zen.approve(audits.address, 2**256 - 1))
        party.send(audits.deposit(party.id, self.chain.zen.address, deposit))
        party.send(audits.offer(party.id, 1))
        self.devnet.warp_to(self.chain.now() + 2)

    def auditing(self, party: Any, found: dict[int | None, bool | None]) -> Lane:
        return Lane(self, party, found)

    def view(self) -> JobView:
        return read_job(self.chain, self.job)


class Lane:
    """One auditor's. asked: turns and units that it had re-executed."""

    def __init__(self, job: Audited, party: Any, found: dict[int | None, bool | None]) -> None:
        self.job, self.party, self.found = job, party, found
        self.asked: set[tuple[int, int]] = set()
        self.lane = Auditing(job.chain, party.sender, party.id, lambda _view, _claim, slot: self.found[slot])

    def tick(self, times: int = 1, *, mine: bool = True) -> None:
        chain = self.job.chain
        for _ in range(times):
            view = self.job.view()
            self.asked |= self.lane.work(view, read_audits(chain, view))
            view = self.job.view()
            self.lane.act(view, read_audits(chain, view))
            if mine:
                chain.w3.provider.make_request(RPCEndpoint("anvil_mine"), [hex(chain.params.draw_blocks + 2)])


@pytest.fixture(scope="module")
def closed(running_devnet: Devnet) -> Audited:
    return Audited(running_devnet)


@pytest.fixture(name="job")
def job_fixture(closed: Audited) -> Iterator[Audited]:
    with rolled_back(closed.devnet):
        yield closed


def of(job: Audited) -> dict[str, Any]:
    view = job.view()
    return summary(view, read_audits(job.chain, view))


def test_an_auditor__draws_waits_for_its_worker_and_is_paid_for_what_it_found(job: Audited) -> None:
    third = job.parties[2]
    found: dict[int | None, bool | None] = {0: True, 1: True, None: None}
    lane = job.auditing(third, found)
    lane.tick()
    assert not lane.asked, "nobody pays for audits"
    job.fund()
    lane.tick(3)
    assert not read_audits(job.chain, job.view()).drawn, "an operator without a place draws nothing"
    job.offer(third)
    lane.tick(3)
    assert lane.asked == {(0, 0), *((0, slot + FIRST_SLOT_UNIT) for slot in (0, 1))}, "the aggregation, and two slots"
    assert of(job)["verdicts"] == 0, "one is not re-executed yet"
    lane.found[None] = True
    lane.tick(2)
    assert (of(job)["drawn"], of(job)["clean"], of(job)["open"]) == (3, 3, 3)
    assert lane.lane.pending(job.job)
    job.devnet.warp_to(job.claim(0).deadline + 1)
    owner_had = job.chain.zen.balanceOf(third.account.address)
    lane.tick(2)
    fees = 2 * RESERVE + AGGREGATION_RESERVE
    assert of(job) | {"drawn": 3} == of(job)
    assert of(job)["paid_to"] == {str(third.id): str(fees)}
    assert job.chain.zen.balanceOf(third.account.address) == owner_had + fees
    assert not lane.lane.pending(job.job)
    assert job.chain.audits.budgets(job.job) == (BUDGET - fees, 0)


def test_an_auditor__never_judges_its_own_work_and_says_what_it_has_when_time_runs_out(job: Audited) -> None:
    """The second operator computed a slot and the aggregation: one unit is its to judge, the others are nobody's."""
    second, third = job.parties[1], job.parties[2]
    job.fund()
    job.offer(second)
    lane = job.auditing(second, {0: False, 1: True, None: True})
    lane.tick(4)
    assert (of(job)["false"], of(job)["clean"]) == (1, 0)
    slow = job.auditing(third, {0: None, 1: True, None: None})
    job.offer(third)
    slow.tick(2)
    assert of(job)["verdicts"] == 1, "its place was taken after the block was named"


def test_a_replacement__judges_what_the_auditor_left(job: Audited) -> None:
    one, third = job.parties[0], job.parties[2]
    job.fund()
    for party in (third, one):
        job.offer(party)
    silent, other = job.auditing(third, dict.fromkeys(ALL_CLEAN)), job.auditing(one, ALL_CLEAN)
    silent.tick(3)
    draw = read_audits(job.chain, job.view()).drawn[0].draw
    job.devnet.warp_to(draw.half_at + 1)
    for _ in range(2):
        silent.tick()
        other.tick()
    audits = read_audits(job.chain, job.view())
    assert all(statement.role == Role.REPLACEMENT or statement.operator == one.id for statement in audits.statements)
    replaced = [
        RESERVE if slot is not None else AGGREGATION_RESERVE
        for claim in job.view().claims
        for number, slot in units_of(claim)
        if audits.drawn[0].judges_of(number, claim.operator)[1] == one.id
    ]
    job.devnet.warp_to(job.claim(0).deadline + 1)
    other.tick(3)
    assert int(of(job)["paid_to"].get(str(one.id), "0")) == sum(replaced)
    assert of(job)["open"] == 0


def test_a_deposit_or_budget_that_is_too_small__leaves_units_out_and_refuses_nothing(job: Audited) -> None:
    third = job.parties[2]
    job.fund(RESERVE + AGGREGATION_RESERVE)
    job.offer(third, 10 * ZEN + 50 * (2 * RESERVE))
    lane = job.auditing(third, ALL_CLEAN)
    lane.tick(4)
    assert of(job)["verdicts"] == 2


def test_what_nobody_settled__is_lapsed_by_any_auditor(job: Audited) -> None:
    one, third = job.parties[0], job.parties[2]
    job.fund()
    job.offer(third)
    lane = job.auditing(third, ALL_CLEAN)
    lane.tick(4)
    last = lapses_at(job.claim(0).deadline, job.view().terms.reexecute_s, job.chain.params.clocks)
    job.devnet.warp_to(last + 1)
    job.auditing(one, ALL_CLEAN).tick()
    assert (of(job)["open"], of(job)["paid"]) == (0, "0")
    assert int(of(job)["slashed"]) == 2 * RESERVE + AGGREGATION_RESERVE


def test_one_unknown_claim__refuses_no_others(job: Audited) -> None:
    third = job.parties[2]
    job.fund()
    job.offer(third)
    lane = job.auditing(third, ALL_CLEAN)
    lane.tick(4)
    job.devnet.warp_to(job.claim(0).deadline + 1)
    view = job.view()
    stray = replace(view.commits[0], root=b"\x77" * 32)
    [statement] = read_audits(job.chain, view).statements
    drawn = read_audits(job.chain, view).drawn[0]
    lane.lane._settle(replace(view, commits=[stray, *view.commits]), read_audits(job.chain, view), drawn, statement)
    assert of(job)["open"] == 0


def test_the_command_line__offers_shows_funds_and_leaves(
    job: Audited, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    third, chain = job.parties[2], job.chain
    key = job.devnet.key_file("three")
    monkeypatch.setenv("ZOO_PASSPHRASE_FILE", str(job.devnet.passphrase_file))

    def zoo(*arguments: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        network = ["--network", str(job.devnet.network_file), "--account", str(key)]
        assert cli.run([*arguments, *network, "--json"]) == code, capsys.readouterr().err
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    offered = zoo("node", "audit", "offer", "--operator", str(third.id), "--deposit", "2")
    assert (offered["places"], offered["all_places"], offered["bond"]) == (1, 1, str(10 * ZEN))
    assert zoo("job", "audit", str(job.job), "--fund", "0.5")["balance"] == str(ZEN // 2)
    estimate = zoo("node", "estimate", "--role", "verifier")
    assert [each["job"] for each in estimate["jobs"]] == [] or estimate["jobs"][0]["fee"] == str(RESERVE)
    job.devnet.warp_to(chain.now() + 2)
    job.auditing(third, ALL_CLEAN).tick(4)
    status = zoo("node", "audit", "status", "--operator", str(third.id))
    assert (status["clean"], status["false"], status["open"]) == (3, 0, 3)
    shown = zoo("job", "show", str(job.job))
    assert (shown["audits"]["drawn"], shown["audits"]["clean"]) == (3, 3)
    left = zoo("node", "audit", "withdraw", "--operator", str(third.id))
    assert (left["places"], left["reserved"]) == (0, str(50 * (2 * RESERVE + AGGREGATION_RESERVE)))
    assert int(left["withdrawn"]) == 12 * ZEN - int(left["reserved"])


def test_verify__names_the_auditor_that_called_a_false_result_clean(job: Audited) -> None:
    """As `zoo verify` finds it: here of the aggregation."""
    from keepers.cli.job_verification import VerifiedWork
    from keepers.cli.verify import _lying_auditors

    third = job.parties[2]
    job.fund()
    job.offer(third)
    job.auditing(third, ALL_CLEAN).tick(4)
    view = job.view()
    made = next(claim for claim in view.claims if claim.seat == AGGREGATOR_SEAT)
    false = VerifiedWork(made, None, {"agrees": False})
    assert list(_lying_auditors(job.chain, view, [false])) == [{"auditor": third.id, "turn": 0, "slot": None}]
    assert LIES_EXIT_CODE == 3
