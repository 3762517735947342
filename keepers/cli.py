"""`zoo node configure`, `zoo node start` and `zoo keeper start`: the subcommands that live above `zoo_compute`."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click

from keepers.config import FILE, ROLES, OperatorConfig, from_dict, load, save
from keepers.daemon import Daemon
from zoo_compute import home as places
from zoo_compute.errors import ConfigError

HOME = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: places.home() / "node",
    show_default="~/.zoo/node",
    help="The operator's folder: operator.json, keystore, store, logs.",
)


@click.command("configure")
@HOME
@click.option("--name", help="A name for logs; never leaves this machine.")
@click.option("--network-file", "network", type=click.Path(exists=True, path_type=Path, resolve_path=True))
@click.option("--operator", type=int, help="The number `zoo node register` printed; a verifier needs none.")
@click.option("--price", help="Asked per slot-round, in whole tokens: your cost.")
@click.option("--aggregator-price", help="Asked per aggregation, in whole tokens.")
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="May be repeated.")
@click.option("--capacity", type=int, help="Slots of one job to hold at once.")
@click.option("--threads", type=int, help="torch threads of each worker.")
@click.option("--workers", type=int, help="Worker processes on this machine.")
@click.option("--sample-rate", type=float, help="Share of slot-rounds a verifier re-executes.")
@click.option("--store", help="A folder, or kubo:URL of an IPFS daemon's RPC.")
@click.option("--broker", help="`embedded`, or a redis:// or rediss:// URL.")
@click.option("--gateway-port", type=int, help="Where the store serves blocks; 0 picks one.")
@click.option("--endpoint", help="URL at which others reach the gateway; announced on chain.")
@click.option("--json", "as_json", is_flag=True, help="Print the settings as one JSON object.")
def configure(home: Path, as_json: bool, **given: Any) -> None:
    """Change what operator.json says, or write it; what is not given stays as it is."""
    path = home / FILE
    raw = json.loads(path.read_text()) if path.exists() else {"name": home.name}
    raw |= {key: str(v) if isinstance(v, Path) else v for key, v in given.items() if v not in (None, ())}
    if "roles" in raw:
        raw["roles"] = list(raw["roles"])
    config = from_dict(raw, home)
    save(config)
    settings = dataclasses.asdict(config) | {"folder": str(config.folder)}
    click.echo(json.dumps(settings) if as_json else f"{path}: {config.name}, {', '.join(config.roles)}")


@click.command("start")
@HOME
@click.option("--only", type=click.Choice(["broker", "gateway", "keeper", "worker"]), help="Start one part apart.")
@click.option("--json", "as_json", is_flag=True, help="Print the processes as one JSON object when they run.")
def start(home: Path, only: str | None, as_json: bool) -> None:
    """The whole operator daemon: broker, gateway, keeper and workers, kept running until Ctrl-C."""
    sys.exit(serve(load(home), only=only, as_json=as_json))


@click.group("keeper")
def keeper() -> None:
    """Run a keeper in one role."""


@keeper.command("start")
@click.argument("role", type=click.Choice(ROLES))
@HOME
@click.option("--json", "as_json", is_flag=True, help="Print the processes as one JSON object when they run.")
def keeper_start(role: str, home: Path, as_json: bool) -> None:
    """The daemon of one operator in ROLE alone, whatever operator.json lists."""
    config = load(home)
    if role != "verifier" and config.operator == 0:
        raise ConfigError(f"{home / FILE}: operator is 0; a {role} must be registered", hint="zoo node register")
    if config.roles != [role]:
        config = dataclasses.replace(config, roles=[role])
        save(config)
    sys.exit(serve(config, as_json=as_json))


@keeper.command("status")
@HOME
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def keeper_status(home: Path, as_json: bool) -> None:
    """What the keeper saw at its last look at the chain."""
    path = load(home).folder / "status.json"
    if not path.exists():
        raise ConfigError(f"{path} does not exist: this keeper has not looked at the chain yet", hint="zoo node start")
    status = json.loads(path.read_text())
    if as_json:
        click.echo(json.dumps(status))
        return
    click.echo(f"block {status['block']}, {time.time() - path.stat().st_mtime:.0f} s ago")
    for job, state in status["jobs"].items():
        click.echo(f"job {job}: {state}")
    for trouble in status["trouble"]:
        click.echo(f"needs you: {trouble}")


def serve(config: OperatorConfig, *, only: str | None = None, as_json: bool = False) -> int:
    """Run the daemon until a signal; 0 after a clean stop."""
    daemon = Daemon(config, only=only)
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
    try:
        daemon.start()
        processes = {name: child.process.pid for name, child in daemon.children.items() if child.process}
        if as_json:
            click.echo(json.dumps({"name": config.name, "home": str(config.folder), "processes": processes}))
        else:
            click.echo(
                f"{config.name} runs as {', '.join(config.roles)}; logs in {config.folder / 'logs'}; Ctrl-C ends it"
            )
        while not stopping:
            daemon.poll()
            time.sleep(0.2)
        click.echo("stopping; work under way is taken up again at the next start", err=True)
    finally:
        daemon.stop()
    return 0
