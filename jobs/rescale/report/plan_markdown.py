"""A plan for somebody who has to say yes or no to it: totals, the largest operators, Kafka, and every warning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from rescale.report.insights import restores_table, sentences
from rescale.report.kafka import kafka_line
from rescale.report.planned import OPERATOR_HEADERS, operator_row, work_lines
from rescale.report.units import counted, human_bytes

_LARGEST = 10

_EVENNESS = "worst ÷ mean: the keyed state of the fullest subtask, in times of the mean, before → after"


def plan_markdown(summary: dict[str, Any]) -> str:
    """Markdown of a `plan_summary`."""
    operators = sorted(summary["operators"], key=lambda o: -(o["keyed_bytes"] + o["operator_bytes"]))
    changed = sum(_is_changed(operator) for operator in operators)
    title = f"The {_LARGEST} largest operators" if len(operators) > _LARGEST else "Operators"
    blocks = [
        f"**{human_bytes(summary['bytes_moved'])}** of state in {counted(len(operators), 'operator')} are moved, "
        f"{changed} of them to a new shape.",
        f"* from `{summary['source']}`, its _metadata written {summary['taken'] or 'at a time that is not known'}\n"
        f"* to `{summary['target']}`\n"
        f"* plan `{summary['plan'][:8]}`",
        f"### {title}",
        _table(OPERATOR_HEADERS, [operator_row(operator) for operator in operators[:_LARGEST]]),
    ]
    if meanings := work_lines(summary):
        blocks.append("\n".join(f"* {line}" for line in (*meanings, _EVENNESS)))
    blocks += _listed("Kafka sources", [kafka_line(source) for source in summary["kafka"]])
    restores = restores_table(summary["insight"])
    if restores.rows:
        blocks += [f"### {restores.title}", _table(restores.headers, restores.rows)]
    blocks += _listed("Good to know", sentences(summary["insight"]))
    blocks += _listed("Warnings", summary["warnings"])
    blocks.append(f"Afterwards the job starts with\n\n```\n{summary['start']}\n```")
    return "\n\n".join(blocks) + "\n"


def _is_changed(operator: dict[str, Any]) -> bool:
    return any(operator[name] != operator[f"new_{name}"] for name in ("parallelism", "max_parallelism"))


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    return [f"### {title}", "\n".join(f"* {line}" for line in lines)] if lines else []


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return tabulate(cells, headers, tablefmt="github", disable_numparse=True)
