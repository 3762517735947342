"""`zoo map` and `zoo job outputs` without a chain: rounds as they come, Ctrl-C, going on, jobs that end without them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.cli.context import Settings
from zoo_compute.cli.map import collect
from zoo_compute.client.outputs import MappedRound
from zoo_compute.errors import UserError

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)


class Mapping:
    """A job of three rounds of two items. there: how many are final; after them `stop` is called."""

    id = 7

    def __init__(self, there: int, stop: Callable[[], None] = lambda: None) -> None:
        self._there, self._stop = there, stop
        self.fetched: list[int] = []

    def view(self) -> Any:
        return SimpleNamespace(terms=SimpleNamespace(rounds=3))

    def outputs(self, *, after: int, poll_s: float, show: Callable[[Any], None]) -> Iterator[MappedRound]:
        show(SimpleNamespace(line=lambda: "job 7 running"))
        for number in range(after, self._there):
            self.fetched.append(number)
            yield MappedRound(number, 2 * number, {"outputs": ROWS[2 * number : 2 * number + 2]})
        self._stop()


def interrupt() -> None:
    raise KeyboardInterrupt


def run(job: Mapping, out: Path, *, as_json: bool = False) -> None:
    settings = Settings()
    settings.as_json = as_json
    collect(settings, job, out, {"job": job.id})  # type: ignore[arg-type]


def test_ctrl_c__keeps_what_is_there_and_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.npz"
    with pytest.raises(KeyboardInterrupt):
        run(Mapping(2, interrupt), out)
    said = capsys.readouterr().err
    assert f"job 7 keeps running; 2 of 3 rounds are in {out}.rounds" in said
    assert "0/3 rounds fetched" in said
    again = Mapping(3)
    run(again, out, as_json=True)
    assert again.fetched == [2], "what was fetched is not fetched again"
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"job": 7, "out": str(out), "items": 6, "outputs": {"outputs": [6, 2]}}
    assert np.array_equal(np.load(out)["outputs"], ROWS)


def test_a_job_that_ends_without_its_rounds__is_an_error_that_names_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="job 7 is over, and 1 of its 3 rounds are final") as refused:
        run(Mapping(1), tmp_path / "out.npz")
    assert "out.npz.rounds" in (refused.value.hint or "")
    assert not (tmp_path / "out.npz").exists()


def test_a_name_of_no_file_of_arrays__is_refused_before_the_job_is_read(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("nothing: here\n")
    assert "ends in .npz or .safetensors" in zoo.refused("map", str(tmp_path / "map.yaml"), "--out", "out.csv")
    assert "ends in .npz or .safetensors" in zoo.refused("job", "outputs", "1", "--out", "out.csv")


def test_a_map_without_items__says_how_to_give_them(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text(
        "model: {layers: 1, heads: 1, width: 8, context: 8}\nmap: {batch_size: 2, slots: 1}\n"
    )
    said = zoo.refused("map", str(tmp_path / "map.yaml"), "--out", "out.npz")
    assert "data: missing; give --data" in said


GENERATES = (
    "model: {layers: 1, heads: 1, width: 8, context: 8}\nmap: {batch_size: 2, slots: 1, new_tokens: 3}\nbudget_max: 9\n"
)


def test_a_file_of_another_kind_than_the_job_makes__is_refused_before_anything_is_posted(
    zoo: Zoo, tmp_path: Path
) -> None:
    job, prompts = tmp_path / "generate.yaml", tmp_path / "prompts.txt"
    job.write_text(GENERATES)
    prompts.write_text("Hello\n")
    words = ("map", str(job), "--data", str(prompts), "--out")
    assert "ends in .jsonl" in zoo.refused(*words, "out.npz")
    job.write_text(GENERATES.replace(", new_tokens: 3", ""))
    assert "ends in .npz or .safetensors" in zoo.refused(*words, "out.jsonl")


def test_prompts_that_do_not_fit__are_refused_by_the_command(zoo: Zoo, tmp_path: Path) -> None:
    job, prompts = tmp_path / "generate.yaml", tmp_path / "prompts.txt"
    job.write_text(GENERATES)
    prompts.write_text("Hello\nHello again\n")
    refused = zoo.refused("map", str(job), "--data", str(prompts), "--out", "out.jsonl")
    assert "prompt 2 has 11 tokens: with 3 new ones it needs 13 positions, and the model has 8" in refused
