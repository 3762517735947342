"""The attacks of benchmarks/training/byzantine.py are what they are called."""

from __future__ import annotations

import numpy as np

from benchmarks.training.attacks import ATTACKS, Scene


def scene() -> Scene:
    rng = np.random.default_rng(0)
    honest = (1 + rng.normal(size=(13, 50))).astype(np.float32)
    return Scene(honest, np.zeros((4, 50), np.float32), lambda rows: np.median(rows, 0), rng)


def test_every_attack__gives_a_row_for_each_hostile_slot() -> None:
    for name, attack in ATTACKS.items():
        rows = attack(scene())
        assert (rows.shape, rows.dtype) == ((4, 50), np.float32), name
        assert np.isfinite(rows).all() == (name != "not_finite"), name


def test_rows_that_are_not_finite__are_so_in_one_value_and_in_all() -> None:
    rows = ATTACKS["not_finite"](scene())
    assert np.isnan(rows[0]).sum() == 1
    assert np.isnan(rows[1]).all()
    assert np.isinf(rows[2]).all()
    with np.errstate(over="ignore"):
        assert np.isinf(rows[3] * rows[3]).all()


def test_colluders__take_more_from_the_rule_than_those_that_do_not_know_it() -> None:
    of = scene()

    def progress(name: str) -> float:
        return float(of.rule(np.concatenate([of.honest_HD, ATTACKS[name](of)])) @ of.mean_D)

    assert progress("colluders") < progress("mimic")
    assert (
        progress("colluders")
        <= min(progress("sign_flip"), progress("inner_product"), progress("little_is_enough")) + 1e-3
    )
