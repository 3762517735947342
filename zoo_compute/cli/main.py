"""The entry point of `zoo` (and of zoo-gym's `gym`), and how errors are printed."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence

import click

from zoo_compute.cli import (
    account,
    channel,
    completion,
    credits,
    dashboard,
    dataset,
    dispute,
    doctor,
    network,
    plugins,
    quote,
    render,
    serving,
    store,
    train,
    treasury,
)
from zoo_compute.cli import inference as live
from zoo_compute.cli import map as mapping
from zoo_compute.cli.context import Group, Settings
from zoo_compute.cli.job import audit as job_audit
from zoo_compute.cli.job import custody as job_custody
from zoo_compute.cli.job import demands, evaluate, merge
from zoo_compute.cli.job import group as job
from zoo_compute.cli.job import schema as job_schema
from zoo_compute.cli.node import admission, audit, custody, estimate, money, register, sponsorship, status
from zoo_compute.cli.node import group as node
from zoo_compute.errors import ZooError
from zoo_compute.store.errors import BadCid, ContentMissing, ContentTampered, StoreError, StoreFull, StoreUnreachable

INTERRUPTED = 130
STORE_HINTS: dict[type[Exception], str] = {
    BadCid: "a CID looks like bafkrei... or bafybei..., 59 letters and digits",
    ContentMissing: "check the CID and the network file's `storage`; someone who has the content must serve it (`zoo store serve`)",
    ContentTampered: "do not use it; fetch it again from another peer, or remove the damaged block and fetch it again",
    StoreFull: "free some disk space, then run the same command again; complete files are kept",
    StoreUnreachable: "check --store and ZOO_STORE, and that the daemon or gateway is running",
}


@click.group(
    cls=Group, hide_common=False, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="zoo-compute", prog_name="zoo")
def root() -> None:
    """Train a torch model on strangers' GPUs without trusting anyone.

    First steps: `zoo devnet --nodes 3` in one terminal, `zoo doctor` and `zoo train FILE` in another.
    For scripts, add --json; docs/reference/cli.md lists the keys.
    """


_command: click.Command
for _command in (
    account.account, channel.channel, completion.completion, credits.credits_group, dashboard.dashboard, dataset.dataset, dispute.dispute, doctor.doctor, job.job, mapping.map_items, network.network, node.node, quote.quote, render.render, serving.serving, store.store, train.train, treasury.treasury, *live.COMMANDS,
):  # fmt: skip
    root.add_command(_command)
for _command in (
    *register.COMMANDS, *status.COMMANDS, *money.COMMANDS, *sponsorship.COMMANDS, *admission.COMMANDS, *audit.COMMANDS, *estimate.COMMANDS,
    *custody.COMMANDS,
):  # fmt: skip
    node.node.add_command(_command)
for _command in (
    *demands.COMMANDS, *evaluate.COMMANDS, *job_audit.COMMANDS, *job_custody.COMMANDS, *job_schema.COMMANDS, *merge.COMMANDS, *mapping.COMMANDS, *dataset.JOB_COMMANDS,
):  # fmt: skip
    job.job.add_command(_command)
for _command in live.SERVING_COMMANDS:
    serving.serving.add_command(_command)


def build() -> click.Group:
    """The whole command tree, including the commands of installed extras."""
    plugins.attach(root)
    group = root.commands["node"]
    assert isinstance(group, click.Group)
    for name in ("register", "start"):  # short forms of the most frequent commands
        if name in group.commands and name not in root.commands:
            root.add_command(_hidden(group.commands[name], name))
    return root


def _hidden(command: click.Command, name: str) -> click.Command:
    import copy

    alias = copy.copy(command)
    alias.hidden, alias.name = True, name
    return alias


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and exit: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """`main` without exiting the process."""
    settings = Settings()
    argv = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in argv
    try:
        result = build().main(args=argv, prog_name="zoo", standalone_mode=False, obj=settings)
        return result if isinstance(result, int) and not isinstance(result, bool) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except click.UsageError as error:
        if as_json:
            _print_object(error.format_message(), "see --help")
        error.show()
        return 2
    except click.ClickException as error:
        return _fail(error.format_message(), "", settings, as_json)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:  # noqa: BLE001 - the last place that can report an error
        return _fail(*explain(error), settings, as_json, see=error.see if isinstance(error, ZooError) else "")


def explain(error: BaseException) -> tuple[str, str]:
    """The message and the hint to print for `error`."""
    if isinstance(error, ZooError):
        return str(error) or type(error).__name__, error.hint or ""
    if isinstance(error, StoreError):
        return str(error), STORE_HINTS.get(type(error), "")
    if isinstance(error, OSError):
        import errno

        where = f": {error.filename}" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return (
                f"the disk is full{where}",
                "free some space, then run the same command again; complete files are kept",
            )
        return f"{error.strerror or error}{where}", "check the path and its permissions"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
        return "this needs torch, which is not installed", "pip install 'zoo-compute[node]'"
    if isinstance(error, ValueError):
        return str(error), ""
    return f"{type(error).__name__}: {error}", "this is a bug in zoo; please report it with the output of --debug"


def _fail(message: str, hint: str, settings: Settings, as_json: bool, *, see: str = "") -> int:
    if settings.debug:
        traceback.print_exc()
    click.echo(f"zoo: {message}", err=True)
    for line in filter(None, (hint, see and f"see {see}")):
        click.echo(f"     {line}", err=True)
    if as_json or settings.as_json:
        _print_object(message, hint, see)
    return 1


def _print_object(message: str, hint: str, see: str = "") -> None:
    click.echo(json.dumps({"error": message, "hint": hint, **({"see": see} if see else {})}))


if __name__ == "__main__":
    main()
