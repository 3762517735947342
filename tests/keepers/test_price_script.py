"""price_script: a child process with limits, beside the looks at the chain. Whatever it does, the keeper goes on."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from keepers.services import price_script
from keepers.services.price_script import ANSWERS, PriceScript
from node.measurement.limited_process import scratch_root
from tests.keepers.test_duties import BID, ME, opening
from tests.keepers.test_keeper import bids, setup  # noqa: F401
from tests.node.test_limited_process import is_alive
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.amounts import WEI, ZEN, Token
from zoo_compute.cli.node.status import bid_words

KEY = [1, 100, 5.0, 0.0, 0]
QUESTION = {"job": 7, "reserve": "2"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    assert price_script.LIMITS.wall_s == 5
    monkeypatch.setattr(price_script, "LIMITS", replace(price_script.LIMITS, wall_s=HANG_S, cpu_s=HANG_S))
    yield tmp_path
    assert not scratch_root().exists() or list(scratch_root().iterdir()) == [], "a scratch folder is left"


def program(folder: Path, text: str, *, shell: str = "/bin/sh") -> Path:
    path = folder / "price"
    path.write_text(f"#!{shell}\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return path


def answer_of(folder: Path, text: str, token: Token = ZEN) -> tuple[int, str]:
    script = PriceScript(program(folder, text), folder)
    script.ask(7, 0, KEY, QUESTION, token)
    assert script.answer_all() == 1
    answer = script.answer(7, 0, KEY)
    assert answer is not None
    return answer.price, answer.why


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("echo 0.25", WEI // 4),
        ("cat >/dev/null; printf 3", 3 * WEI),
        ("echo '1.5 ZEN'", 3 * WEI // 2),
        ('read q; case $q in *\'"reserve": "2"\'*) echo 1.9;; esac', 19 * WEI // 10),
        ("echo warning >&2; echo 1", WEI),
        ("sleep 60 & echo 1", WEI),
    ],
    ids=["a price", "no newline", "with its unit", "from what it reads", "with a warning", "with a child left behind"],
)
def test_a_script_that_prints_a_number__sets_the_price(home: Path, text: str, price: int) -> None:
    assert answer_of(home, text) == (price, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exit 0", "printed no price"),
        ("echo nothing for you >&2; echo last words >&2; echo 1; exit 3", "ended with exit code 3: last words"),
        ("kill -9 $$", "was ended by SIGKILL"),
        ("echo cheap", "printed 'cheap', and a positive number of ZEN was expected"),
        ("echo 0", "printed '0', and a positive number of ZEN was expected"),
        ("echo -1", "printed '-1', and a positive number of ZEN was expected"),
        ("echo nan", "printed 'nan', and a positive number of ZEN was expected"),
        ("echo 1e300", "printed '1e300', and a positive number of ZEN was expected"),
        ("echo 1; echo 2", "printed '1\\n2', and a positive number of ZEN was expected"),
        ("yes 1 | head -c 3000", "printed more than 256 bytes"),
        ("printf 'a\\033[31mred\\n' >&2; exit 1", "ended with exit code 1: a[31mred"),
    ],
    ids=["nothing", "fails", "killed", "a word", "zero", "less", "nan", "too much", "two", "a flood", "escapes"],
)
def test_a_script_that_prints_no_price__says_why(home: Path, text: str, why: str) -> None:
    assert answer_of(home, text) == (0, why)


def test_a_script_that_prints_for_ever__is_cut_off(home: Path) -> None:
    price, why = answer_of(home, "yes 1")  # its output may have 16 MB
    assert price == 0
    assert why.startswith(
        ("ended with", "was ended by SIGXFSZ", "used more than", "took more than", "printed more than")
    )


def test_a_script_that_hangs__is_ended_with_all_that_it_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_script, "LIMITS", replace(price_script.LIMITS, wall_s=1.0))
    assert answer_of(home, f"sleep 600 & echo $! > {home}/pid; trap '' TERM; wait") == (0, "took more than 1 s")
    pid = int((home / "pid").read_text())
    wait_until("the end of what it started", lambda: not is_alive(pid))


def test_a_script_that_starts_too_many_processes__is_ended(home: Path) -> None:
    many = "i=0; while [ $i -lt 60 ]; do sleep 600 & i=$((i+1)); done; wait"
    assert answer_of(home, many) == (0, "started more than 32 processes")


def test_a_script_that_takes_too_much_memory__is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_script, "LIMITS", replace(price_script.LIMITS, memory_bytes=2**27))
    path = program(home, "import time; block = bytearray(2**28); time.sleep(600)", shell="/usr/bin/env python3")
    script = PriceScript(path, home)
    script.ask(7, 0, KEY, QUESTION, ZEN)
    script.answer_all()
    answer = script.answer(7, 0)
    assert answer is not None
    assert answer.why == "used more than 0.1 GB of memory"


@pytest.mark.parametrize("mode", [0o600, None], ids=["not executable", "missing"])
def test_a_script_that_cannot_be_run__says_why(home: Path, mode: int | None) -> None:
    path = program(home, "echo 1")
    if mode is None:
        path.unlink()
    else:
        path.chmod(mode)
    script = PriceScript(path, home)
    script.ask(7, 0, KEY, QUESTION, ZEN)
    script.answer_all()
    answer = script.answer(7, 0)
    assert answer is not None
    assert answer.why.startswith("cannot be run: ")


def test_a_script__sees_no_secret_in_its_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_PASSPHRASE", "correct horse")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    assert answer_of(home, f"env > {home}/seen; echo 1") == (WEI, "")
    names = {line.partition("=")[0] for line in (home / "seen").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} <= {*price_script.INHERITED, "TMPDIR"}
    assert "PATH" in names


def test_a_price_finer_than_its_token__is_no_price(home: Path) -> None:
    assert answer_of(home, "echo 0.0000001", Token("USDC", 6, "0xC"))[1].startswith("printed '0.0000001'")


def test_an_answer__holds_for_its_key_and_survives_a_restart(home: Path) -> None:
    answer_of(home, "echo 2")
    again = PriceScript(home / "price", home)
    known = again.answer(7, 0, KEY)
    assert known is not None
    assert known.price == 2 * WEI
    assert again.answer(7, 0, [2, *KEY[1:]]) is None
    assert again.answer(7, 0) == known
    assert again.answer(8, 0) is None
    assert stat.S_IMODE((home / ANSWERS).stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["{", "[]", '{"7:0": 3}', '{"7:0": {"price": "x"}}'])
def test_answers_that_cannot_be_read__are_asked_for_again(home: Path, text: str) -> None:
    (home / ANSWERS).write_text(text)
    assert PriceScript(home / "price", home).answer(7, 0) is None


def test_answers__are_kept_of_the_last_jobs_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_script, "KEPT", 2)
    script = PriceScript(program(home, "echo 1"), home)
    for job in (1, 2, 3):
        script.ask(job, 0, KEY, QUESTION, ZEN)
    assert script.answer_all() == 3
    assert [script.answer(job, 0) is not None for job in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize("setup", [{"price_script": "price"}], indirect=True)
@pytest.mark.parametrize(
    ("text", "bid", "why"),
    [
        ("echo 80wei", [(1, 4)], None),
        ("echo 101wei", [], None),
        ("echo 121wei", [], "the price is 121 wei a slot-round, and the job pays 120 wei at most"),
        ("echo enough >&2; exit 1", [], "price_script ended with exit code 1: enough"),
    ],
    ids=["below the reserve", "above it", "above the maximum", "no price"],
)
def test_a_keeper__bids_at_the_price_of_its_script(setup, home: Path, text: str, bid: list, why: str | None) -> None:  # noqa: F811
    keeper, views, recorder, _ = setup
    program(home, text)
    views[1] = opening(1_000)
    assert keeper.tick()["not_bidding"] == {}
    assert bids(recorder) == []
    keeper.tick()
    assert keeper.pricing.script.answer_all() == 1, "it is asked once, however often the keeper looks"
    status = keeper.tick()
    assert (bids(recorder), status["not_bidding"].get(1)) == (bid, why)
    assert bool(status["bids"]) is bool(bid)


@pytest.mark.parametrize("setup", [{"price_script": "price"}], indirect=True)
def test_a_slow_script__keeps_no_look_waiting(setup, home: Path) -> None:  # noqa: F811
    keeper, views, recorder, _ = setup
    program(home, f"touch {home}/begun; while [ ! -e {home}/go ]; do sleep 0.05; done; echo 80wei")
    views[1] = opening(1_000)
    keeper.tick()
    answering = threading.Thread(target=keeper.pricing.script.answer_all)
    answering.start()
    wait_until("the script's start", (home / "begun").exists)
    for _ in range(3):
        assert keeper.tick()["not_bidding"] == {}
    assert bids(recorder) == []
    (home / "go").touch()
    answering.join()
    keeper.tick()
    assert bids(recorder) == [(1, 4)]


@pytest.mark.parametrize("setup", [{"price_script": "price"}], indirect=True)
def test_the_price_that_was_sealed__is_opened_after_a_restart_and_the_loss_of_the_broker(setup, home: Path) -> None:  # noqa: F811
    keeper, views, recorder, _ = setup
    program(home, "echo 80wei")
    views[1] = opening(1_000)
    keeper.tick()
    keeper.pricing.script.answer_all()
    keeper.tick()
    assert bids(recorder) == [(1, 4)]
    keeper.pricing.script = PriceScript(home / "price", home)  # nothing is left but the folder
    views[1] = opening(1_015 + 3_600, lots={k: replace(v, bid_end=4_610, reveal_end=4_620) for k, v in opening(1).lots.items()}, bids={(0, ME): replace(BID, revealed=False)})  # fmt: skip
    keeper.tick()
    [opened] = [args for function, args in recorder.sent if function == "reveal"]
    assert opened[3] == 80


@pytest.mark.parametrize("setup", [{"deny": ["0x" + "00" * 19 + "aa"]}], indirect=True)
def test_a_keeper__leaves_a_denied_submitters_job_alone_and_says_so(setup) -> None:  # noqa: F811
    keeper, views, recorder, _ = setup
    denied = "0x00000000000000000000000000000000000000AA"
    views |= {1: replace(opening(1_000), submitter=denied), 2: replace(opening(1_000), job=2)}
    status = keeper.tick()
    assert status["not_bidding"] == {1: f"its submitter {denied} is in `deny` of operator.json"}
    assert [job for job, _ in bids(recorder)] == [2]
    [bid] = status["bids"][2]
    assert (bid["role"], bid["units"], bid["token"]) == ("provider", 4, "ZEN")
    assert [ZEN.parse(bid[key]) for key in ("locks", "missed", "unopened", "most")] == [40, 3_933, 400, 40]
    assert bid_words(bid | {"longest_s": 90, "locks": "40", "missed": "4", "most": "40"}) == (
        "4 units as provider: locks 40 ZEN for at most 1 min 30 s; missed deadlines cost up to 4, false results up to 40"
    )
    assert json.dumps(status)


EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "deploy" / "price.py"
ASKED = {
    "job": 7, "role": "provider", "submitter": "0xS", "token": {"symbol": "ZEN"}, "longest_s": 3_600, "locks": "400", "units": 4,
    "measured": {"slot_s": 720.0, "aggregation_s": 0.0}, "power_zen": "0.05", "base_fee_gwei": 10.0, "coin_price": "3000",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "price", "why"),
    [
        # 0.05 of power, 150,000 gas at 10 gwei of a coin for 3,000 ZEN over four slots, a fifth of an hour at 1.5 ZEN; less 5 %.
        ({}, (0.05 + 1.125 + 0.3) / 0.95, ""),
        ({"submitter": "0x00000000000000000000000000000000000000AA"}, (0.05 + 1.125) / 0.95, ""),
        ({"base_fee_gwei": 0.0, "power_zen": "0", "measured": {"slot_s": 1.0}}, 0.2, ""),
        ({"token": {"symbol": "USDC"}}, 0, "ended with exit code 1: no price in USDC"),
        ({"longest_s": 15 * 86_400}, 0, "ended with exit code 1: it would bind 400 ZEN for up to 15 days"),
    ],
    ids=["by the hour", "a friend", "the least", "another token", "too long"],
)
def test_the_example_of_the_docs__says_these_prices(
    home: Path, monkeypatch: pytest.MonkeyPatch, changes: dict, price: float, why: str
) -> None:
    monkeypatch.setenv("TZ", "UTC-12" if time.gmtime().tm_hour < 12 else "UTC")  # it is not night there
    script = PriceScript(EXAMPLE, home)
    script.ask(7, 0, KEY, ASKED | changes, ZEN)
    script.answer_all()
    answer = script.answer(7, 0)
    assert answer is not None
    assert (ZEN.exact(answer.price), answer.why) == (f"{price:.6f}".rstrip("0") if price else "0", why)
