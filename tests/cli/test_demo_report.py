"""What the demo prints at its end."""

from scripts.demo.report_text import slot_rows


def test_a_slot_that_nobody_delivered__keeps_its_column() -> None:
    trained = {0: {0: "alpha", 1: "beta", 2: "beta"}, 1: {0: "alpha", 2: "beta"}}
    assert [row.split() for row in slot_rows(trained, 3)] == [
        ["0", "alpha", "beta", "beta"],
        ["1", "alpha", "-", "beta"],
    ]
