"""The table of what ran by hand is the one that its command makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.records import PAGE, SORTS, append_record, page_with, table


def test_the_table_is_the_one_that_the_records_give() -> None:
    page = PAGE.read_text()
    assert page == page_with(table(), page), "make it anew: PYTHONPATH=tests python -m simulation --table"


def test_counts_are_added_up_where_runs_add(tmp_path: Path) -> None:
    for _ in range(2):
        append_record("histories", "python -m simulation", {"histories": 1500, "faults": 7}, tmp_path)
        append_record("bugs", "python -m simulation --bugs", {"planted": 120}, tmp_path)
        append_record("fuzzing", "fuzz", {"hours": 1.25}, tmp_path)
    made = table(tmp_path)
    assert f"| {SORTS['histories'].title} | 3,000 histories, 14 faults | `python -m simulation` |" in made
    assert "| 120 planted |" in made
    assert "| 2.5 hours |" in made


def test_of_mutants_the_newest_run_of_each_command_counts(tmp_path: Path) -> None:
    """One for each part of the code: a second one of a part stands in the place of the first."""
    for command, mutants in (("mutation a", 50), ("mutation b", 1000), ("mutation a", 70)):
        append_record("mutation", command, {"mutants": mutants, "survived": 1}, tmp_path)
    assert f"| {SORTS['mutation'].title} | 1,070 mutants, 2 survived | `mutation a` |" in table(tmp_path)


def test_only_known_sorts_are_recorded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no sort of records"):
        append_record("guesses", "none", {}, tmp_path)


def test_a_page_without_a_place_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no place"):
        page_with("| |", "# A page")
