"""Lineage, for who has Airflow's provider of OpenLineage: a result comes of its source.

The provider asks a task for this when it has ended (`get_openlineage_facets_on_complete`). Then nothing of the run can
be read any more, so the task keeps what it knows. Without the provider nobody asks, and nothing of OpenLineage is
imported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rescale.planning.values.plan import Plan
from rescale.storage.locations import is_s3, split_s3
from rescale.target.certificate import Certificate
from rescale.target.places import places_of


class LineageDataset(NamedTuple):
    """A snapshot, as OpenLineage's data set: `facets` are JSON values by their names; of a result there are its `size`
    in bytes and the number of its files."""

    uri: str
    facets: dict[str, dict[str, Any]]
    size: int | None = None
    files: int | None = None


class Lineage(NamedTuple):
    source: LineageDataset
    result: LineageDataset | None = None


def planned_lineage(plan: Plan) -> Lineage:
    """Of a plan: what it is made of. There is no result yet."""
    shape = [(one.label, one.parallelism, one.max_parallelism) for one in plan.operators]
    return Lineage(LineageDataset(plan.source, _shape(shape)))


def published_lineage(plan: Plan, certificate: Certificate, certificate_sha256: str) -> Lineage:
    shape = [(one.label, one.new_parallelism, one.new_max_parallelism) for one in plan.operators]
    proven = {
        "verdict": certificate.verdict,
        "proof": certificate.proof.value,
        "uri": places_of(plan).certificate,
        "sha256": certificate_sha256,
        "metadataSha256": certificate.candidate_sha256,
        "plan": plan.digest,
    }
    facets = {**_shape(shape), "rescale_certificate": proven}
    files = [file for file in certificate.files if not file.is_elsewhere]
    result = LineageDataset(plan.target, facets, plan.bytes_moved, len(files) + 1)  # with `_metadata`
    return planned_lineage(plan)._replace(result=result)


def as_openlineage(lineage: Lineage | None) -> Any:
    """As the provider wants it: an `OperatorLineage`, an empty one if nothing is known."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import DatasetFacet, output_statistics_output_dataset

    if lineage is None:
        return OperatorLineage()

    def named(dataset: LineageDataset) -> dict[str, Any]:
        facets = {name: DatasetFacet().with_additional_properties(**one) for name, one in dataset.facets.items()}
        return {**_name(dataset.uri), "facets": facets}

    inputs, result = [InputDataset(**named(lineage.source))], lineage.result
    if result is None:
        return OperatorLineage(inputs=inputs)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        size=result.size, fileCount=result.files
    )
    output = OutputDataset(**named(result), outputFacets={"outputStatistics": statistics})
    return OperatorLineage(inputs=inputs, outputs=[output])


def _shape(operators: list[tuple[str, int, int]]) -> dict[str, dict[str, Any]]:
    names = ("operator", "parallelism", "maxParallelism")
    return {"rescale_shape": {"operators": [dict(zip(names, one, strict=True)) for one in operators]}}


def _name(uri: str) -> dict[str, str]:
    """By OpenLineage's rules for places."""
    if not is_s3(uri):
        return {"namespace": "file", "name": uri}
    bucket, key = split_s3(uri)
    return {"namespace": f"s3://{bucket}", "name": key}
