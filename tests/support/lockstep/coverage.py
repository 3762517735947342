"""What a campaign reached, against all that the pages of docs/protocol list."""

import re
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

from zoo_compute.spec.clocks import End
from zoo_compute.spec.state import World
from zoo_compute.spec.world import EXTERNAL, PROTOCOL_ONLY, WIRED, Call

PAGES = sorted((Path(__file__).parents[3] / "docs" / "protocol").glob("*.md"))
CONTRACTS = ("guardian", "registry", "tasks", "auction", "settlement", "locks", "availability", "audits")
CONTRACTS += ("custody", "rewards", "datasets", "channels", "admissions", "serving", "treasury", "pool", "credits")
# Its refusals are met in tests/referee; here it is called for what comes of it.
REFEREE = "referee"
GUARDED = ("registry", "tasks", "auction")  # Guardian pauses them

# Reasons of docs/protocol that no account can meet, each with why.
EXCLUDED: dict[str, str] = {
    "rewards: transfer failed": "its only token is ZEN, which reverts and never answers false",
    "rewards: approval failed": "likewise",
    "rewards: successor took another amount": "tests/contracts/test_upgrade.py has a successor that does",
    "serving: transfer failed": "likewise",
    "credits: transfer failed": "likewise",
    "credits: approval failed": "likewise",
    "credits: successor took another amount": "tests/contracts/test_credits.py has a successor that does",
    "pool: approval failed": "no token of the stage refuses an approval: tests/contracts/test_money.py has one",
}
# The token's own, passed on by whoever pulls.
FOREIGN = {"erc20: transfer amount exceeds balance", "evidence: it does not hold"}

# What has states: where its records are in the world, and how one's state reads.
STATES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "job": ("jobs", lambda job: job.state.name),
    "lot": ("lots", lambda lot: lot.phase.name),
    "claim": ("claims", lambda posted: posted.status.name),
    "parked claim": ("parked", lambda status: status.name),
    "demand": ("demands", lambda demand: "HELPED" if demand.is_helped else "OPEN" if demand.is_open else "ENDED"),
    "draw": ("draws", lambda draw: "DRAWN" if draw.is_drawn else "NAMED"),
    "verdicts": ("statements", lambda given: "GIVEN" if given.left.units else "ENDED"),
    "custodian": ("custody_roles", lambda role: role.status.name),
    "draw of a committee": ("custody", lambda progress: "SCHEDULED" if progress.draw_block else "IDLE"),
    "record": ("custody_records", lambda r: "CHECKPOINT" if r.checkpoint else "INPUTS" if r.signed_at else "SHORT"),
    "entry": ("entries", lambda entry: "STANDING" if entry.block else "ENDED"),
    "dispute": ("disputes.claims", lambda word: word.end.name if word.end else "EXPLORED"),
    "channel": ("channels", lambda channel: "LEAVING" if channel.ends_at else "OPEN"),
    "recall": ("recalls", lambda recall: "DUE" if recall.due else "ENDED"),
}
# How docs/protocol lets them change; a claim's place is used again.
TRANSITIONS: dict[str, str] = {
    "job": "NONE>OPEN OPEN>CANCELLED OPEN>AWARDED AWARDED>RUNNING RUNNING>ENDED ENDED>RUNNING",
    "lot": "NONE>OPEN OPEN>CLEARING OPEN>CLEARED CLEARING>CLEARED CLEARED>AWARDED",
    "claim": "NONE>PENDING PENDING>PAID PENDING>CONVICTED PENDING>VOID PENDING>ABSENT "
    "PAID>PENDING CONVICTED>PENDING VOID>PENDING ABSENT>PENDING PENDING>PARKED PARKED>PENDING",
    "parked claim": "NONE>PENDING PENDING>PAID PENDING>CONVICTED PENDING>VOID",
    "demand": "NONE>OPEN OPEN>HELPED OPEN>ENDED HELPED>ENDED ENDED>OPEN",
    "draw": "NONE>NAMED NAMED>DRAWN",
    "verdicts": "NONE>GIVEN GIVEN>ENDED",
    "custodian": "NONE>OFFERED OFFERED>NONE OFFERED>CUSTODIAN CUSTODIAN>LEFT",
    "draw of a committee": "NONE>IDLE IDLE>SCHEDULED SCHEDULED>IDLE",
    "record": "NONE>INPUTS NONE>SHORT NONE>CHECKPOINT SHORT>INPUTS SHORT>CHECKPOINT INPUTS>CHECKPOINT "
    "CHECKPOINT>INPUTS CHECKPOINT>SHORT INPUTS>SHORT",
    "entry": "NONE>STANDING STANDING>ENDED ENDED>STANDING",
    "dispute": "NONE>EXPLORED " + " ".join(f"EXPLORED>{end.name}" for end in End),
    "channel": "NONE>OPEN OPEN>LEAVING",
    "recall": "NONE>ENDED ENDED>DUE DUE>ENDED",
}


def listed_reasons() -> set[str]:
    """Every reason string of docs/protocol, with the generic `CONTRACT: ...` ones spelled out."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    reasons = set(re.findall(rf"`((?:{'|'.join(CONTRACTS)}): [a-zA-Z' -]+)`", text))
    spelled = {
        "not the guardian": GUARDED,
        "not the deployer": WIRED,
        "already wired": WIRED,
        "transfer failed": ("registry", "tasks", "rewards", "audits", "custody", "treasury", "channels", "credits"),
    }
    generic = set(re.findall(r"`CONTRACT: ([a-z ]+)`", text))
    assert generic == set(spelled), f"docs/protocol lists other generic reasons: {generic ^ set(spelled)}"
    return reasons | {f"{contract}: {cause}" for cause, where in spelled.items() for contract in where}


def listed_functions() -> set[str]:
    """Every function in a table of docs/protocol, and what Guardian calls of each intake."""
    reached_items = {f"{contract}.pause" for contract in GUARDED}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        title = re.match(r"# \w+ \(`(\w+): \.\.\.`\)", text)
        if title and title[1] in (*CONTRACTS, REFEREE):
            first_cells = re.findall(r"^\| (`[^|]+) \|", text, flags=re.MULTILINE)
            names = re.findall(r"`(\w+)\(", " ".join(first_cells))
            reached_items |= {f"{title[1]}.{name}" for name in names}
    return reached_items


def functions_of(table: dict[str, Any]) -> set[str]:
    return {f"{contract}.{name}" for contract in (*CONTRACTS, REFEREE) for name in table.get(contract, {})}


def listed_transitions() -> set[str]:
    return {f"{what}: {each}" for what, each_of in TRANSITIONS.items() for each in each_of.split()}


def states_in(transitions: set[str]) -> set[str]:
    """Where transitions lead."""
    return {re.sub(r"\w+>", "", transition) for transition in transitions}


class Coverage:
    """Counts what was accepted and refused, and how states changed."""

    def __init__(self) -> None:
        self.accepts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()  # (function, reason)
        self.transitions: Counter[str] = Counter()

    @property
    def calls(self) -> int:
        return self.accepts.total() + self.reasons.total()

    def accepted(self, call: Call, before: World, after: World) -> None:
        self.accepts[f"{call.contract}.{call.function}"] += 1
        for what, (name, state) in STATES.items():
            old, new = attrgetter(name)(before), attrgetter(name)(after)
            for key, record in new.items():
                was = old.get(key)
                if was is not record:
                    left, entered = state(was) if was else "NONE", state(record)
                    if left != entered:
                        self.transitions[f"{what}: {left}>{entered}"] += 1

    def refused(self, call: Call, reason: str) -> None:
        self.reasons[reason] += 1
        self.pairs[f"{call.contract}.{call.function}", reason] += 1

    def update(self, other: "Coverage") -> None:
        for name, counter in vars(other).items():
            getattr(self, name).update(counter)

    def reached(self) -> dict[str, tuple[set[str], set[str]]]:
        """By what it is: what the campaign reached, and what there is to reach."""
        transitions, tried = listed_transitions(), {function for function, _ in self.pairs}
        return {
            "reasons": (self.own_reasons(), listed_reasons() - set(EXCLUDED)),
            "functions": (set(self.accepts) & listed_functions(), functions_of(EXTERNAL)),
            "internal functions": (tried & functions_of(PROTOCOL_ONLY), functions_of(PROTOCOL_ONLY)),
            "states": (states_in(set(self.transitions)), states_in(transitions)),
            "transitions": (set(self.transitions), transitions),
        }

    def own_reasons(self) -> set[str]:
        return {reason for reason in self.reasons if reason not in FOREIGN and not reason.startswith(f"{REFEREE}: ")}

    def missing(self) -> dict[str, list[str]]:
        """What the campaign never reached, by what it is; empty when it is complete."""
        gaps = {what: sorted(listed - reached_items) for what, (reached_items, listed) in self.reached().items()}
        return {what: names for what, names in gaps.items() if names}

    def unlisted(self) -> dict[str, list[str]]:
        """What it reached and docs/protocol does not list."""
        excess = {what: sorted(reached_items - listed) for what, (reached_items, listed) in self.reached().items()}
        return {what: names for what, names in excess.items() if names}

    def summary(self) -> str:
        reached = ", ".join(
            f"{len(reached_items & listed)} of {len(listed)} {what}"
            for what, (reached_items, listed) in self.reached().items()
        )
        return f"{self.accepts.total()} accepted, {self.reasons.total()} refused; {reached}"
