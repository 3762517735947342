"""`zoo dispute`: list disputes, show what was explored of a claim, replay the transactions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import format_amount
from zoo_compute.cli.context import NUMBER, Group, Settings, pass_settings
from zoo_compute.cli.output import table

if TYPE_CHECKING:
    from zoo_compute.client.disputes import Dispute


@click.group(cls=Group)
def dispute() -> None:
    """Disputes: claims that somebody asked about, explored in public and decided by the contract.

    A dispute is named JOB:TURN:SEAT, such as 3:7:1 or 3:7:aggregator; that of a trial trial:OPERATOR.
    """


@dispute.command("list")
@click.option("--job", type=NUMBER, help="Only disputes about this job.")
@click.option("--open", "only_open", is_flag=True, help="Only disputes that did not end.")
@pass_settings
def list_(settings: Settings, job: int | None, only_open: bool) -> None:
    """List disputes: whose claim, and how far it is.

    The status is one of: exploring, with whose clock runs and how long; convicted by judgement or by silence; final; void.
    """
    from zoo_compute.client.disputes import list_disputes

    chain = settings.chain()
    head = chain.head()
    disputes = [each for each in list_disputes(chain, head, job) if each.view.is_open or not only_open]
    rows = [(each.name, each.about, each.status(head.timestamp)) for each in disputes]
    settings.emit(
        {"now": head.timestamp, "disputes": [each.to_dict() for each in disputes]},
        table(rows, header=("dispute", "claimed by", "status")) or ["there is no dispute"],
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
    match = dispute_named(chain, head, name)
    summary = match.to_dict()
    picture, names = match.view.picture, account_names(chain, match.view)
    rows = [
        ("claimed by", match.about),
        ("status", match.status(head.timestamp)),
        ("asks", _asks_text(summary)),
        ("prepaid", _prepaid_text(settings, match, summary)),
    ]
    asks = [
        {**asdict(ask), "id": ask.id.hex(), "above": ask.above.hex() if ask.above in picture.nodes else None}
        for ask in asks_of(picture)
    ]
    tree = table(list(tree_rows(picture, names, head.timestamp)))
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


def _asks_text(summary: dict[str, Any]) -> str:
    return f"{summary['asks']}, of which {summary['open_asks']} open and {summary['heavy_asks']} heavy"


def _prepaid_text(settings: Settings, match: Dispute, summary: dict[str, Any]) -> str:
    """The fees of all asks. A trial's heavy asks take no token."""
    from zoo_compute.chain.tokens import token_at

    coin = format_amount(int(summary["prepaid"]), "coin")
    if match.is_trial or not summary["heavy_asks"]:
        return coin
    chain = settings.chain()
    heavy = [node.record.payment for node in match.view.picture.nodes.values() if node.record.payment.is_heavy]
    paid = [chain.tasks.reexecution_price(match.view.job, each.is_of_aggregation) for each in heavy]
    token = token_at(chain, paid[0][0])
    return f"{coin} and {token.format(sum(price for _, price in paid))}"
