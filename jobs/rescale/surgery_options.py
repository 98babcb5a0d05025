"""The options that say what the result has otherwise than its source, besides its shape: of commands and of steps.

A command hands them on to the step that it starts, which takes them for what the command did.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from rescale.errors import RequestError
from rescale.planning.asked.kafka_words import parse_offsets
from rescale.planning.asked.surgery_words import SurgeryWords, parse_surgery
from rescale.text_files import read_text


@dataclass(frozen=True)
class SurgeryOption:
    """An option that may be repeated, or names a file.

    If its values begin with an operator of the source, `after_operator` is what follows that; otherwise None.
    """

    name: str
    metavar: str
    help: str
    repeated: bool = True
    after_operator: str | None = None

    @property
    def attribute(self) -> str:
        """Where argparse puts its value."""
        return self.name.removeprefix("--").replace("-", "_")

    def add_to(self, parser: argparse._ActionsContainer) -> argparse.Action:
        """Unless it is given its value is [], or None for a file."""
        if not self.repeated:
            return parser.add_argument(self.name, metavar=self.metavar, help=self.help)
        return parser.add_argument(self.name, metavar=self.metavar, action="append", default=[], help=self.help)


SURGERY_OPTIONS = (
    SurgeryOption(
        "--rename",
        "OLD=NEW",
        "give all state of the operator OLD to NEW: uids, or operator ids of 32 hex digits (repeatable)",
        after_operator="=",
    ),
    SurgeryOption(
        "--drop",
        "UID",
        "leave out the operator and all of its state (repeatable; uid or operator id)",
        after_operator="",
    ),
    SurgeryOption(
        "--kafka-offsets",
        "FILE",
        "where Kafka sources read on: rows of topic, partition and offset in CSV or JSON, as rescale inspect "
        "--kafka-offsets prints them. The offset is that of the next record, or earliest, latest or committed; drop "
        "leaves the partition out. What FILE does not name stays",
        repeated=False,
    ),
    SurgeryOption(
        "--kafka-topic",
        "OLD=NEW",
        "give the offsets of the topic OLD to NEW, which must have the same records at the same offsets (repeatable)",
    ),
    SurgeryOption(
        "--kafka-source",
        "OLD[=NEW]",
        "make the FlinkKafkaConsumer OLD of Flink 1.x the KafkaSource NEW, which reads on where it stood; without NEW "
        "the name stays (repeatable; uids or operator ids)",
        after_operator="=",
    ),
    SurgeryOption(
        "--drop-state",
        "UID:NAME",
        "leave out one state of the operator: keyed state, timers or operator state (repeatable). Of an operator that "
        "loses keyed state all other records are written anew, at any parallelism",
        after_operator=":",
    ),
)
"""In the order in which one reads of them."""


def surgery_of(arguments: argparse.Namespace) -> SurgeryWords:
    """What `SURGERY_OPTIONS` stand for, as they were parsed; `RequestError` if they make no sense."""
    return parse_surgery(
        renames=arguments.rename,
        drops=arguments.drop,
        state_drops=arguments.drop_state,
        kafka_offsets=_read_offsets(arguments.kafka_offsets) if arguments.kafka_offsets else "",
        kafka_topics=arguments.kafka_topic,
        kafka_sources=arguments.kafka_source,
    )


def options_of_surgery(arguments: argparse.Namespace) -> list[str]:
    """The same options once more, for a step; `RequestError` if they make no sense."""
    asked = surgery_of(arguments)
    asked.kafka.with_renames(asked.renames)
    values = {**vars(arguments), "kafka_offsets": []}
    if arguments.kafka_offsets:
        values["kafka_offsets"] = [Path(arguments.kafka_offsets).absolute()]
    return [f"{option.name}={value}" for option in SURGERY_OPTIONS for value in values[option.attribute]]


def _read_offsets(path: str) -> str:
    """A file of Kafka offsets that was named; `RequestError` if it makes no sense, or names no partition."""
    text = read_text(path, "Kafka offsets")
    if not parse_offsets(text):
        raise RequestError(
            "the file of Kafka offsets names no partition",
            path=path,
            expected="a row of topic, partition and offset for each partition that shall be read from elsewhere",
            advice="leave --kafka-offsets out if all shall stay as it is; rescale inspect SOURCE --kafka-offsets csv "
            "prints what is there",
        )
    return text
