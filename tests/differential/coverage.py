"""What a campaign reached, against all that docs/protocol.md lists."""

import re
from collections import Counter
from pathlib import Path

from zoo_compute.spec.state import JobState, Phase, World
from zoo_compute.spec.world import EXTERNAL, PROTOCOL_ONLY, WIRED, Call

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"
CONTRACTS = (
    *("registry", "tasks", "auction", "settlement", "availability", "audits", "rewards", "datasets", "treasury"),
)
GUARDED = ("registry", "tasks", "auction")  # have a guardian

# Reasons of docs/protocol.md that no account can meet, each with why.
EXCLUDED: dict[str, str] = {
    "rewards: transfer failed": "its only token is ZEN, which reverts and never answers false",
}


def listed_reasons() -> set[str]:
    """Every reason string of docs/protocol.md, with the generic `CONTRACT: ...` ones spelled out."""
    text = PROTOCOL.read_text(encoding="utf-8")
    reasons = set(re.findall(rf"`((?:{'|'.join(CONTRACTS)}): [a-zA-Z' -]+)`", text))
    spelled = {
        "not the guardian": GUARDED,
        "not the deployer": WIRED,
        "already wired": WIRED,
        "transfer failed": ("registry", "tasks", "rewards", "audits", "treasury"),
    }
    generic = set(re.findall(r"`CONTRACT: ([a-z ]+)`", text))
    assert generic == set(spelled), f"docs/protocol.md lists other generic reasons: {generic ^ set(spelled)}"
    return reasons | {f"{contract}: {cause}" for cause, where in spelled.items() for contract in where}


def listed_functions() -> set[str]:
    """Every function an account can succeed with."""
    return {f"{contract}.{name}" for contract in CONTRACTS for name in EXTERNAL[contract]}


class Coverage:
    """Counts what was accepted and refused, and which states were seen."""

    def __init__(self) -> None:
        self.accepts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()  # (function, reason)
        self.job_states: Counter[JobState] = Counter()
        self.phases: Counter[Phase] = Counter()

    def accepted(self, call: Call, after: World) -> None:
        self.accepts[f"{call.contract}.{call.function}"] += 1
        self.job_states.update(job.state for job in after.jobs.values())
        self.phases.update(lot.phase for lot in after.lots.values())

    def refused(self, call: Call, reason: str) -> None:
        self.reasons[reason] += 1
        self.pairs[f"{call.contract}.{call.function}", reason] += 1

    def update(self, other: "Coverage") -> None:
        for name, counter in vars(other).items():
            getattr(self, name).update(counter)

    def missing(self) -> dict[str, list[str]]:
        """What the campaign never reached, by what it is; empty when it is complete."""
        refused = {f"{function}" for function, _ in self.pairs}
        internal = {f"{contract}.{name}" for contract, names in PROTOCOL_ONLY.items() for name in names}
        gaps = {
            "reasons": sorted(listed_reasons() - set(EXCLUDED) - set(self.reasons)),
            "unlisted reasons": sorted(
                set(self.reasons) - listed_reasons() - {"erc20: transfer amount exceeds balance"}
            ),
            "functions": sorted(listed_functions() - set(self.accepts)),
            "internal functions never tried": sorted(internal - refused),
            "job states": [state.name for state in JobState if state and state not in self.job_states],
            "phases": [phase.name for phase in Phase if phase and phase not in self.phases],
        }
        return {what: names for what, names in gaps.items() if names}

    def summary(self) -> str:
        accepted, refused = sum(self.accepts.values()), sum(self.reasons.values())
        return f"{accepted} accepted, {refused} refused, {len(self.reasons)} reasons, {len(self.pairs)} pairs"
