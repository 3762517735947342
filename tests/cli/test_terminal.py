"""What a person sees in a terminal and a script does not: the loss as a small plot; and what shells complete."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.support.waiting import HANG_S
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.cli.output import StatusLine, sparkline


def test_a_plot__has_a_bar_for_each_number__from_the_lowest_to_the_highest() -> None:
    assert sparkline([4.0, 3.0, 2.5, 0.5], most=80) == "█▆▅▁"
    assert sparkline([1.0, 1.0], most=80) == "▁▁"
    assert sparkline([9.0, 4.0, 0.5], most=2) == "█▁", "the newest"


def test_a_plot__of_what_strangers_report__leaves_out_what_is_no_number() -> None:
    assert sparkline([4.0, None, float("nan"), float("inf"), 2.0], most=80) == "█▁"
    assert sparkline([None, 1.0], most=80) == ""
    assert sparkline([2.0, 1.0], most=0) == ""


@pytest.mark.parametrize(
    ("live", "columns", "line"), [(True, 80, "job 1 █▁"), (True, 25, "job 1"), (False, 80, "job 1")]
)
def test_a_status_line__has_a_plot_in_a_terminal_with_room(
    live: bool, columns: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    status = StatusLine()
    status.live = live
    assert status.plot("job 1", [2.0, 1.0]) == line


FOLLOWING = """
import click, time
from zoo_compute.cli.output import StatusLine

@click.command()
def follow():
    line = StatusLine()
    line.show("no bar yet " + 200 * "x")
    line.show("half of it", 1, 2)
    line.note("[a note] " + 100 * "n")
    line.show("waiting", 2, 2)
    time.sleep(HANG_S)

follow()
"""


def test_a_status_line__longer_than_the_terminal__stays_one_line_and_gives_the_cursor_back_at_ctrl_c() -> None:
    """A line that wraps is drawn again below itself at every change."""
    environment: Any = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm"}
    script = FOLLOWING.replace("HANG_S", str(HANG_S))
    terminal = pexpect.spawn(
        sys.executable, ["-c", script], env=environment, encoding="utf-8", timeout=HANG_S, dimensions=(24, 60)
    )
    try:
        terminal.expect_exact("waiting")
        before = terminal.before or ""
        assert "x" * 40 in before
        assert "x" * 60 not in before
        assert "half of it \x1b" in before, "with a bar behind it"
        assert "[a note] " in before, "as it is: no markup"
        assert "\x1b[?25l" in before, "the cursor is hidden"
        terminal.sendintr()
        terminal.expect_exact("\x1b[?25h")
    finally:
        terminal.close(force=True)


def test_a_status_line__in_a_pipe__prints_plain_lines_once(capsys: pytest.CaptureFixture[str]) -> None:
    status = StatusLine()
    for text in ("one", "one", "two"):
        status.show(text, 1, 2)
    status.note("note")
    status.end()
    assert capsys.readouterr().err == "one\ntwo\nnote\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion__prints_a_script_for_the_shell(zoo: Zoo, shell: str) -> None:
    code, out, _ = zoo.run("completion", shell)
    assert code == 0
    assert "_ZOO_COMPLETE" in out
    assert "zoo" in out


def test_completion__in_a_real_bash__completes_commands(tmp_path: Path) -> None:
    python = Path(sys.executable).parent
    environment: Any = {"PATH": f"{python}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}
    shell = pexpect.spawn("bash", ["--norc", "--noprofile", "-i"], env=environment, encoding="utf-8", timeout=HANG_S)
    try:
        shell.sendline("eval \"$(zoo completion bash)\"; echo re''ady")
        shell.expect_exact("ready")
        shell.send("zoo job wat\t")
        shell.expect_exact("watch")
    finally:
        shell.close(force=True)
