"""`zoo doctor`: find what is missing before any money moves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute import paths as places
from zoo_compute.cli.context import Command, Settings, pass_settings

if TYPE_CHECKING:
    from zoo_compute.cli.doctor_checks import Check, SystemChecks


@click.command(cls=Command)
@click.option("--node", is_flag=True, help="Also require what an operator needs: torch and a broker.")
@click.option("--store", "location", metavar="LOCATION", help="Store to check. [env ZOO_STORE; ~/.zoo/store]")
@click.option(
    "--home", type=click.Path(file_okay=False, path_type=Path), help="The operator's folder; ~/.zoo/node by default."
)
@pass_settings
def doctor(settings: Settings, node: bool, location: str | None, home: Path | None) -> int:
    """Check network, chain, account, store, clock and machine; print a fix for each thing that is missing.

    For an operator also checks stake, collateral, coin, and whether a peer can fetch a block from the announced endpoint.
    """
    from zoo_compute.cli.doctor_checks import SystemChecks

    folder = home or places.home() / "node"
    return report(settings, SystemChecks(settings.network_file, settings.account_name, location, folder, node=node))


def report(settings: Settings, system: SystemChecks) -> int:
    """Print each check as it is done. Returns 1 if something that is needed is missing."""
    checks: list[Check] = []
    for check in system.run():
        checks.append(check)
        if not settings.as_json:
            click.echo(_line(check))
            if check.do and not check.ok:
                click.echo(f"{'':>23}{check.do}")
    missing = list(dict.fromkeys(check.name for check in checks if check.needed and not check.ok))
    if settings.as_json:
        needs = [{"what": check.finding, "do": check.do} for check in checks if check.needed and not check.ok]
        settings.emit({"ok": not missing, "checks": [check.to_dict() for check in checks], "needs": needs})
    else:
        click.echo(f"\nmissing: {', '.join(missing)}" if missing else "\nnothing is missing")
    return 1 if missing else 0


def _line(check: Check) -> str:
    word = "ok" if check.ok else "MISSING" if check.needed else "absent"
    return f"{word:<8}{check.name:<15}{check.finding}"
