"""`zoo complete`, `zoo embed`: ask a model that operators serve live; `zoo serving check`: compute answers that you got again."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import ZEN
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.inference.answers import Completions, Served
    from zoo_compute.inference.client import Inference
    from zoo_compute.serving.receipt_file import ReceiptFile

FALSE = 3  # the exit code of commands that show that something is false
PAYS = "it pays each request at once, from a channel"


_options = (
    click.argument("service", metavar="SERVICE"),
    click.option("--max-price", required=True, metavar="ZEN", help="For 1,000 tokens; a dearer seat is not asked."),
    click.option(
        "--deposit",
        default="1",
        show_default=True,
        metavar="ZEN",
        help="Of a channel to an operator: opened when you first ask it, and as much is added when it is spent.",
    ),
    click.option(
        "--check",
        type=float,
        default=0.01,
        show_default=True,
        metavar="RATE",
        help="The chance with which an answer is computed again on this machine; a smaller one asks for larger locks.",
    ),
    click.option("--timeout", "timeout_s", type=float, default=120.0, show_default=True, help="Seconds for one seat."),
)


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a client of a service; the command gets the settings and the client."""

    def asked(
        settings: Settings, service: str, max_price: str, deposit: str, check: float, timeout_s: float, **options: Any
    ) -> None:
        client = settings.client()
        with closing(
            client.inference(service, max_price, deposit=deposit, check=check, timeout_s=timeout_s)
        ) as inference:
            command(settings, inference, **options)

    made: Callable[..., None] = pass_settings(functools.update_wrapper(asked, command))
    for option in reversed(_options):
        made = option(made)
    return made


@click.command(cls=Sending, signs=PAYS)
@asking
@click.argument("prompts", nargs=-1, required=True, metavar="PROMPT...")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=16, show_default=True, help="New tokens of each text."
)
@click.option("--stream", "streams", is_flag=True, help="Print the text as it comes; of one PROMPT.")
def complete(
    settings: Settings, inference: Inference, prompts: tuple[str, ...], max_tokens: int, streams: bool
) -> None:
    """How a served model continues each PROMPT. The cheapest seat answers whose lock makes lies not pay.

    Each answer comes with a receipt, which is checked and kept for its window: `zoo serving check --all` computes those answers again.
    """
    if streams and len(prompts) > 1:
        raise UserError(f"--stream prints one text, and there are {len(prompts)}", hint="leave --stream out")
    if streams and not settings.as_json:
        _streamed(settings, inference, prompts[0], max_tokens)
        return
    answer = inference.complete(list(prompts), max_tokens)
    data = {"texts": list(answer.texts), "finish_reasons": list(answer.finish_reasons), **_facts(answer)}
    settings.say(_said(answer))
    settings.emit(data, list(answer.texts))


@click.command(cls=Sending, signs=PAYS)
@asking
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
def embed(settings: Settings, inference: Inference, texts: tuple[str, ...]) -> None:
    """The vector of each TEXT, by a served model: a line of JSON for each."""
    answer = inference.embed(list(texts))
    vectors = answer.vectors.tolist()
    settings.say(_said(answer))
    settings.emit({"vectors": vectors, **_facts(answer)}, [json.dumps(each) for each in vectors])


@click.command("check", cls=Command)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[FILE]")
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Every answer that you got and nobody computed again, while its receipt counts.",
)
@pass_settings
def check(settings: Settings, file: Path | None, every: bool) -> None:
    """Compute answers again, from the service's program and weights, and compare them with the receipts. Sends nothing.

    A false receipt is written to a file: `zoo serving dispute FILE` has it judged. Exits 3 where one is false.
    """
    from zoo_compute.inference.client import home_of
    from zoo_compute.inference.doubts import Doubts
    from zoo_compute.inference.market import Place

    if (file is not None) == every:
        raise UserError("say which answers to compute again", hint="give a receipt's FILE, or --all")
    chain = settings.chain()
    with closing(Doubts(Place.of(chain), chain.time, settings.store(), home_of(chain.network))) as doubts:
        files = doubts.unchecked() if file is None else [doubts.read(file)]
        results = [(each, doubts.recheck(each)) for each in files]
    false = [str(evidence) for _, evidence in results if evidence is not None]
    lines = [_verdict(each, evidence) for each, evidence in results] or ["there is no receipt to check"]
    settings.emit({"checked": len(results), "false": false}, lines)
    if false:
        raise click.exceptions.Exit(FALSE)


def _streamed(settings: Settings, inference: Inference, prompt: str, max_tokens: int) -> None:
    pieces = inference.stream(prompt, max_tokens)
    while True:
        try:
            click.echo(next(pieces).text, nl=False)
        except StopIteration as end:
            click.echo()
            settings.say(_said(end.value))
            return


def _facts(answer: Served) -> dict[str, Any]:
    amounts = {"cost": str(answer.cost), "paid": str(answer.paid)}
    return {"seat": answer.seat, "operator": answer.operator, **amounts, "checked": answer.checked}


def _said(answer: Served | Completions) -> str:
    how = (
        "computed again: " + ("right" if answer.is_true else "FALSE, and this is the right answer")
        if answer.checked
        else "receipt kept"
    )
    return f"seat {answer.seat} of operator {answer.operator}; {ZEN.format(answer.paid)}; {how}"


def _verdict(file: ReceiptFile, evidence: Path | None) -> str:
    receipt = file.signed.receipt
    if evidence is None:
        return f"seat {receipt.seat}, {receipt.issued}: true"
    return f"seat {receipt.seat}, {receipt.issued}: FALSE; have it judged: zoo serving dispute {evidence}"


COMMANDS = (complete, embed)
SERVING_COMMANDS = (check,)
