"""Rows of bytes sent through Spark's shuffle, each to the partition that it names.

This is what `RDD.partitionBy` does, less what costs it time and memory here: it pickles pairs, and collects up to a
thousand of them in lists first. The classes of PySpark that it takes are the ones that `partitionBy` is made of; they
are not part of its public interface, so the versions of Spark that this runs on are tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import RDD
from pyspark.serializers import NoOpSerializer, pack_long


def send_to_partitions(rows: RDD[tuple[int, bytes]], partitions: int) -> RDD[bytes]:
    """The rows of partition n are those that were given as (n, row)."""
    keyed: Any = rows.mapPartitions(_keys_and_rows, preservesPartitioning=True)
    keyed._bypass_serializer = True
    jvm: Any = rows.context._jvm
    pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
    partitioned = pairs.partitionBy(jvm.PythonPartitioner(partitions, 0))
    return RDD(jvm.PythonRDD.valueOfPair(partitioned), rows.context, NoOpSerializer())


def _keys_and_rows(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    for partition, row in rows:
        yield pack_long(partition)  # type: ignore[no-untyped-call]
        yield row
