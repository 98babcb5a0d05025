"""`rescale inspect`: what is in a snapshot."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_source, add_uids, prefixes_of, uids_of
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.report.inspection import inspection, inspection_text
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.opening import open_snapshot
from rescale.storage.locations import normalise

SUMMARY = "what is in a snapshot"
DESCRIPTION = (
    "Shows kind, operators, states, sizes and oddities of a snapshot. Reads _metadata, headers, indexes of RocksDB "
    "files, the offsets of Kafka sources, and few bytes more."
)
EXAMPLE = "rescale inspect s3://flink/savepoint-1a2b"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_uids(parser)


def execute(arguments: argparse.Namespace, output: Output) -> None:
    with waiting(f"reading {arguments.source}"):
        snapshot = open_snapshot(normalise(arguments.source), prefixes_of(arguments), uids_of(arguments))
        document = inspection(snapshot, kafka_offsets(snapshot))
    output.answer(document, lambda: inspection_text(document))
