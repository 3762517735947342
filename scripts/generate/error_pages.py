"""docs/reference/errors: an entry for every refusal of a contract, and for every exception. Hints print the entries' addresses."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict

from scripts.generate.protocol_tables import GENERATED, filled, rows
from zoo_compute import errors
from zoo_compute.chain.revert_hints import HINTS

REASONS = {  # contract -> how its refusals begin
    "NodeRegistry": "registry",
    "TaskRegistry": "tasks",
    "Auction": "auction",
    "Locks": "locks",
    "Settlement": "settlement",
    "Availability": "availability",
    "Custody": "custody",
    "Audits": "audits",
    "Admissions": "admissions",
    "Serving": "serving",
    "Referee": "referee",
    "Rewards": "rewards",
    "Credits": "credits",
    "Datasets": "datasets",
    "Channels": "channels",
    "Treasury": "treasury",
    "AuditPool": "pool",
    "Guardian": "guardian",
    "ZenToken": "erc20",
}
OTHERS = {  # how refusals begin -> who refuses
    "evidence": "Evidence",
    "executor": "OpExecutor",
    "timelock_controller": "Timelock",
    "access_control": "the roles of Timelock",
}
REFUSERS = {**{prefix: contract for contract, prefix in REASONS.items()}, **OTHERS, "erc20": "ZEN and other tokens"}


def refusal_pages() -> dict[str, str]:
    """A page for each contract, by its prefix."""
    refusing = _refusing()
    return {prefix: _page(prefix, refuser, refusing) for prefix, refuser in REFUSERS.items()}


def _refusing() -> dict[str, list[str]]:
    """reason -> the functions whose row in docs/protocol lists it."""
    functions: dict[str, list[str]] = defaultdict(list)
    for contract in (*REASONS, "Evidence"):
        for function, row in rows(contract).items():
            for reason in re.findall(r"`(\w+: [^`]+)`", row.refusals):
                functions[reason].append(f"`{contract}.{function}`")
    return functions


def _page(prefix: str, refuser: str, refusing: dict[str, list[str]]) -> str:
    lines = [f"# Refusals of {refuser}: `{prefix}: ...`", "", GENERATED, ""]
    for reason, hint in HINTS.items():
        if reason.partition(":")[0] == prefix:
            by = f" Refused by {', '.join(sorted(refusing[reason]))}." if refusing[reason] else ""
            lines += [f"## {reason}", "", *filled(f"{hint[0].upper()}{hint[1:]}.{by}"), ""]
    return "\n".join(lines).rstrip() + "\n"


def errors_page() -> str:
    """The tree of exceptions, an entry for each that says one thing, and the pages of refusals."""
    lines = ["# Errors", "", GENERATED, ""]
    lines += [
        *filled(ABOUT),
        "",
        "```text",
        *(inspect.getdoc(errors) or "").splitlines(),
        "```",
        "",
        "## Refusals of contracts",
        "",
    ]
    lines += ["| refusals | of |", "|---|---|"]
    lines += [f"| [`{prefix}: ...`](errors/{prefix}.md) | {refuser} |" for prefix, refuser in REFUSERS.items()]
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.ZooError) and name not in errors.GENERAL | _refusals():
            said = (inspect.getdoc(kind) or "").split("\n\n")[0] if kind.__doc__ else ""
            hint = f"{kind.hint[0].upper()}{kind.hint[1:]}." if kind.hint else ""
            lines += ["", f"## {name}", "", *filled(" ".join(filter(None, (said, MORE.get(name, ""), hint))))]
    return "\n".join(lines).rstrip() + "\n"


def _refusals() -> set[str]:
    kinds = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.Refusal)}
    return kinds - {"BareRevert"}


ABOUT = (
    "Every exception has a message and a `.hint`, and, where there is an entry about it here, its address, `.see`. The command line prints "
    "all three and exits with 1 ([exit codes](cli.md)). The address is a path in the repository; if `ZOO_DOCS` is set to where this site is "
    "served, it is a URL. An error of a job's file leads to [its keys](job-file.md) instead."
)
MORE = {  # what a docstring does not say
    "WrongPassphrase": "A key file was not decrypted.",
    "NoPassphrase": "A key needs its passphrase, and there is no terminal to ask.",
    "KeystoreExists": "There is a key file at this path already.",
    "Unreachable": "No RPC of the network file answers.",
    "RpcsDisagree": "Two RPCs of the network file show different chains.",
    "FeeTooHigh": "Gas costs more than the sender pays.",
    "WrongChain": "The RPC answers for another chain id than the network file has.",
    "WrongDeployment": "At an address of the network file is no code, or other code than that of this release.",
}
