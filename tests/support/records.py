"""Records of runs by hand, for hours or by the million: a line for each run, and the table that is made of them.

Commands that play histories, plant bugs, fuzz or disturb wires append a record when they are told to, and nobody types
a figure: `python -m simulation --table` makes the table in `tests/README.md` of the files in `tests/record`, one for
each of `SORTS`. Their lines are JSON objects: `date`, `command`, and `counts`, integers or hours by what they count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parents[1]
FOLDER, PAGE = TESTS / "record", TESTS / "README.md"
BEGIN, END = "<!-- table: made by `python -m simulation --table` -->\n", "<!-- end of the table -->\n"


class Sort(NamedTuple):
    """Sort of records; the counts of those that `adds` are added up, of the others the newest one counts.

    With `each_command` those are added up that are the newest of a command, as each is about other files.
    """

    title: str
    adds: bool
    each_command: bool = False


SORTS = {
    "histories": Sort("Histories of a run, each from a seed", adds=True),
    "bugs": Sort("Bugs planted, one at a time", adds=False),
    "mutation": Sort("Mutants of the code", adds=True, each_command=True),
    "wires": Sort("Runs behind a proxy that disturbs requests", adds=True),
    "fuzzing": Sort("Inputs tried, guided by coverage", adds=True),
    "rounds": Sort("Long histories: rescaled, run on, rescaled again", adds=True),
}


def append_record(sort: str, command: str, counts: Mapping[str, int | float], folder: Path = FOLDER) -> None:
    """In one write, for several may run at once; git keeps the lines of both sides (`.gitattributes` there)."""
    if sort not in SORTS:
        raise ValueError(f"no sort of records: {sort}")
    record = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "command": command, "counts": dict(counts)}
    folder.mkdir(exist_ok=True)
    with _file(folder, sort).open("a") as lines:
        lines.write(json.dumps(record, ensure_ascii=False) + "\n")


def table(folder: Path = FOLDER) -> str:
    """In Markdown: a row for each sort that there are records of."""
    lines = ["| what | figures | command | last |", "|---|---|---|---|"]
    for name, sort in SORTS.items():
        path = _file(folder, name)
        records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if records:
            figures = ", ".join(f"{_number(count)} {what}" for what, count in _counts(records, sort).items())
            lines.append(f"| {sort.title} | {figures} | `{records[-1]['command']}` | {records[-1]['date']} |")
    return "\n".join(lines) + "\n"


def page_with(made: str, page: str) -> str:
    """The page with that table in the place of the one that it has."""
    before, _, rest = page.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise ValueError("the page has no place for the table")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def _file(folder: Path, sort: str) -> Path:
    return folder / f"{sort}.jsonl"


def _counts(records: Sequence[Mapping[str, Any]], sort: Sort) -> dict[str, int | float]:
    if not sort.adds:
        return dict(records[-1]["counts"])
    total: dict[str, int | float] = {}
    newest = {record["command"]: record for record in records}
    for record in newest.values() if sort.each_command else records:
        for what, count in record["counts"].items():
            total[what] = total.get(what, 0) + count
    return total


def _number(count: float) -> str:
    return f"{count:,}" if isinstance(count, int) else f"{count:,.1f}"
