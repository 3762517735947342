"""`zoo node configure`, `zoo node start` and `zoo keeper start`: commands that start an operator's processes."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click
from eth_utils.address import to_checksum_address

from keepers.config import FILE, PRICE_KEYS, SCHEMA, OperatorConfig, from_dict, load, read_unchecked, save
from keepers.config_keys import LOG_FORMATS, ROLES
from keepers.monitoring.logs import daemon_log
from keepers.processes.daemon import Daemon
from keepers.processes.systemd import notify
from zoo_compute.amounts import CREDITS
from zoo_compute.chain.addresses import is_address
from zoo_compute.cli.context import Command, Group, Settings, pass_settings
from zoo_compute.cli.doctor import report
from zoo_compute.cli.node.options import folder_of, home_option
from zoo_compute.cli.node.status import say_needs, status
from zoo_compute.errors import ConfigError, UserError
from zoo_compute.operators.needs import NodeProblem
from zoo_compute.operators.readiness import NodeInspection, inspect_node, is_keeper_running, wait_for_gateway

LISTS = {"roles", "allow", "deny"}
NONE = "none"  # empties a list, or takes a program away


@click.command("configure", cls=Command)
@home_option
@click.option("--name", help="A name for logs, and for its workers and lease where folders share a broker.")
@click.option("--network-file", "network", type=click.Path(exists=True, path_type=Path, resolve_path=True))
@click.option("--operator", type=int, help="Operator number that `zoo node register` printed; a verifier needs none.")
@click.option("--price", help="Price per slot-round, in whole ZEN (or --token). Ask what it costs you.")
@click.option("--aggregator-price", help="Price per aggregation, in whole ZEN (or --token).")
@click.option("--custody-price", help="Price of custody per GiB and round, in whole ZEN (or --token).")
@click.option(
    "--token",
    metavar="ADDRESS",
    help="Token of the prices, or `credits`, where they may be in dollars (`$0.50`); ZEN by default. Without prices, you stop bidding in it.",
)
@click.option(
    "--allow", multiple=True, metavar="ADDRESS", help="Serve only this submitter; repeatable. `none`: anybody."
)
@click.option(
    "--deny", multiple=True, metavar="ADDRESS", help="Never serve this submitter; repeatable. `none`: nobody."
)
@click.option(
    "--price-script", metavar="FILE", help="A program that says the price of each job; `none`: --price counts."
)
@click.option("--power-watts", type=float, help="Watts of a worker that computes; 0: what the GPU's driver measures.")
@click.option("--power-price", metavar="ZEN", help="What a kWh costs you, in ZEN.")
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Role to serve in; repeatable.")
@click.option("--capacity", type=int, help="Most slots of one job to serve at once.")
@click.option(
    "--device", help="Device of the workers: cuda:1, or pipeline:2 for two processes a step; the best one by default."
)
@click.option("--standby/--no-standby", default=None, help="Take over slots that others lose.")
@click.option("--workers", type=int, help="Worker processes on this machine.")
@click.option("--dispute-workers", type=int, help="Worker processes for disputes; one job never takes the last one.")
@click.option("--spares", type=int, help="Standby processes that replace a worker that died; 0: none.")
@click.option("--sample-rate", type=float, help="Share of slot-rounds a verifier re-executes.")
@click.option("--store", help="A folder, or kubo:URL of an IPFS daemon's RPC.")
@click.option(
    "--state-folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True),
    help="Where a worker short of memory lays a job's state in a file; on a fast disk.",
)
@click.option("--broker", help="`embedded`, or a redis:// or rediss:// URL.")
@click.option("--gateway-port", type=int, help="Port where the store serves blocks; 0 picks one.")
@click.option(
    "--gateway-host", help="Address the gateway listens on: 127.0.0.1 for this machine only, 0.0.0.0 for all."
)
@click.option("--metrics-port", type=int, help="Loopback port of /metrics and /health; 0 serves neither.")
@click.option(
    "--hung-after", "hung_after_s", type=float, help="Seconds without progress before the keeper is restarted."
)
@click.option("--signer", help="Where web3signer or clef answers, which has the hot key; '' for the key file.")
@click.option("--lease", "lease_s", type=float, help="Seconds of the lease of keepers that share a broker.")
@click.option("--log-format", type=click.Choice(LOG_FORMATS), help="Lines of the logs: text, or a JSON object each.")
@click.option("--log-max-mb", type=float, help="Size at which the log of a process is rotated.")
@click.option("--log-files", type=int, help="Rotated logs to keep of each process.")
@click.option("--endpoint", help="URL where others reach the gateway; your keeper announces it on chain.")
@pass_settings
def configure(settings: Settings, /, home: Path | None, token: str | None, **options: Any) -> None:
    """Create or change operator.json. Options you leave out keep their values."""
    folder = folder_of(home)
    path = folder / FILE
    raw = read_unchecked(folder) or {"name": folder.name}
    if token == CREDITS:
        token = settings.network().contracts["credits"]
    if token is not None and token.upper() != "ZEN":
        raw["prices"] = _priced(raw.get("prices") or {}, token, {key: options.pop(key) for key in PRICE_KEYS})
    raw |= {key: str(v) if isinstance(v, Path) else v for key, v in options.items() if v not in (None, ())}
    for key in LISTS & raw.keys():
        raw[key] = [] if NONE in raw[key] else list(raw[key])
    if script := options["price_script"]:
        raw["price_script"] = _script(script)
    config = from_dict(raw, folder)
    save(config)
    report = dataclasses.asdict(config) | {"folder": str(config.folder)}
    again = "; start the node again to use it" if is_keeper_running(folder) else ""
    settings.emit(report, f"{path}: {config.name}, {', '.join(config.roles)}{again}")


def _script(text: str) -> str:
    """The absolute path of a price script. Raises UserError where it cannot be run."""
    if text == NONE:
        return ""
    path = Path(text).expanduser().resolve()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise UserError(
            f"--price-script: {path} is not a program", hint=f"chmod +x {path}, with #!/... in its first line"
        )
    return str(path)


def _priced(known: dict[str, Any], token: str, options: dict[str, str | None]) -> dict[str, Any]:
    """Change the prices in one token. Without any price, remove the token's entry."""
    if not is_address(token):
        raise UserError(f"--token takes an address or `{CREDITS}`, not {token!r}", hint="leave it out for ZEN")
    prices = {key: text for key, text in options.items() if text is not None}
    others = {address: entry for address, entry in known.items() if address.lower() != token.lower()}
    before: dict[str, str] = next((entry for address, entry in known.items() if address not in others), {})
    return {**others, str(to_checksum_address(token)): {**before, **prices}} if prices else others


@click.command("start", cls=Command)
@home_option
@click.option("--only", type=click.Choice(["broker", "gateway", "keeper", "worker"]), help="Start only this part.")
@click.option(
    "--metrics-port", type=int, help="Instead of operator.json's: parts that are started apart need one each."
)
@pass_settings
def start(settings: Settings, home: Path | None, only: str | None, metrics_port: int | None) -> None:
    """Run your operator: broker, gateway, keeper and workers, until Ctrl-C. Processes that end or hang are restarted."""
    config = load(folder_of(home))
    if metrics_port is not None:
        config = dataclasses.replace(config, metrics_port=metrics_port)
    serve(settings, config, only=only)


@click.command("schema", cls=Command)
def schema() -> None:
    """Print the JSON Schema of operator.json, for editors. It has every key with its range, default and meaning."""
    click.echo(json.dumps(SCHEMA, indent=2))


@click.group("keeper", cls=Group)
def keeper() -> None:
    """Run a keeper in one role."""


@keeper.command("start")
@click.argument("role", type=click.Choice(ROLES))
@home_option
@pass_settings
def keeper_start(settings: Settings, role: str, home: Path | None) -> None:
    """Run your operator in ROLE only, whatever operator.json lists."""
    config = load(folder_of(home))
    if role != "verifier" and config.operator == 0:
        raise ConfigError(f"{FILE}: operator is 0; a {role} must be registered", hint="zoo node register")
    serve(settings, dataclasses.replace(config, roles=[role]))


@keeper.command("check")
@home_option
@pass_settings
def keeper_check(settings: Settings, home: Path | None) -> int:
    """Check all that your keeper needs, and show what it would do now and what that would cost. Takes no key, sends nothing."""
    from keepers.cli.keeper_checks import KeeperChecks

    return report(settings, KeeperChecks(load(folder_of(home))))


keeper.add_command(status)


def serve(settings: Settings, config: OperatorConfig, *, only: str | None = None) -> None:
    """Run the daemon until a signal. At the start, print what the operator still needs; stop only for a problem that blocks all work."""
    inspection = None if only not in (None, "keeper") else _check(settings, config)
    daemon = Daemon(config, only=only)
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
    with daemon_log(config.log_path("daemon"), config.log_format):
        try:
            daemon.start()
            notify("READY=1")
            _say_started(settings, config, daemon, _needs_once_served(inspection, config))
            while not stopping:
                daemon.poll()
                notify("WATCHDOG=1")
                time.sleep(0.2)
            notify("STOPPING=1")
            click.echo("stopping; unfinished work resumes at the next start", err=True)
        finally:
            daemon.stop()


def _say_started(settings: Settings, config: OperatorConfig, daemon: Daemon, needs: list[NodeProblem]) -> None:
    processes = {name: child.process.pid for name, child in daemon.children.items() if child.process}
    report = {
        "name": config.name, "home": str(config.folder), "processes": processes,
        "needs": [need.to_dict() for need in needs],
    }  # fmt: skip
    runs = f"{config.name} runs as {', '.join(config.roles)}; logs in {config.folder / 'logs'}; Ctrl-C ends it"
    settings.emit(report, runs)
    if not settings.as_json:
        say_needs(needs)


def _check(settings: Settings, config: OperatorConfig) -> NodeInspection:
    """Inspect the operator on chain. Raises ConfigError for a problem that blocks all work."""
    inspection = inspect_node(config.folder, settings.network_file)
    inspection.setup = dataclasses.replace(inspection.setup, running=True, roles=tuple(config.roles))
    for need in inspection.needs:
        if need.is_blocking:
            raise ConfigError(need.what, hint=need.do)
    return inspection


def _needs_once_served(inspection: NodeInspection | None, config: OperatorConfig) -> list[NodeProblem]:
    """What the operator still needs, after peers tried its endpoint: the gateway runs now."""
    if inspection is None:
        return []
    wait_for_gateway(config.gateway_host, config.gateway_port)
    inspection.try_endpoint()
    return inspection.needs
