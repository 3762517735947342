"""`zoo defend JOB`: answer for true claims whose operators do not, and be paid for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from keepers.cli.own_disputes import TURNS, disputes_of, disputing
from zoo_compute.amounts import format_amount, format_seconds
from zoo_compute.chain.snapshot import read_job
from zoo_compute.cli.context import JOB, Settings, pass_settings
from zoo_compute.cli.output import StatusLine
from zoo_compute.cli.sending import Sending
from zoo_compute.client.disputes import Dispute
from zoo_compute.client.explored_places import asked_positions, place_text
from zoo_compute.disputes.roles import AUTHORS, FALSE
from zoo_compute.errors import NeedsOperator
from zoo_compute.spec.clocks import GWEI, ClockPreset, End, PathClocks, exclusive_until, is_expired, may_answer

if TYPE_CHECKING:
    from zoo_compute.disputes.exploration import Opened

FALSE_EXIT_CODE, NOT_ANSWERED = 3, 1  # exit codes
ANYONE, OPERATOR, NOBODY = "anyone", "operator", "nobody"  # who may still answer an ask
LOOK_S = 2.0  # without a block: a store may serve now what it did not serve before


@click.command("defend", cls=Sending, signs=TURNS)
@click.argument("number", type=JOB, metavar="JOB")
@click.option("--follow", is_flag=True, help="Keep answering until every claim of the job is final.")
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best one by default.")
@click.option("--store", metavar="DIR|kubo:URL", help="Content store. [env ZOO_STORE]")
@pass_settings
def defend(settings: Settings, number: int, follow: bool, device: str | None, store: str | None) -> int:
    """Answer for a job's true claims in dispute, whoever made them, and be paid for it.

    Trains again what is asked about, and answers where the result agrees with the claim. For a while after each ask only the
    claim's operator is paid for the answer; --follow waits for that to end. What was prepaid for your answers is yours when
    the claim becomes final. Some answers need the operator's own key: they are listed, not given. If interrupted, rerun the
    command.

    Exit code: 0 when no ask is left open that you could answer, 3 when a disputed claim is false, 1 when you could answer an
    ask and have not: its operator still has the first right to it, or this machine lacks the data.
    """
    client = settings.client(store=store)
    defence = Defence(settings, number, client.store, device)
    before: set[bytes] | None = None
    while True:
        client.use_peers()
        seen = settings.chain().head().number
        defence.look()
        left = defence.answerable()
        is_over = left == before if left else not follow
        if not left and follow:
            is_over = read_job(settings.chain(), number).settled and not defence.open_disputes()
        if is_over or defence.unpaid:
            break
        before = None if follow else left
        settings.chain().wait_for_block(seen, LOOK_S)
    defence.look()  # what the last look closed is withdrawn
    report = defence.report()
    for error in defence.unpaid[:1]:
        report |= {"error": str(error), "hint": error.hint}
        settings.say(f"zoo: an answer is not sent: {error}\n     {error.hint}")
    settings.emit(report, defence.lines(report))
    return exit_code(report)


def exit_code(report: dict[str, Any]) -> int:
    """A false claim comes first; an ask that only its operator can answer, or nobody any more, is not this account's."""
    if any(each["false"] for each in report["disputes"]):
        return FALSE_EXIT_CODE
    return NOT_ANSWERED if any(left["by"] == ANYONE for each in report["disputes"] for left in each["left"]) else 0


def why_open(
    clocks: PathClocks, now: int, preset: ClockPreset, reason: str = "", unpaid: NeedsOperator | None = None
) -> tuple[str, str]:
    """Who may still answer an open ask, and why it is open.

    reason: why this machine has no answer; empty if it has not tried. unpaid: why the account could not send one.
    """
    if is_expired(clocks, now):
        return NOBODY, "out of time"
    if reason:
        return OPERATOR if reason == AUTHORS else ANYONE, reason
    if may_answer(clocks, now, False, preset):
        if unpaid is not None:
            return ANYONE, f"not sent: {unpaid}"
        return ANYONE, "not computed: this machine lacks the data, or needs longer"
    left_s = exclusive_until(clocks, preset) - now
    return ANYONE, f"for {format_seconds(left_s)} its operator alone is paid for it"


class Defence:
    """Of a job's claims that this machine finds true."""

    def __init__(self, settings: Settings, job: int, store: Any, device: str | None) -> None:
        self._settings, self._job = settings, job
        self._chain = settings.chain()
        self._me = settings.account().address.lower()
        self._lane = disputing(settings, store, device, defends=job)
        self._reasons: dict[bytes, dict[str, str]] = {}  # by the claim's key and the ask: why it is not answered
        self._line = StatusLine()

    def look(self) -> None:
        """Answer what can be answered now; settle and withdraw what is mine."""
        self._lane.poll_once()
        self._reasons |= {key: dict(reasons) for key, reasons in self._lane.unanswered.items()}
        disputes = self.open_disputes()
        if disputes:
            now = self._chain.time()
            self._line.show("; ".join(f"{each.name}: {each.status(now)}" for each in disputes))
        else:
            self._line.end()

    def open_disputes(self) -> list[Dispute]:
        return [each for each in disputes_of(self._settings, self._job).values() if each.view.is_open]

    @property
    def unpaid(self) -> list[NeedsOperator]:
        """Why answers to open disputes could not be paid for."""
        return [self._lane.unpaid[each.view.key] for each in self.open_disputes() if each.view.key in self._lane.unpaid]

    def answerable(self) -> set[bytes]:
        """Open asks that anyone may answer now, and that this machine has an answer to."""
        now, preset = self._chain.time(), self._chain.params.clocks
        return {
            node.id
            for each in self.open_disputes()
            for node in each.view.picture.open_asks
            if may_answer(node.record.clocks, now, False, preset) and not self._reason(each, node)
        }

    def _reason(self, dispute: Dispute, node: Opened) -> str:
        return self._reasons.get(dispute.view.key, {}).get(node.id.hex(), "")

    def report(self) -> dict[str, Any]:
        """earned: of final claims, withdrawn already; pending: when the others become final. Both in the coin's smallest units."""
        disputes = [self._as_json(each) for each in disputes_of(self._settings, self._job).values()]
        earned, pending = (sum(int(each[name]) for each in disputes) for name in ("earned", "pending"))
        return {"job": self._job, "disputes": disputes, "earned": str(earned), "pending": str(pending)}

    def _as_json(self, dispute: Dispute) -> dict[str, Any]:
        view, now = dispute.view, self._chain.time()
        mine = [node for node in view.picture.nodes.values() if node.is_answered and node.record.answerer == self._me]
        fees = sum(node.record.payment.fee for node in mine) * GWEI
        return {
            "dispute": dispute.name,
            "operator": view.operator,
            "outcome": view.end.name.lower() if view.end else None,
            "status": dispute.status(now),
            "answers": len(mine),
            "earned": str(fees if view.end == End.FINAL else 0),
            "pending": str(fees if view.is_open else 0),
            "false": FALSE in self._reasons.get(view.key, {}).values(),
            "left": [self._left(dispute, node, now) for node in view.picture.open_asks] if view.is_open else [],
        }

    def _left(self, dispute: Dispute, node: Opened, now: int) -> dict[str, Any]:
        place = place_text(node.frame, asked_positions(dispute.view.picture)[node.id])
        why, unpaid = self._reason(dispute, node), self._lane.unpaid.get(dispute.view.key)
        by, reason = why_open(node.record.clocks, now, self._chain.params.clocks, why, unpaid)
        return {"place": place, "by": by, "reason": reason}

    def lines(self, report: dict[str, Any]) -> list[str]:
        lines: list[str] = []
        if not any(each["answers"] or not each["outcome"] for each in report["disputes"]):
            return [f"no claim of job {self._job} is in dispute: there is nothing to defend"]
        for each in report["disputes"]:
            if not each["answers"] and each["outcome"]:
                continue
            lines.append(
                f"{each['dispute']}: {each['answers']} answer{'s' * (each['answers'] != 1)} given; {each['status']}"
            )
            lines += [f"  open: {left['place']}: {left['reason']}" for left in each["left"]]
        earned, pending = (format_amount(int(report[name]), "coin") for name in ("earned", "pending"))
        return [*lines, f"earned {earned}; {pending} when the disputed claims become final"]
