"""Whether tests notice a mutant. The parent has all imported and compiled; a child is forked for each mutant.

What changes between children is only which contracts `boa.load_partial` hands out, so that a mutant costs its own
compilation and the tests up to the first that fails. A mutant is compiled without the optimiser, which takes most of a
compilation; who survives is compiled as shipped, and discarded when its bytecode then equals the original's.
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
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import boa
import pytest
from boa.contracts.vyper.vyper_contract import VyperDeployer
from vyper.compiler.phases import generate_bytecode
from vyper.compiler.settings import OptimizationLevel
from vyper.exceptions import VyperException, VyperInternalException
from vyper.ir.compile_ir import assembly_to_evm

from tests import contract_kit
from tests.mutation.mutants import Mutant, Statement, statements, text_of
from tests.mutation.suites import CONTRACTS, LEFT_OUT, ROOT, SUITES, files, users

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
Deployers = dict[str, VyperDeployer]


@dataclass(frozen=True)
class Verdict:
    """How a mutant ended: invalid, equal (its bytecode is the original's), duplicate, killed, timeout or survived."""

    status: str
    by: str = ""
    seconds: float = 0.0
    code: str = ""


def fingerprint(deployer: VyperDeployer) -> str:
    """Of what is deployed, without the hash of the sources."""
    return sha256(generate_bytecode(deployer.compiler_data.assembly, compiler_metadata=None)).hexdigest()[:16]


class Plugin:
    """Of the child's pytest: likely killers first, and a word to the parent on what failed."""

    def __init__(self, front: list[str], left_out: tuple[str, ...], writer: int) -> None:
        self.front, self.left_out, self.writer = front, left_out, writer

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        places = {test: place for place, test in enumerate(self.front)}
        kept = [item for item in items if not any(name in item.nodeid for name in self.left_out)]
        items[:] = sorted(kept, key=lambda item: places.get(item.nodeid, len(places)))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os.write(self.writer, report.nodeid.encode() + b"\n")


class Judge:
    """Compiles and runs. `on(source)` judges the mutants of one source."""

    def __init__(self, contracts: list[str], *, whole: bool = False) -> None:
        self.whole = whole
        self.folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        shutil.copytree(CONTRACTS, self.folder / "contracts")
        shared = sorted([*CONTRACTS.glob("modules/*.vy"), *CONTRACTS.glob("interfaces/*.vyi")])
        self.shared = b"".join(path.read_bytes() for path in shared)
        mocks = [f"mocks/{path.stem}" for path in CONTRACTS.glob("mocks/*.vy")]
        self.handed_out = {name: self._original(name) for name in dict.fromkeys([*SUITES, *mocks])}
        self.originals = {name: self._original(name, OptimizationLevel.NONE) for name in contracts}
        boa.load_partial = lambda path: self.handed_out[str(Path(path).relative_to(CONTRACTS).with_suffix(""))]
        self.files = files(contracts, whole=whole)
        self.passing: set[str] = set()
        self.left_out: set[str] = set()
        self._warm()

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def on(self, source: Path) -> SourceJudge:
        return SourceJudge(self, source)

    def compiled(self, name: str, level: OptimizationLevel | None = None) -> VyperDeployer:
        """A contract of the folder where mutants are written."""
        path = self.folder / "contracts" / f"{name}.vy"
        boa.interpret.disable_cache()
        try:
            text = path.read_text()
            if level:
                text = text.replace("# pragma optimize codesize\n", "\n")
            options = {"optimize": level} if level else {}
            deployer = boa.loads_partial(text, name=str(path), filename=str(path), compiler_args=options)
            # boa 0.2.8 computes it only for what it caches.
            data = deployer.compiler_data
            _, data.source_map = assembly_to_evm(data.assembly_runtime)
            return deployer
        finally:
            boa.interpret.set_cache_dir()

    def _original(self, name: str, level: OptimizationLevel | None = None) -> VyperDeployer:
        """A contract as it is, compiled once for all campaigns."""
        source = CONTRACTS / f"{name}.vy"
        key = sha256(self.shared + source.read_bytes() + f"{name} {level}".encode()).hexdigest()
        path = KEPT / "compiled" / key
        if path.exists():
            return VyperDeployer(pickle.loads(path.read_bytes()), filename=str(source))
        deployer = self.compiled(name, level) if level else boa.load_partial(str(source))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(deployer.compiler_data))
        return deployer

    def run(self, tests: list[str], deployers: Deployers, front: list[str]) -> Verdict:
        """The tests in a child, with these contracts, until one fails."""
        reader, writer = os.pipe()
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            self.handed_out = {**self.handed_out, **deployers}
            _child(_arguments(tests), Plugin(front, LEFT_OUT + tuple(self.left_out), writer))
        os.close(writer)
        code, in_time = self._wait(child)
        with os.fdopen(reader) as pipe:
            by = pipe.readline().strip()
        status = "survived" if code == 0 else "killed" if in_time else "timeout"
        return Verdict(status, by, round(time.monotonic() - started, 2))

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
        """Imports what the tests import. Nothing is deployed: the children do that, with their contracts."""
        sys.stdout.flush()
        kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        try:
            pytest.main(["--collect-only", *_arguments(self.files)])
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(nowhere)
        assert contract_kit.load.cache_info().currsize == 0, "a test loads a contract when imported"
        gc.freeze()

    def passes(self, test: str) -> bool:
        """Whether a test passes without a mutant, unoptimised too. One that does not says nothing, and is left out."""
        if not test:
            raise SystemExit("mutation: pytest failed, and no test did")
        if test not in self.passing | self.left_out:
            is_fit = self.run([test], self.originals, []).status == "survived"
            (self.passing if is_fit else self.left_out).add(test)
            if not is_fit:
                print(f"left out, since it fails without a mutant: {test}", flush=True)
        return test in self.passing


class SourceJudge:
    """Judges mutants of one source, each but once: equal bytecode is a duplicate."""

    def __init__(self, judge: Judge, source: Path) -> None:
        self.judge_ = judge
        self.found: list[Statement] = statements(source.read_text())
        self.contracts = users(source)
        self.changed = judge.folder / "contracts" / source.relative_to(CONTRACTS)
        self.original = self.changed.read_text()
        self.killers: dict[str, Counter[str]] = {}
        self.codes = [fingerprint(judge.originals[name]) for name in self.contracts]
        self.seen = {"+".join(self.codes)}
        self.changed.write_text(text_of(self.found))
        assert self._codes(OptimizationLevel.NONE)[1] == self.codes, "one line a statement compiles to something else"

    def close(self) -> None:
        self.changed.write_text(self.original)

    def judge(self, mutant: Mutant) -> Verdict:
        self.changed.write_text(text_of(self.found, mutant))
        try:
            deployers, codes = self._codes(OptimizationLevel.NONE)
        except REFUSALS:
            return Verdict("invalid")
        code = "+".join(codes)
        if code in self.seen:
            return Verdict("equal" if codes == self.codes else "duplicate")
        self.seen.add(code)
        killers = self.killers.setdefault(mutant.function, Counter())
        everywhere = sum(self.killers.values(), Counter())
        front = dict.fromkeys(test for ranked in (killers, everywhere) for test, _ in ranked.most_common(FRONT // 2))
        # Tests that look only at contracts which the mutant leaves as they are need not run.
        touched = [name for name, code, was in zip(self.contracts, codes, self.codes, strict=True) if code != was]
        tests = files(touched, whole=self.judge_.whole)
        verdict = self.judge_.run(tests, deployers, list(front))
        while verdict.status == "killed" and not self.judge_.passes(verdict.by):
            verdict = self.judge_.run(tests, deployers, list(front))
        if verdict.status == "killed":
            killers[verdict.by] += 1
        if verdict.status == "survived" and self._is_equal_as_shipped():
            return Verdict("equal")
        return replace(verdict, code=code)

    def _codes(self, level: OptimizationLevel | None) -> tuple[Deployers, list[str]]:
        deployers = {name: self.judge_.compiled(name, level) for name in self.contracts}
        return deployers, [fingerprint(deployer) for deployer in deployers.values()]

    def _is_equal_as_shipped(self) -> bool:
        return self._codes(None)[1] == [fingerprint(self.judge_.handed_out[name]) for name in self.contracts]


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
        boa.env.evm.patch.code_size_limit = UNOPTIMISED_CODE
        code = int(pytest.main(arguments, plugins=[plugin]))
    finally:
        os._exit(code)
