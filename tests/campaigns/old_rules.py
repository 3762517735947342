"""The rules that the review of the first referee broke, brought back one by one: the tests that watch over each must then fail.

    python -m tests.campaigns.old_rules                  all of them (ten minutes)
    python -m tests.campaigns.old_rules sixteen ftz      of some of the review's scripts

A rule comes back in a copy of the tree, in contract and specification alike, so that a test fails by what it demands and not
because the two differ. Ends with an error where a test passes all the same, or fails without the old rule.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    ".build/contracts",
    "benchmarks",
    "contracts",
    "keepers",
    "node",
    "pyproject.toml",
    "repops",
    "scripts",
    "tests",
    "zoo_compute",
)
FAILED = 1  # pytest's exit status where tests ran and some failed
SCENARIO = "tests/differential/test_scenarios.py::test_contracts_and_specification_agree_that"
REFEREE, CLOCKS, SPEC = "contracts/Referee.vy", "contracts/modules/path_clocks.vy", "zoo_compute/spec"


@dataclass(frozen=True)
class Change:
    """before: lines that the file has once."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class OldRule:
    """scripts: of the review, without `.py`. says: what the rule did."""

    scripts: tuple[str, ...]
    says: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...]


OLD_RULES = (
    OldRule(
        ("sixteen",),
        "a claim has sixteen places, and the liar takes all of them",
        (Change(REFEREE, "if open_asks > bits.U16:", "if open_asks > 16:"),),
        (
            "tests/referee/test_hostile_askers.py::test_asks_of_the_liar_itself__keep_no_honest_party_out[16]",
            "tests/referee/test_hostile_askers.py::test_asks_of_the_liar_itself__keep_no_honest_party_out[100]",
        ),
    ),
    OldRule(
        ("stall", "stall_bonds"),
        "a side's clock is multiplied by all that is open against the operator, without a cap",
        (
            Change(
                CLOCKS,
                "counted = min(counted_left, (open_heavy + slots - 1) // slots)",
                "counted = min(255, open_heavy)",
            ),
            Change(CLOCKS, "| (counted_left - counted) << 8", "| counted_left << 8"),
            Change(
                f"{SPEC}/clocks.py",
                "counted = min(clocks.counted_left, -(-open_heavy // max(slots, 1))) if heavy else 0",
                "counted = min(255, open_heavy) if heavy else 0",
            ),
            Change(
                f"{SPEC}/clocks.py", "counted_left=clocks.counted_left - counted,", "counted_left=clocks.counted_left,"
            ),
        ),
        (
            "tests/referee/test_referee_hostile.py::test_exhausted_operator__is_slashed_by_what_its_attacker_burned",
            "tests/referee/test_referee_hostile.py::test_liar__that_asks_itself_for_traces__burns_half_of_each_off_the_convicting_path",
            "tests/spec/test_clocks_model.py::test_all_disputes_of_two_places__reach_every_bound_and_pass_none",
        ),
    ),
    OldRule(
        ("stall",),
        "each move has the same clock, however many there are",
        (
            Change(CLOCKS, "return kept | now << 112 | (left - used) << 80", "return kept | now << 112 | left << 80"),
            Change(f"{SPEC}/clocks.py", "committer_left_s=left_s, exhausted=False", "exhausted=False"),
        ),
        (
            "tests/referee/test_hostile_askers.py::test_a_liar_that_answers_in_its_last_second__is_convicted_within_the_bound",
            "tests/referee/test_referee_hostile.py::test_path__of_late_answers_and_late_asks__ends_at_the_bound",
        ),
    ),
    OldRule(
        ("exhaust",),
        "a keeper counts what one job can ask of it, not all of them",
        (
            Change(
                "keepers/decisions/defence.py",
                "takes_s = per_slot * sum(each.slots * each.opening_s for each in promises)",
                "takes_s = per_slot * promise.slots * promise.opening_s",
            ),
        ),
        ("tests/keepers/test_defence.py::test_every_clock__must_hold_with_the_openings_of_all_jobs",),
    ),
    OldRule(
        ("exhaust",),
        "who exhausts an operator has everything back",
        (
            Change(REFEREE, "burned = (word >> HEAVY_MADE_AT & bits.U16) * (price // 2)", "burned = 0"),
            Change(
                f"{SPEC}/verdicts.py",
                "burned = word.heavy_made * clocks.heavy_shares(price, end, True).burned",
                "burned = 0",
            ),
        ),
        ("tests/referee/test_referee_hostile.py::test_exhausted_operator__is_slashed_by_what_its_attacker_burned",),
    ),
    OldRule(
        ("economics",),
        "silence pays whoever asked: 40 % of the lock",
        (
            Change(
                REFEREE,
                "self.verdicts[node.claim] = node.origin & UNIT_MASK",
                "self.verdicts[node.claim] = node.origin | self._now()",
            ),
            Change("contracts/Locks.vy", "if outcome == outcomes.JUDGED:", "if outcome != outcomes.EXHAUSTED:"),
            Change(
                f"{SPEC}/verdicts.py",
                "w.verdicts[node.claim] = Verdict(node.origin.unit)",
                "w.verdicts[node.claim] = Verdict(node.origin.unit, node.origin.asked_at, msg.now)",
            ),
            Change(f"{SPEC}/locks.py", "if end == End.JUDGED else 0", "if end != End.EXHAUSTED else 0"),
        ),
        (
            "tests/referee/test_hostile_askers.py::test_sniping_an_operator_that_is_offline__pays_nobody",
            f"{SCENARIO}[silence_costs_the_lock_and_nobody_earns_by_it]",
            f"{SCENARIO}[an_ask_that_nobody_answers_convicts]",
        ),
    ),
    OldRule(
        ("deadnode", "honest_cannot_trace"),
        "a program may have nodes that neither its state nor its loss needs",
        (Change("repops/limits.py", 'if not wanted[at] and node.op != "input":', "if at < 0:"),),
        (
            "tests/repops/test_program_limits.py::test_decode__a_node_that_nobody_needs__is_refused_by_its_number",
            "tests/repops/test_program_limits.py::test_decode__dead_iotas__are_refused",
        ),
    ),
    OldRule(
        ("deadnode",),
        "nobody adds up what a trace hashes",
        (Change("repops/limits.py", "if (size := trace_bytes(graph)) > MAX_TRACE_BYTES:", "if (size := 0):"),),
        ("tests/repops/test_program_limits.py::test_decode__needed_iotas__are_refused_by_the_bytes_of_a_trace",),
    ),
    OldRule(
        ("emptydot", "honest_cannot_trace", "fuzz"),
        "the native kernels look for the place of an operand without elements, which has none",
        (
            Change(
                "repops/native/runner.py",
                "self.arena.address + (self.offsets[node] if self._bytes(node) else 0)",
                "self.arena.address + self.offsets[node]",
            ),
        ),
        (
            "tests/repops/test_empty.py::test_native_isas__all_trace_an_empty_dot",
            "tests/repops/test_empty.py::test_random_program__with_empty_tensors__is_run_traced_and_proven",
        ),
    ),
    OldRule(
        ("parts_rate",),
        "parts are computed in pure Python, term by term",
        (Change("repops/backend.py", '"native": "repops.native.parts",', '"native": "repops.reference",'),),
        ("tests/repops/test_parts.py::test_part_words__of_more_terms__take_no_more_steps_of_python",),
    ),
    OldRule(
        ("parts_rate",),
        "one element may sum 2^31 terms of a single word",
        (Change("repops/limits.py", "MAX_TERMS = 1 << 29", "MAX_TERMS = 1 << 31"),),
        ("tests/repops/test_program_limits.py::test_decode__a_reduction_of_2_31_terms_of_one_word__is_refused[sum]",),
    ),
    OldRule(
        ("ftz",),
        "kernels without a mode of their own compute in a process that flushes subnormals",
        (Change("repops/float_mode.py", ".tolist() != _EXPECTED:", ".tolist() == []:"),),
        (
            "tests/repops/test_float_mode.py::test_other_backends__of_a_process_that_flushes__refuse[numba]",
            "tests/repops/test_float_mode.py::test_other_backends__of_a_process_that_flushes__refuse[reference]",
        ),
    ),
    OldRule(
        ("differential",),
        "no rule of old, the arithmetic held; here the contract rounds ties up",
        (Change("contracts/modules/float32.vy", "m >> cut & 1)) >> cut", "1)) >> cut"),),
        (
            "tests/referee/test_float32.py::test_arithmetic__edges_and_random_words__is_the_executors[mul]",
            "tests/referee/test_float32.py::test_arithmetic__edges_and_random_words__is_the_executors[fma]",
        ),
    ),
    OldRule(
        ("differential",),
        "nor here: the contract counts a block too many in a long dot product",
        (
            Change(
                "contracts/modules/element_parts.vy",
                "self._groups(self._groups(node.terms, table.BLOCK) - 1, self._joined(size))",
                "self._groups(self._groups(node.terms, table.BLOCK), self._joined(size))",
            ),
        ),
        ("tests/referee/test_operators.py::test_a_reduction__of_a_chosen_form__is_as_repops_has_it_in_parts_all_over",),
    ),
)


def scripts() -> list[str]:
    """Of the review, each once."""
    return list(dict.fromkeys(script for rule in OLD_RULES for script in rule.scripts))


def copy_of_the_tree(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        elif source.exists():
            shutil.copy(source, folder / name)


def changed(text: str, change: Change) -> str:
    found = text.count(change.before)
    if found != 1:
        raise SystemExit(f"old_rules: {change.path} has this {found} times; expected once: {change.before}")
    return text.replace(change.before, change.after)


def failing(folder: Path, tests: Sequence[str]) -> list[str]:
    """The tests that fail. Ends the campaign where one cannot be run."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=line", "-p", "no:ape_test", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *tests], cwd=folder, capture_output=True, text=True, check=False)
    failed = [test for test in tests if f"\nFAILED {test}" in done.stdout]
    if done.returncode not in (0, FAILED) or "\nERROR " in done.stdout or bool(failed) != bool(done.returncode):
        raise SystemExit(
            f"old_rules: some of {', '.join(tests)} did not run:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
        )
    return failed


def bring_back(rule: OldRule, folder: Path) -> list[str]:
    """The tests that do not notice the old rule."""
    before = {change.path: (ROOT / change.path).read_text() for change in rule.changes}
    texts = dict(before)
    for change in rule.changes:
        texts[change.path] = changed(texts[change.path], change)
    try:
        for path, text in texts.items():
            (folder / path).write_text(text)
        noticed = failing(folder, rule.tests)
    finally:
        for path, text in before.items():
            (folder / path).write_text(text)
    return [test for test in rule.tests if test not in noticed]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", help=f"some of {', '.join(scripts())}")
    wanted = parser.parse_args().scripts or scripts()
    if unknown := set(wanted) - set(scripts()):
        parser.error(f"no script {sorted(unknown)[0]!r}: choose of {', '.join(scripts())}")
    rules = [rule for rule in OLD_RULES if set(rule.scripts) & set(wanted)]
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="zoo-old-rules-") as name:
        folder = Path(name)
        copy_of_the_tree(folder)
        if broken := failing(folder, sorted({test for rule in rules for test in rule.tests})):
            raise SystemExit(f"old_rules: these fail without an old rule: {', '.join(broken)}")
        for rule in rules:
            began = time.monotonic()
            unseen = bring_back(rule, folder)
            missed += unseen
            noticed = f"{len(rule.tests) - len(unseen)} of {len(rule.tests)} tests fail"
            print(f"{', '.join(rule.scripts)}: {rule.says}: {noticed}, {time.monotonic() - began:.0f} s", flush=True)
    for test in missed:
        print(f"passes all the same: {test}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
