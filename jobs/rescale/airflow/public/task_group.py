"""A whole rescale as a task group in a user's DAG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import TaskGroup, XComArg

from rescale.airflow.ending import END_TASK
from rescale.airflow.forms.given_values import values_with_defaults
from rescale.airflow.graph import task_group_graph

Text = str | XComArg
"""A string, a Jinja template, or the output of another task."""

Number = int | str | XComArg | None
Lines = Sequence[str] | XComArg | None
Flag = bool | XComArg | None


class RescaleTaskGroup(TaskGroup):
    """The tasks of a rescale; tasks after the group run only if the result is published."""

    @property
    def output(self) -> XComArg:
        """Output with the fields of the published result: `target`, `start` (a command), `starting` (for
        `HandOverOperator`), `metadata_sha256`, `certificate` and `certificate_sha256`.
        """
        end: Any = self.children[f"{self.group_id}.{END_TASK}"]
        output: XComArg = end.output
        return output


def rescale_task_group(
    group_id: str = "rescale",
    *,
    source: Text,
    target: Text,
    parallelism: Number = None,
    max_parallelism: Number = None,
    same_shape: Flag = None,
    require_approval: Flag = None,
    approval_minutes: float | XComArg | None = None,
    connection: Text | None = None,
    source_connection: Text | None = None,
    operators: Lines | Mapping[str, Mapping[str, int]] = None,
    key_hashes: Lines = None,
    renames: Lines = None,
    drops: Lines = None,
    state_drops: Lines = None,
    old_rows: Lines = None,
    restarts: Lines = None,
    operator_names: Lines = None,
    without_offsets: Lines = None,
    kafka_offsets: Text | None = None,
    kafka_topics: Lines = None,
    kafka_sources: Lines = None,
    format: Text | None = None,  # noqa: A002  # the name of the Param
    files: Text | None = None,
    proof: Text | None = None,
    allowed_prefixes: Lines = None,
    moved: Lines = None,
    accept_unconditional_publish: Flag = None,
    tooltip: str = "",
) -> RescaleTaskGroup:
    """Create the tasks of a rescale in a task group: `inspect`, `plan`, `approve`, …, `publish`, `announce`, `end`.

    Their ids begin with the id of the group, so a DAG can have several groups. Every argument may be a Jinja template
    or the output of another task, which the group then waits for. None means the default of the platform's settings, or
    that of the form. A value that the form would not accept fails the task `inspect`. If the state already has the
    requested shape, all tasks after `plan` are skipped, and so are those after the group.

    :param group_id: id of the group.
    :param source: directory of the snapshot: `s3://bucket/key`, or an absolute path that workers can reach.
    :param target: directory of the result, which does not exist yet.
    :param parallelism: new parallelism of every operator whose parallelism may change.
    :param max_parallelism: new number of key groups of every operator except those with max parallelism 1.
    :param same_shape: whether to copy the snapshot unchanged.
    :param require_approval: whether somebody has to approve the plan. The settings of the platform may require it, too.
    :param approval_minutes: time in which the plan can be approved, in minutes.
    :param connection: id of an Airflow connection of type aws; without it, tasks use the access of their worker.
    :param source_connection: id of a connection for the source, if it is in another store than the target.
    :param operators: shapes of single operators: lines such as `uid=6/256`, or a mapping from operators to shapes.
    :param key_hashes: hashes of keys with your own `hashCode`, as lines such as `uid=objects-hash(a,b)`.
    :param renames: operators to rename, as lines `old=new`.
    :param drops: operators to drop with all of their state; the plan has to be approved.
    :param state_drops: states to drop, as lines `uid:name`; the plan has to be approved.
    :param old_rows: old rows to drop from states with a TTL, as lines `uid:state=age`; the plan has to be approved.
    :param restarts: operators whose finished subtasks run again; the plan has to be approved.
    :param operator_names: names of operators that the snapshot does not have, as lines `uid` or `operator-id name`.
    :param without_offsets: operators that may start without their Kafka offsets.
    :param kafka_offsets: new offsets of Kafka sources, in CSV or JSON.
    :param kafka_topics: Kafka topics to rename, as lines `old=new`.
    :param kafka_sources: Kafka consumers that become sources, as lines `old=new` or `old`.
    :param format: format of the result: `keep`, `canonical` or `rocksdb`.
    :param files: `copy`, or `refer` for a result that uses RocksDB files of the source.
    :param proof: depth of the comparison with the source: `records` or `files`.
    :param allowed_prefixes: more directories that may hold files of the snapshot.
    :param moved: directories of files that were moved, as lines `OLD=NEW`.
    :param accept_unconditional_publish: whether to publish to a store that does not support put-if-absent.
    :param tooltip: text that Airflow shows for the group.
    :return: the group; its `output` describes the published result.
    """
    given_arguments = {name: value for name, value in locals().items() if name not in ("group_id", "tooltip")}
    group = RescaleTaskGroup(group_id=group_id, tooltip=tooltip)
    if any(group.iter_mapped_task_groups()):
        raise ValueError(
            f"the task group {group_id!r} is in a group that is expanded, where tasks would read outputs of all of its "
            "instances: expand RescaleOperator instead, or let TriggerDagRunOperator trigger a run for each item"
        )
    with group:
        task_group_graph(values_with_defaults(given_arguments))
    return group
