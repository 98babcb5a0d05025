"""The table of values in the chart's README, made of values.yaml: `python charts/make_readme.py` brings it up to date.

A value is described by the comment above it; a mapping that has none is a section, and its members are described.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CHART = Path(__file__).parent / "rescale"
BEGIN, END = "<!-- values: made by charts/make_readme.py -->", "<!-- end of values -->"


class Value(NamedTuple):
    """A line of the table; `default` is YAML."""

    path: str
    default: str
    description: str


def values(text: str) -> Iterator[Value]:
    """The described values of a values.yaml, in its order."""
    sections: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        words = line.strip()
        if words.startswith("#"):
            comment.append(words.removeprefix("#").strip())
            continue
        if words:
            indent = len(line) - len(line.lstrip())
            name, _, default = words.partition(": ")
            sections = [(depth, section) for depth, section in sections if depth < indent]
            path = ".".join([*(section for _, section in sections), name.removesuffix(":")])
            if comment and default:
                yield Value(path, default, " ".join(comment))
            else:
                sections.append((indent, name.removesuffix(":")))
        comment = []


def table(described: Iterator[Value]) -> str:
    rows = [f"| `{value.path}` | `{value.default}` | {value.description} |" for value in described]
    return "\n".join(["| value | default | what it is |", "|---|---|---|", *rows])


def current(readme: str, values_yaml: str) -> str:
    """The README with the table that belongs to the values."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(values(values_yaml))}\n{END}{after}"


if __name__ == "__main__":
    path = CHART / "README.md"
    path.write_text(current(path.read_text(), (CHART / "values.yaml").read_text()))
