"""The journeys' own parts: blocks of a page, a terminal with a person in front of it, and that no printed block is left out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.pages import Page
from tests.journeys.terminal import CommandFailed, Terminal
from tests.support.waiting import HANG_S

TEXT = """
Write `model.py`:

```python
x = 1
```

and then

```
# a comment
zoo one   # why
zoo two \\
  --three
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Page:
    (tmp_path / "page.md").write_text(TEXT)
    return Page.read(tmp_path / "page.md", tmp_path)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path, dict(os.environ), {r"name\? ": "Ada"}, io.StringIO())
    yield opened
    opened.close()


def test_a_block__has_the_name_of_the_sentence_before_it(page: Page) -> None:
    assert [(block.line, block.file) for block in page.blocks] == [(5, "model.py"), (11, None)]


def test_a_shell_blocks_commands__are_its_lines_but_comments(page: Page) -> None:
    assert page.take("zoo one").commands == ["zoo one   # why", "zoo two    --three"]


def test_a_block_that_nobody_took__is_left(page: Page) -> None:
    page.take("x = 1")
    assert [block.line for block in page.left] == [11]


def test_a_text_that_no_block_has__is_refused(page: Page) -> None:
    with pytest.raises(LookupError, match="0 blocks"):
        page.take("zoo four")


def test_a_question__is_answered(terminal: Terminal) -> None:
    ran = terminal.run("read -p 'name? ' name; echo hello $name", timeout_s=HANG_S)
    assert "hello Ada" in ran.output


def test_a_command_that_fails__is_reported_with_its_output(terminal: Terminal) -> None:
    with pytest.raises(CommandFailed, match=r"exit code 3:\n(.|\n)*because"):
        terminal.run("echo because; (exit 3)", timeout_s=HANG_S)


def test_a_command_that_does_not_end__is_given_up(terminal: Terminal) -> None:
    with pytest.raises(CommandFailed, match=r"did not end within 0\.5 s"):
        terminal.run("sleep 60", timeout_s=0.5)


def test_a_command_that_serves__ends_by_ctrl_c(terminal: Terminal) -> None:
    terminal.serve(
        "bash -c 'trap \"echo bye; exit 0\" INT; echo Ctrl-C ends it; sleep 60 & wait'", "Ctrl-C", timeout_s=HANG_S
    )
    ended = terminal.interrupt(timeout_s=HANG_S)
    assert ended is not None
    assert "bye" in ended.output


def test_a_command_that_should_serve_and_ends__is_noticed(terminal: Terminal) -> None:
    with pytest.raises(CommandFailed, match="before it was ready"):
        terminal.serve("echo gone", "Ctrl-C", timeout_s=HANG_S)
