"""What auditors say in a play."""

from __future__ import annotations

from benchmarks.economy.network import AUDITORS
from benchmarks.economy.table import JOB, Table, units_of
from zoo_compute.spec import audits
from zoo_compute.spec.auditing import Draw, Role, Verdicts, verdicts_of
from zoo_compute.spec.state import Claim


class Audits(Table):
    """Units are drawn as soon as a turn closes; whoever is drawn says something of them, or nothing."""

    def audit(self, turn: int, claims: list[Claim]) -> None:
        n = self.n
        n.wait(1)
        n.ok("audits", "draw_units", "stranger", JOB, turn)
        n.wait(n.preset.draw_blocks + 2)
        n.ok("audits", "draw_units", "stranger", JOB, turn)
        draw = n.world.draws[JOB, turn]
        units = {unit: claim for claim in claims for unit in units_of(claim)}
        for role in (Role.AUDITOR, Role.REPLACEMENT):
            if role == Role.REPLACEMENT:
                silent = [name for name in AUDITORS if (turn, name, Role.AUDITOR) not in self.said]
                if not silent:
                    return
                n.to(max(n.now, draw.half_at + 1))
            judges = {unit: audits.judge_of(n.world, draw, unit, claim.operator, role) for unit, claim in units.items()}
            for name in AUDITORS:
                mine = [
                    unit
                    for unit, judge in judges.items()
                    if judge == n.ids[name] and (role == Role.AUDITOR or self._is_left(turn, draw, unit, units[unit]))
                ]
                if mine:
                    self._judge(turn, name, role, {unit: units[unit] for unit in mine})

    def _is_left(self, turn: int, draw: Draw, unit: int, claim: Claim) -> bool:
        auditor = audits.judge_of(self.n.world, draw, unit, claim.operator, Role.AUDITOR)
        said = self.said.get((turn, self.n.named(auditor), Role.AUDITOR)) if auditor else None
        return said is None or unit not in said.units

    def _judge(self, turn: int, name: str, role: Role, units: dict[int, Claim]) -> None:
        wrong = [unit for unit, claim in units.items() if claim in self.lies]
        clean = [unit for unit in units if unit not in wrong]
        does = self.pick(
            name,
            f"as {role.name.lower()} of turn {turn}",
            "looks",
            "calls all clean",
            "calls all false",
            "calls each the other way",
            "is silent",
        )
        self.worth.drawn(name, units)
        if does == "is silent":
            return
        if does == "looks":
            self.worth.looked(name, units)
        elif does == "calls all clean":
            self.worth.trusted(name, units)
        verdicts = {
            "looks": verdicts_of(clean, wrong),
            "calls all clean": verdicts_of(list(units), []),
            "calls all false": verdicts_of([], list(units)),
            "calls each the other way": verdicts_of(wrong, clean),
        }[does]
        self.n.ok("audits", "give_verdicts", f"{name} hot", JOB, turn, self.n.ids[name], verdicts)
        self.said[turn, name, role] = verdicts

    def settle_verdicts(self) -> None:
        """As far as claims are decided."""
        for turn, name, role in self.said:
            operator = self.n.ids[name]
            key = (JOB, turn, operator, role)
            left, had = self.n.world.statements[key].left, self.n.wealth([name])
            if not left.units or self.n.now <= self.n.world.draws[JOB, turn].deadline:
                continue
            claims = tuple(claim for claim in self.worth.claims if claim.turn == turn)
            auditor = next(who for who in AUDITORS if who != name)
            first = self.said.get((turn, auditor, Role.AUDITOR), Verdicts()) if role == Role.REPLACEMENT else Verdicts()
            self.n.attempt("audits", "settle_verdicts", "stranger", JOB, turn, operator, int(role), left, claims, first)
            units = set(left.units).difference(self.n.world.statements[key].left.units)
            self.worth.settled(name, units, self.n.wealth([name]) - had)
