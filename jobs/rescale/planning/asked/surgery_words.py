"""What the result shall have otherwise than its source, besides its shape, in the words of whoever asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rescale.errors import RequestError
from rescale.planning.asked.kafka_words import NO_KAFKA_WORDS, KafkaWords, parse_offsets, parse_sources, parse_topics


@dataclass(frozen=True)
class SurgeryWords:
    """`renames` maps operators to the uids or operator ids that they get, `drops` are operators that are left out.

    `state_drops` are single states of others, as `UID:NAME`, and `kafka` is what changes in Kafka sources.
    """

    renames: dict[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    state_drops: tuple[str, ...] = ()
    kafka: KafkaWords = NO_KAFKA_WORDS

    def __bool__(self) -> bool:
        return bool(self.renames or self.drops or self.state_drops or self.kafka)


NO_SURGERY_WORDS = SurgeryWords()


def parse_surgery(
    *,
    renames: Iterable[str] = (),
    drops: Iterable[str] = (),
    state_drops: Iterable[str] = (),
    kafka_offsets: str = "",
    kafka_topics: Iterable[str] = (),
    kafka_sources: Iterable[str] = (),
) -> SurgeryWords:
    """What the words of a command line or of a form stand for; `RequestError` names the wrong one.

    `kafka_offsets` is what stands in a file.
    """
    kafka = KafkaWords(parse_offsets(kafka_offsets), parse_topics(kafka_topics), parse_sources(kafka_sources))
    return SurgeryWords(parse_renames(renames), parse_drops(drops), parse_state_drops(state_drops), kafka)


def parse_renames(words: Iterable[str]) -> dict[str, str]:
    """`OLD=NEW`, as a mapping from the operator to its new uid or operator id, in which `=` may stand."""
    renames: dict[str, str] = {}
    for word in words:
        old, _, new = word.partition("=")
        if not old or not new:
            raise RequestError(
                f"not a new name of an operator: {word!r}",
                expected="OLD=NEW, each a uid or an operator id",
                found=word,
                advice="name an operator by its id if there is a = in its uid" if word.count("=") > 1 else None,
            )
        if old in renames:
            raise RequestError(f"the new name of operator {old!r} is given twice", found=word)
        renames[old] = new
    return renames


def parse_drops(words: Iterable[str]) -> tuple[str, ...]:
    """Operators, each once."""
    operators: dict[str, None] = {}
    for word in words:
        if not word:
            raise RequestError("no operator is named to be dropped", expected="a uid or an operator id", found=word)
        if word in operators:
            raise RequestError(f"operator {word!r} is dropped twice", found=word)
        operators[word] = None
    return tuple(operators)


def parse_state_drops(words: Iterable[str]) -> tuple[str, ...]:
    """`UID:NAME`, each once; in both may be colons, and NAME may be empty: what is meant only a snapshot tells."""
    states: dict[str, None] = {}
    for word in words:
        if not word.strip(":") or ":" not in word[1:]:
            raise RequestError(f"not a state of an operator: {word!r}", expected="UID:NAME", found=word)
        if word in states:
            raise RequestError(f"the state {word!r} is dropped twice", found=word)
        states[word] = None
    return tuple(states)
