"""What stands against replaying a changelog over what was materialised."""

from __future__ import annotations

from rescale.errors import RescaleError, UnsupportedError
from rescale.flink.advice import CANONICAL_RESULT, MATERIALISED
from rescale.flink.keyed.changelog.change_layouts import change_layout
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.heap.heap_entries import entry_layouts
from rescale.flink.keyed.key_group_table import Framing
from rescale.planning.asked.request import Format
from rescale.planning.asked.result_kind import becomes_databases
from rescale.snapshot.model import Changelog, KeyedStream, Operator


def refuse_changelog(operator: Operator, wanted: Format) -> None:
    """`UnsupportedError` where changes or what they follow cannot be told apart, or come to a kind of their own."""
    if not operator.changelogs:
        return
    try:
        for changelog in operator.changelogs:
            _refuse_unknown(changelog)
        if operator.raw_timers:
            raise UnsupportedError(
                "a changelog beside timers that are kept as raw keyed state: which of them counts is not known",
                advice=MATERIALISED,
            )
    except RescaleError as error:
        raise error.located(operator=operator.label) from None
    if wanted is Format.KEEP and not becomes_databases(operator, wanted):
        raise UnsupportedError(
            "a changelog is not written, and what of its state is materialised is not in RocksDB",
            operator=operator.label,
            expected="--format canonical or --format rocksdb",
            found="--format keep",
            advice=f"{CANONICAL_RESULT}, which every backend restores, or RocksDB's (--format rocksdb)",
        )


def _refuse_unknown(changelog: Changelog) -> None:
    if changelog.parsed is None and not changelog.base:
        raise UnsupportedError(
            "nothing of the state is materialised yet, and the log alone does not say how keys are written",
            expected="a materialised part in one subtask at least, or timers",
            found=f"only changes in subtask {changelog.subtask}",
            advice=MATERIALISED,
        )
    header = understood(changelog.parsed, advice=MATERIALISED)
    for state in header.states:
        if state.name in changelog.logged:
            change_layout(header, state)
    for part in changelog.base:
        if isinstance(part, KeyedStream) and part.framing is Framing.HEAP:
            entry_layouts(understood(part.parsed, advice=MATERIALISED))
