"""`zoo job evaluate`: held-out loss and other metrics of a job's checkpoints, computed here."""

from __future__ import annotations

from dataclasses import asdict

import click

from zoo_compute.cli.context import JOB, Command, Settings, pass_settings
from zoo_compute.cli.output import table


@click.command("evaluate", cls=Command)
@click.argument("number", type=JOB, metavar="JOB")
@click.option("--all", "every", is_flag=True, help="Every checkpoint, not only the first and the newest.")
@click.option("--metric", metavar="FILE.py:FUNCTION", help="Your own metric of tensors and held-out examples.")
@click.option("--store", "location", metavar="LOCATION", help="Store to fetch into. [env ZOO_STORE; ~/.zoo/store]")
@pass_settings
def evaluate(settings: Settings, number: int, every: bool, metric: str | None, location: str | None) -> None:
    """Fetch checkpoints, verify them against the chain, and compute their loss on the held-out examples on this machine."""
    job = settings.client(store=location, with_account=False).job(number)
    settings.say(f"evaluating the checkpoints of job {number} on its held-out examples")
    results = job.evaluate(every=every, metric=metric)
    own = sorted({name for each in results for name in each.metrics})
    rows = [
        (
            str(each.round) if each.round else "start",
            "not kept" if each.loss is None else f"{each.loss:.4f}",
            "" if each.perplexity is None else f"{each.perplexity:,.2f}",
            "" if each.accuracy is None else f"{each.accuracy:.2%}",
            *(f"{each.metrics[name]:.6g}" if name in each.metrics else "" for name in own),
            each.root,
        )
        for each in results
    ]
    settings.emit(
        {"job": number, "checkpoints": [asdict(each) for each in results]},
        table(rows, header=("round", "held-out loss", "perplexity", "accuracy", *own, "root")),
    )


COMMANDS = (evaluate,)
