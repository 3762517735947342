"""`zoo dispute`: list disputes, show what was explored of a claim, replay the transactions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import format_amount, format_seconds
from zoo_compute.cli.context import JOB, Group, Settings, pass_settings
from zoo_compute.cli.output import table

if TYPE_CHECKING:
    from zoo_compute.amounts import Token
    from zoo_compute.client.disputes import Dispute


@click.group(cls=Group)
def dispute() -> None:
    """Disputes: claims that somebody asked about, explored in public and decided by the contract.

    A dispute is named JOB:TURN:SEAT, such as 3:7:1 or 3:7:aggregator; that of a trial trial:OPERATOR, of an
    admitted receipt receipt:OPERATOR.
    """


@dispute.command("list")
@click.option("--job", type=JOB, help="Only disputes about this job.")
@click.option("--open", "only_open", is_flag=True, help="Only disputes that did not end.")
@pass_settings
def list_(settings: Settings, job: int | None, only_open: bool) -> None:
    """List disputes: whose claim, about what work, and how far it is.

    The status says whose clock runs and for how long, or how the dispute ended: convicted by judgement or by silence, final, void.
    `zoo dispute show DISPUTE` says more.
    """
    from zoo_compute.client.disputes import list_disputes

    chain = settings.chain()
    head = chain.head()
    disputes = [each for each in list_disputes(chain, head, job) if each.view.is_open or not only_open]
    rows = [(each.name, each.view.operator, each.work, each.brief(chain.time(head))) for each in disputes]
    settings.emit(
        {"now": head.timestamp, "disputes": [each.to_dict() for each in disputes]},
        table(rows, header=("dispute", "operator", "work", "status")) or ["there is no dispute"],
    )


@dispute.command("show")
@click.argument("name", metavar="DISPUTE")
@pass_settings
def show(settings: Settings, name: str) -> None:
    """Show what was explored of a claim, as a tree.

    Each line is an ask below the one that led to it: a segment, a step, nodes, one node, elements, and the parts of one
    element; by whom, and who answered it or how long its clock runs. A heavy ask makes the operator compute a step again.
    """
    from zoo_compute.client.disputes import account_names, dispute_named
    from zoo_compute.client.explored_places import asks_of, tree_rows

    chain = settings.chain()
    head = chain.head()
    match, now = dispute_named(chain, head, name), chain.time(head)
    summary, tokens = match.to_dict(), _prepaid_tokens(settings, match)
    summary |= {"prepaid_tokens": str(tokens[0]), "token": tokens[1].to_dict()} if tokens else {}
    picture, names = match.view.picture, account_names(chain, match.view)
    rows = [
        ("claimed by", match.about),
        ("status", match.status(now)),
        ("asks", _asks_text(summary)),
        ("first asks", _deadline_text(match.view.deadline, now)),
        (
            "prepaid",
            format_amount(int(summary["prepaid"]), "coin") + (f" and {tokens[1].format(tokens[0])}" if tokens else ""),
        ),
    ]
    asks = [
        {
            **asdict(ask),
            "due": ask.due + match.stopped_s,
            "id": ask.id.hex(),
            "above": ask.above.hex() if ask.above in picture.nodes else None,
        }
        for ask in asks_of(picture)
    ]
    tree = table(list(tree_rows(picture, names, now)))
    settings.emit({**summary, "now": head.timestamp, "tree": asks}, [*table(rows), "", *tree])


@dispute.command("replay")
@click.argument("name", metavar="DISPUTE")
@pass_settings
def replay(settings: Settings, name: str) -> None:
    """Print a dispute's transcript: every transaction with its gas, the disputed numbers, and who was wrong.

    A judgement is read from the chain and checked again with the specification, on this machine.
    """
    from zoo_compute.client.dispute_transcript import Transcript, lines_of
    from zoo_compute.client.disputes import dispute_named

    chain = settings.chain()
    transcript = Transcript(chain, dispute_named(chain, chain.head(), name))
    answer = {
        **transcript.dispute.to_dict(),
        "entries": [asdict(each) for each in transcript.entries],
        "verdict": transcript.conviction and {**asdict(transcript.conviction), "text": transcript.conviction.text},
        "conclusion": transcript.conclusion,
        "gas": transcript.gas,
    }
    gas = ", ".join(f"{side} {amount:,}" for side, amount in transcript.gas.items() if amount)
    settings.emit(answer, [*lines_of(transcript), f"gas: {gas}"])


def _deadline_text(deadline: int, now: int) -> str:
    """Until when anyone can begin at another place of the claim."""
    if not deadline:
        return "possible until the window that begins when the turn closes is over"
    return f"possible for another {format_seconds(deadline - now)}" if now <= deadline else "no longer possible"


def _asks_text(summary: dict[str, Any]) -> str:
    return f"{summary['asks']}, of which {summary['open_asks']} open and {summary['heavy_asks']} heavy"


def _prepaid_tokens(settings: Settings, match: Dispute) -> tuple[int, Token] | None:
    """What heavy asks prepaid in the job's token; None without any. Those about no job take no token."""
    from zoo_compute.chain.tokens import token_at
    from zoo_compute.spec.clocks import heavy_fee

    heavy = [node.record for node in match.view.picture.nodes.values() if node.record.payment.is_heavy]
    if match.is_alone or not heavy:
        return None
    chain = settings.chain()
    address, reserve = chain.tasks.reexecution_price(match.view.job, heavy[0].payment.is_of_aggregation)
    return sum(heavy_fee(each.price, reserve) for each in heavy), token_at(chain, address)
