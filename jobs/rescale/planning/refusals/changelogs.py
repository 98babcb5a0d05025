"""Refusals of changelogs that cannot be replayed over the state that was materialised."""

from __future__ import annotations

from rescale.flink.advice import CANONICAL_RESULT, MATERIALISED
from rescale.flink.keyed.changelog.change_layouts import change_layout
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.heap.heap_entries import entry_layouts
from rescale.flink.keyed.key_group_table import Framing
from rescale.planning.request.result_files import Format
from rescale.planning.request.result_kind import becomes_databases
from rescale.snapshot.keyed_state import Changelog, KeyedStream
from rescale.snapshot.model import Operator
from rescale.text.advice import Advice, mention
from rescale.text.errors import RescaleError, UnsupportedError


def refuse_changelog(operator: Operator, wanted: Format) -> None:
    """Raise `UnsupportedError` if the changelog cannot be parsed, or the result would have to keep one."""
    if not operator.changelogs:
        return
    try:
        for changelog in operator.changelogs:
            _refuse_unknown(changelog)
        if operator.raw_timers:
            raise UnsupportedError(
                "timers are both in a changelog and in raw keyed state, and it is not known which are current",
                advice=MATERIALISED,
            )
    except RescaleError as error:
        raise error.located(operator=operator.label) from None
    if wanted is Format.KEEP and not becomes_databases(operator, wanted):
        raise UnsupportedError(
            "the keyed state is kept in a changelog, which Rescale cannot write, and its materialised part is not in "
            "RocksDB",
            operator=operator.label,
            expected="format canonical or rocksdb",
            found="format keep",
            advice=Advice(
                CANONICAL_RESULT, ", which every backend restores, or RocksDB's (", mention("format", "rocksdb"), ")"
            ),
        )


def _refuse_unknown(changelog: Changelog) -> None:
    if changelog.parsed is None and not changelog.base:
        raise UnsupportedError(
            "no state is materialised yet, and the changelog alone does not describe the serializer of its keys",
            expected="a materialised part in at least one subtask, or timers",
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
