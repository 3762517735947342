"""Whether tests notice a mutant. The parent has all imported; a child is forked for each mutant.

What changes between children is only which contracts `sources.load` hands out, so that a mutant costs its own
compilation and the tests up to the first that fails. Of a module's users those that execute the mutant's function are
judged one after another; the others of them are compiled, with the mutant too, when a test asks for them. A mutant is
compiled without the optimiser, which takes most of a compilation; who survives is compiled as shipped, and discarded
when its bytecode then equals the original's.
"""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from vyper.compiler.phases import generate_bytecode
from vyper.compiler.settings import OptimizationLevel
from vyper.exceptions import VyperException, VyperInternalException

from tests.campaigns.mutation.mutants import Mutant, Statement, statements, text_of
from tests.campaigns.mutation.suites import CONTRACTS, LEFT_OUT, ROOT, files, users
from tests.support import sources
from tests.support.evm import chain

KEPT = ROOT / "build" / "mutation"
LIMIT_S = 1_800  # of a run; a mutant that takes longer counts as noticed
FRONT = 12  # tests that killed most go first
# In all these ways the compiler refuses a source.
REFUSALS = (
    VyperException,
    VyperInternalException,
    SyntaxError,
    ValueError,
    TypeError,
    AssertionError,
    KeyError,
    RecursionError,
    ArithmeticError,
)
UNOPTIMISED_CODE = 2**17  # bytes


@dataclass(frozen=True)
class Built:
    """A contract, with the compiler's view of it."""

    compiled: sources.Compiled
    data: Any


Deployers = dict[str, Built]


@dataclass(frozen=True)
class MutantOutcome:
    """How a mutant ended: invalid, equal (its bytecode is the original's), duplicate, killed, timeout or survived."""

    status: str
    by: str = ""
    seconds: float = 0.0
    code: str = ""


def build(path: Path, level: OptimizationLevel | None = None) -> Built:
    """level: what the source's own pragma gives way to."""
    data = sources.compiler_data(path, level)
    return Built(sources.compiled(path.stem, data), data)


def fingerprint(built: Built) -> str:
    """Of what is deployed, without the hash of the sources."""
    return sha256(generate_bytecode(built.data.assembly, compiler_metadata=None)).hexdigest()[:16]


class Plugin:
    """Of the child's pytest: likely killers first, then tests whose names have one of `words`; tells the parent what failed."""

    def __init__(self, front: list[str], words: Sequence[str], left_out: tuple[str, ...], writer: int) -> None:
        self.front, self.words, self.left_out, self.writer = front, words, left_out, writer

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        places = {test: place for place, test in enumerate(self.front)}
        kept = [item for item in items if not any(name in item.nodeid for name in self.left_out)]
        last = len(places)
        items[:] = sorted(kept, key=lambda item: (places.get(item.nodeid, last), not self._is_meant(item.name)))

    def _is_meant(self, name: str) -> bool:
        return any(word in name for word in self.words)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os.write(self.writer, report.nodeid.encode() + b"\n")


class MutantRunner:
    """Compiles and runs. `on(source)` judges the mutants of one source."""

    def __init__(self, contracts: list[str], *, whole: bool = False) -> None:
        self.whole = whole
        self.folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        shutil.copytree(CONTRACTS, self.folder / "contracts")
        shared = sorted([*CONTRACTS.glob("modules/**/*.vy"), *CONTRACTS.glob("interfaces/*.vyi")])
        self.shared = b"".join(path.read_bytes() for path in shared)
        self.handed_out: Deployers = {}
        self.originals: Deployers = {}
        self.changed: list[str] = []  # in a child: contracts that have the mutant
        sources.load = lambda name: self.shipped(name).compiled
        self.files = files(contracts, whole=whole)
        self.passing: set[str] = set()
        self.left_out: set[str] = set()
        self._warm()

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def on(self, source: Path) -> SourceMutantRunner:
        return SourceMutantRunner(self, source)

    def compiled(self, name: str, level: OptimizationLevel | None = None) -> Built:
        """A contract of the folder where mutants are written."""
        return build(self.folder / "contracts" / f"{name}.vy", level)

    def shipped(self, name: str) -> Built:
        """A contract as it is; in a child with the mutant, if it is of those that have it."""
        if name not in self.handed_out:
            is_changed = name in self.changed
            self.handed_out[name] = self.compiled(name, OptimizationLevel.NONE) if is_changed else self._original(name)
        return self.handed_out[name]

    def unoptimised(self, name: str) -> Built:
        if name not in self.originals:
            self.originals[name] = self._original(name, OptimizationLevel.NONE)
        return self.originals[name]

    def _original(self, name: str, level: OptimizationLevel | None = None) -> Built:
        """A contract as it is, compiled once for all campaigns."""
        source = CONTRACTS / f"{name}.vy"
        key = sha256(self.shared + source.read_bytes() + f"{name} {level}".encode()).hexdigest()
        path = KEPT / "compiled" / key
        if path.exists():
            return pickle.loads(path.read_bytes())
        built = self.compiled(name, level) if level else build(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(pickle.dumps(built))
        partial.rename(path)
        return built

    def run(
        self,
        tests: list[str],
        deployers: Deployers,
        front: Sequence[str] = (),
        words: Sequence[str] = (),
        changed: Sequence[str] = (),
    ) -> MutantOutcome:
        """The tests in a child, with these contracts, until one fails. `changed` have the mutant, compiled or not."""
        reader, writer = os.pipe()
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            kept = {name: each for name, each in self.handed_out.items() if name not in changed}
            self.handed_out, self.changed = {**kept, **deployers}, list(changed)
            _child(_arguments(tests), Plugin(list(front), words, LEFT_OUT + tuple(self.left_out), writer))
        os.close(writer)
        code, in_time = self._wait(child)
        with os.fdopen(reader) as pipe:
            by = pipe.readline().strip()
        status = "survived" if code == 0 else "killed" if in_time else "timeout"
        return MutantOutcome(status, by, round(time.monotonic() - started, 2))

    def _wait(self, child: int) -> tuple[int, bool]:
        """The child's exit code, and whether it ended in time."""
        end = time.monotonic() + LIMIT_S
        try:
            while time.monotonic() < end:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    return os.waitstatus_to_exitcode(status), True
                time.sleep(0.01)
        except KeyboardInterrupt:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return -1, False

    def _warm(self) -> None:
        """Imports what the tests import, and reads the contracts as they are, which takes longer than most tests do.
        Nothing is deployed: the children do that, with the mutant.
        """
        sys.stdout.flush()
        kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        try:
            pytest.main(["--collect-only", *_arguments(self.files)])
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(nowhere)
        assert not chain.contracts, "a test deploys a contract when imported"
        chain.allow_code(UNOPTIMISED_CODE)
        for path in CONTRACTS.glob("*.vy"):
            self.shipped(path.stem)
        gc.freeze()

    def passes(self, test: str) -> bool:
        """Whether a test passes without a mutant, unoptimised too. One that does not says nothing, and is left out."""
        if not test:
            raise SystemExit("mutation: pytest failed, and no test did")
        if test not in self.passing | self.left_out:
            is_fit = self.run([test], self.originals).status == "survived"
            (self.passing if is_fit else self.left_out).add(test)
            if not is_fit:
                print(f"left out, since it fails without a mutant: {test}", flush=True)
        return test in self.passing


class SourceMutantRunner:
    """Judges mutants of one source, each but once: a duplicate's bytecode was judged before."""

    def __init__(self, judge: MutantRunner, source: Path) -> None:
        self.judge_ = judge
        self.statements: list[Statement] = statements(source.read_text())
        self.contracts = sorted(users(source), key=_place)
        self.changed = judge.folder / "contracts" / source.relative_to(CONTRACTS)
        self.original = self.changed.read_text()
        self.killers: dict[str, Counter[str]] = {}
        self.codes: dict[str, str] = {}
        self.executed: dict[str, set[str]] = {}
        self.seen: set[str] = set()

    def close(self) -> None:
        self.changed.write_text(self.original)

    def judge(self, mutant: Mutant) -> MutantOutcome:
        """By the tests of one contract after another, until one fails. `code` is of those that were asked."""
        deployers: Deployers = {}
        codes: list[str] = []
        seconds = 0.0
        contracts = [name for name in self.contracts if not mutant.function or mutant.function in self._executed(name)]
        for name in contracts:
            was = self._code(name)
            self.changed.write_text(text_of(self.statements, mutant))
            try:
                deployers[name] = self.judge_.compiled(name, OptimizationLevel.NONE)
                codes.append(fingerprint(deployers[name]))
            except REFUSALS:
                return MutantOutcome("invalid")
            if "+".join(codes) in self.seen:
                return MutantOutcome("duplicate")
            # Tests that look only at contracts which the mutant leaves as they are need not run.
            if codes[-1] != was:
                verdict = self._run(name, deployers, contracts, mutant)
                seconds += verdict.seconds
                if verdict.status != "survived":
                    break
        else:
            if codes == [self.codes[name] for name in contracts] or self._is_equal_as_shipped(contracts):
                return MutantOutcome("equal")
            verdict = MutantOutcome("survived")
        self.seen.add("+".join(codes))
        return replace(verdict, seconds=round(seconds, 2), code="+".join(codes))

    def _run(self, name: str, deployers: Deployers, changed: list[str], mutant: Mutant) -> MutantOutcome:
        killers = self.killers.setdefault(mutant.function, Counter())
        everywhere = sum(self.killers.values(), Counter())
        front = dict.fromkeys(test for ranked in (killers, everywhere) for test, _ in ranked.most_common(FRONT // 2))
        words = [mutant.function.strip("_")]
        if mutant.before.lstrip().startswith(("assert ", "raise ")):
            words.append("refused")
        tests = files([name], whole=self.judge_.whole)
        while True:
            verdict = self.judge_.run(tests, deployers, list(front), words, changed)
            if verdict.status != "killed":
                return verdict
            if self.judge_.passes(verdict.by):
                killers[verdict.by] += 1
                return verdict

    def _code(self, name: str) -> str:
        """The fingerprint of a contract as it is."""
        if name not in self.codes:
            self.changed.write_text(self.original)
            self.codes[name] = fingerprint(self.judge_.unoptimised(name))
            self.changed.write_text(text_of(self.statements))
            again = fingerprint(self.judge_.compiled(name, OptimizationLevel.NONE))
            assert again == self.codes[name], "one line a statement compiles to something else"
        return self.codes[name]

    def _executed(self, name: str) -> set[str]:
        """The functions of this source that a contract executes. Of a module it has the bytecode of no others."""
        if name not in self.executed:
            self.changed.write_text(self.original)  # the last mutant may be one that does not compile
            module = self.judge_.unoptimised(name).data.annotated_vyper_module._metadata["type"]
            entered = {*module.functions.values(), *module.exposed_functions}
            executed = entered.union(*(each.reachable_internal_functions for each in entered))
            self.executed[name] = {each.name for each in executed if _is_of(each, self.changed)}
        return self.executed[name]

    def _is_equal_as_shipped(self, contracts: list[str]) -> bool:
        codes = [fingerprint(self.judge_.compiled(name)) for name in contracts]
        return codes == [fingerprint(self.judge_.shipped(name)) for name in contracts]


def _place(contract: str) -> tuple[bool, int]:
    """Mocks first, which are there for the sake of a module; then the shortest."""
    return not contract.startswith("mocks/"), (CONTRACTS / f"{contract}.vy").stat().st_size


def _is_of(function: Any, source: Path) -> bool:
    """By the end of the path: what was compiled in another run lay in another folder."""
    return Path(function.decl_node.module_node.resolved_path).name == source.name


def _arguments(tests: list[str]) -> list[str]:
    return ["-x", "-q", "-p", "no:ape_test", "-p", "no:cacheprovider", "--tb=no", *tests]


def _child(arguments: list[str], plugin: Plugin) -> None:
    """Never returns."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    code = 3
    try:
        code = int(pytest.main(arguments, plugins=[plugin]))
    finally:
        os._exit(code)
