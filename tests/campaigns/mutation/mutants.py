"""Which mutants a contract has, and which of them a sample takes. universalmutator makes them, line by line.

A source is first written as one line a statement, without comments and docstrings: what it compiles to stays the same
(`killing` asserts it), and a statement over several lines can be deleted or changed like any other.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RULES = ["universal.rules", "python.rules", str(Path(__file__).with_name("vyper.rules"))]
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
# `uint256` is text with digits to the generator; what it makes of it is no type.
NO_TYPE = re.compile(r"\b(?:u?int|bytes)(?:[01]\b|-1|\()")
# What a variable begins with before a function's several answers are assigned to it: Vyper wants a value, nobody reads it.
BEGINNING = re.compile(r"(\s+\w+): [\w\[\]]+ = (?:0|False|empty\(\w+\)|b\"\")$")
SEVERAL = re.compile(r"(\s+)(\w+(?:, \w+)+) = (.*)")
# Of functions of two values whose order means nothing. `words._part` multiplies them; `self._add` is float32's.
COMMUTATIVE = re.compile(r"\b(min|max|words\._part|self\._add|float32\._(?:add|mul|is_equal))\(([^(),]+),([^(),]+)\)")
# Unsigned numbers: both spellings of a line mean the same, so that no test could tell them apart.
IDENTITIES = (
    (r"& 1 (?:>= 1|> 0|!= 0)\b", "& 1 == 1"),
    (r">= 1\b", "!= 0"),
    (r"< 1\b", "== 0"),
    (r"> 0\b", "!= 0"),
    (r"<= 0\b", "== 0"),
)


@dataclass(frozen=True)
class Statement:
    """One logical line: where it begins in the file, the function it is of, and its text."""

    line: int
    function: str
    text: str


@dataclass(frozen=True)
class Mutant:
    """A change of one statement. `index` counts the file's statements."""

    index: int
    line: int
    function: str
    before: str
    after: str

    @property
    def key(self) -> tuple[int, str, str]:
        """Which mutant this is, as long as nothing above it changes."""
        return self.line, self.before, self.after


def statements(source: str) -> list[Statement]:
    """The logical lines of a source. Pragmas are kept: they decide what is compiled."""
    lines = source.splitlines()
    code_lines = [Statement(n + 1, "", line) for n, line in enumerate(lines) if line.startswith("# pragma")]
    function, tokens = "", []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if not (len(tokens) == 1 and tokens[0].type == tokenize.STRING):  # a docstring
                text = joined(tokens, lines)
                if not text.startswith(" "):
                    function = "".join(re.findall(r"^def (\w+)", text))
                code_lines.append(Statement(tokens[0].start[0], function, text))
            tokens = []
        elif token.type not in SKIPPED and token.type != tokenize.ENDMARKER:
            tokens.append(token)
    return code_lines


def joined(tokens: list[tokenize.TokenInfo], lines: list[str]) -> str:
    """The tokens in one line, as they stood: indented, and with one space where a line ended."""
    first = tokens[0]
    text = lines[first.start[0] - 1][: first.start[1]]
    row, column = first.start
    for token in tokens:
        text += " " if token.start[0] != row else lines[row - 1][column : token.start[1]]
        text += token.string
        row, column = token.end
    return text


def text_of(code_lines: list[Statement], mutant: Mutant | None = None) -> str:
    """A source again, with one statement changed."""
    lines = [each.text for each in code_lines]
    if mutant:
        lines[mutant.index] = mutant.after
    return "\n".join(lines) + "\n"


def never_read(code_lines: list[Statement]) -> dict[int, str]:
    """The declarations whose value is overwritten before anything could read it: index -> text before the value."""
    dead: dict[int, str] = {}
    waiting: dict[str, int] = {}  # indented name -> index
    for index, each in enumerate(code_lines):
        if begun := BEGINNING.fullmatch(each.text):
            waiting[begun[1]] = index
            continue
        if several := SEVERAL.match(each.text):
            unread = [name for name in several[2].split(", ") if not re.search(rf"\b{name}\b", several[3])]
            begun_at = [waiting.get(several[1] + name) for name in unread]
            dead |= {at: code_lines[at].text.rpartition("= ")[0] for at in begun_at if at is not None}
        waiting = {}
    return dead


def unspoken(code_lines: list[Statement]) -> set[int]:
    """The decorators of internal functions: internal is what a function is without them, and no bytecode says the others."""
    silent: set[int] = set()
    decorators: list[int] = []
    for index, each in enumerate(code_lines):
        if each.text in ("@internal", "@pure", "@view"):
            decorators.append(index)
        else:
            if any(code_lines[at].text == "@internal" for at in decorators):
                silent |= set(decorators)
            decorators = []
    return silent


def canonical(text: str) -> str:
    text = re.sub(r"\s*([(),])\s*", r"\1", text)
    if text.startswith("exports:"):
        return " ".join(sorted(re.split(r"[(),]", text)))
    text = COMMUTATIVE.sub(lambda call: f"{call[1]}({','.join(sorted(call.groups()[1:]))})", text)
    for pattern, same in IDENTITIES:
        text = re.sub(pattern, same, text)
    return re.sub(r"\s+", " ", text).strip()


def generate(source: str) -> list[Mutant]:
    """All mutants of a source; those that say the same in other words are left out."""
    from universalmutator.mutator import mutants_regexp  # `make mutate` installs it; all else here does without

    code_lines = statements(source)
    with contextlib.redirect_stdout(io.StringIO()):
        changes = mutants_regexp([each.text + "\n" for each in code_lines], RULES, ignorePatterns=["^import", "^from"])
    mutants, dead, silent = {}, never_read(code_lines), unspoken(code_lines)
    for number, text, *_ in changes:
        before, after = code_lines[number - 1], text.rstrip("\n")
        if number - 1 in silent or after.startswith(dead.get(number - 1, "\n")):
            continue
        if "\n" not in after and not NO_TYPE.search(after) and canonical(after) != canonical(before.text):
            mutants[number, after] = Mutant(number - 1, before.line, before.function, before.text, after)
    return list(mutants.values())


def sampled(mutants: list[Mutant], seed: int) -> Iterator[Mutant]:
    """All mutants in a random order in which each function comes early, and then as often as it is large."""
    chance = random.Random(seed)
    strata: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        strata[mutant.function].append(mutant)
    ranked = []
    for group in strata.values():
        chance.shuffle(group)
        ranked += [((rank + chance.random() if rank else 0) / len(group), each) for rank, each in enumerate(group)]
    yield from (each for _, each in sorted(ranked, key=lambda pair: (pair[0], pair[1].key)))
