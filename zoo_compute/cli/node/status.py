"""`zoo node status`: the keeper's last reading of the chain, and what needs you."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import format_count, format_seconds
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.node.options import folder_of, home_option
from zoo_compute.paths import STATUS

if TYPE_CHECKING:
    from zoo_compute.operators.needs import NodeProblem


@click.command(cls=Command)
@home_option
@pass_settings
def status(settings: Settings, home: Path | None) -> None:
    """Show the keeper's last reading of the chain, and what needs you, each with a command that fixes it."""
    from zoo_compute.operators.readiness import inspect_node

    folder = folder_of(home)
    inspection = inspect_node(folder, settings.network_file)
    if inspection.setup.running:
        inspection.try_endpoint()
    seen, lines = _last_look(folder)
    if inspection.reach is not None:
        lines.append(f"endpoint: {inspection.reach}")
    settings.emit(
        seen | {"needs": [need.to_dict() for need in inspection.needs]},
        [*lines, *(str(need) for need in inspection.needs)],
    )


def _last_look(folder: Path) -> tuple[dict[str, Any], list[str]]:
    path = folder / STATUS
    if not path.exists():
        return {"block": None, "jobs": {}, "trouble": []}, ["the keeper has not read the chain yet"]
    seen = json.loads(path.read_text())
    lines = [f"block {seen['block']}, {time.time() - path.stat().st_mtime:.0f} s ago"]
    if waits := seen.get("waits"):
        lines.append(f"this keeper waits: {waits}")
    lines += _worker_lines(seen.get("workers"))
    lines += [f"job {job}: {state}" for job, state in seen["jobs"].items()]
    if not seen["jobs"] and not seen["trouble"]:
        lines.append("no job: the keeper waits for one that it can bid for")
    lines += [f"job {job}: cannot bid: {why}" for job, why in seen.get("not_bidding", {}).items()]
    lines += [f"job {job}: {line}" for job, line in seen.get("memory", {}).items()]
    lines += [f"job {job}: bid of {bid_words(bid)}" for job, bids in seen.get("bids", {}).items() for bid in bids]
    lines += _bandwidth_lines(seen.get("bandwidth"))
    return seen, lines + [f"needs you: {trouble}" for trouble in seen["trouble"]]


def _worker_lines(names: list[str] | None) -> list[str]:
    if names is None:  # an earlier release wrote the file
        return []
    return [f"workers ({len(names)}): {', '.join(names)}" if names else "workers: none"]


def bid_words(bid: dict[str, Any]) -> str:
    """What a bid puts at risk, as `bids` of the keeper's status has it."""
    return (
        f"{bid['units']} units as {bid['role']}: locks {bid['locks']} {bid['token']} for at most {format_seconds(bid['longest_s'])}; "
        f"missed deadlines cost up to {bid['missed']}, false results up to {bid['most']}"
    )


def _bandwidth_lines(seen: dict[str, Any] | None) -> list[str]:
    if not seen:
        return []
    served, redeemed, received = (
        format_count(seen[key], "B") for key in ("receipts_bytes", "redeemed_bytes", "received_bytes")
    )
    return [
        f"bandwidth, epoch {seen['epoch']}: {served} served by {seen['receipts']} receipts, {redeemed} redeemed; "
        f"{received} received and signed for"
    ]


def say_needs(needs: list[NodeProblem]) -> None:
    """Print each problem on stderr."""
    for need in needs:
        click.echo(str(need), err=True)


COMMANDS = (status,)
