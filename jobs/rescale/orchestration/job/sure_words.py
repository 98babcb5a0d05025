"""What of a request's surgery a checkpoint judges as surely as a savepoint that the same job makes later.

Their operators are the same. Kafka partitions may be found in between, though, and states registered for which an
operator had no need before; and timers that a checkpoint has as raw keyed state are state like any other in a canonical
savepoint, where the states of a changelog are that have not changed yet, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.metadata.handles import ChangelogHandle
from rescale.planning.asked.asked_surgery import states_meant
from rescale.planning.asked.operator_shapes import by_operator
from rescale.planning.asked.surgery_words import SurgeryWords
from rescale.snapshot.model import Operator


def sure_words(operators: Sequence[Operator], words: SurgeryWords) -> SurgeryWords:
    """Without Kafka's partitions, and without states of operators that may get more.

    `operators` are those of the checkpoint; `RequestError` names one that is not there.
    """
    by_operator(operators, words.kafka.sources)
    for name in {row.operator for row in words.kafka.offsets}:
        by_operator(operators, {name: True})
    by_id = {operator.entry.operator_id: operator for operator in operators}
    state_drops = tuple(
        word for word in words.state_drops if all(_is_settled(operator) for operator, _ in states_meant(by_id, word))
    )
    return SurgeryWords(words.kafka.with_renames(words.renames), words.drops, state_drops)


def is_logged(operator: Operator) -> bool:
    """Whether its keyed state lies in a changelog, with changes or without."""
    states = [one.state for one in operator.entry.subtasks if one.state is not None]
    return any(isinstance(state.managed_keyed, ChangelogHandle) for state in states)


def _is_settled(operator: Operator) -> bool:
    """Whether all its subtasks list the same states, and all of these can be seen: none was registered late.

    One without keyed state may have registered none of it yet: Flink writes no handle then.
    """
    keyed = [one.parsed for one in operator.managed_keyed]
    elements = [stream.parsed for stream in operator.operator]
    if operator.raw_keyed or operator.other_keyed or is_logged(operator) or None in keyed or None in elements:
        return False
    listed = [frozenset(state.name for state in header.states) for header in keyed if header is not None]
    dealt = [frozenset(state.name for state in stream.states) for stream in operator.operator]
    of_all = (names for names in (listed, dealt) if names)
    return bool(listed) and all(len(set(names)) == 1 and len(names) == operator.entry.parallelism for names in of_all)
