"""Lineage from source to result, for Airflow's OpenLineage provider.

The provider asks a task for its lineage after the task has ended (`get_openlineage_facets_on_complete`). The task has
no access to storage then, so it collects the lineage while it runs. Without the provider, OpenLineage is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rescale.runstate.places import places_of
from rescale.storage.locations import is_s3, split_s3

if TYPE_CHECKING:
    from rescale.plan.plan import Plan
    from rescale.runstate.certificate import Certificate


class LineageDataset(NamedTuple):
    """A snapshot as an OpenLineage data set.

    `facets` are JSON values by name. A result also has its size, and the number of its files.
    """

    uri: str
    facets: dict[str, dict[str, Any]]
    size_bytes: int | None = None
    file_count: int | None = None


class Lineage(NamedTuple):
    """Source of a task, and its result if there is one yet."""

    source: LineageDataset
    result: LineageDataset | None = None


def planned_lineage(plan: Plan) -> Lineage:
    """Return the lineage of a plan: its source, and no result yet."""
    shapes = [(operator.label, operator.parallelism, operator.max_parallelism) for operator in plan.operators]
    return Lineage(LineageDataset(plan.source, _shape_facet(shapes)))


def published_lineage(plan: Plan, certificate: Certificate, certificate_sha256: str) -> Lineage:
    """Return the lineage of a published result, with a facet for its certificate."""
    shapes = [(operator.label, operator.new_parallelism, operator.new_max_parallelism) for operator in plan.operators]
    certificate_facet = {
        "verdict": certificate.verdict,
        "proof": certificate.proof.value,
        "uri": places_of(plan).certificate,
        "sha256": certificate_sha256,
        "metadataSha256": certificate.candidate_sha256,
        "plan": plan.digest,
    }
    facets = {**_shape_facet(shapes), "rescale_certificate": certificate_facet}
    files = [file for file in certificate.files if not file.is_elsewhere]
    result = LineageDataset(plan.target, facets, plan.bytes_moved, len(files) + 1)  # one more file: `_metadata`
    return planned_lineage(plan)._replace(result=result)


def as_openlineage(lineage: Lineage | None) -> Any:
    """Return the provider's `OperatorLineage`; an empty one without a lineage."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import DatasetFacet, output_statistics_output_dataset

    if lineage is None:
        return OperatorLineage()

    def dataset_fields(dataset: LineageDataset) -> dict[str, Any]:
        facets = {name: DatasetFacet().with_additional_properties(**facet) for name, facet in dataset.facets.items()}
        return {**_dataset_name(dataset.uri), "facets": facets}

    inputs, result = [InputDataset(**dataset_fields(lineage.source))], lineage.result
    if result is None:
        return OperatorLineage(inputs=inputs)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        size=result.size_bytes, fileCount=result.file_count
    )
    dataset_output = OutputDataset(**dataset_fields(result), outputFacets={"outputStatistics": statistics})
    return OperatorLineage(inputs=inputs, outputs=[dataset_output])


def _shape_facet(shapes: list[tuple[str, int, int]]) -> dict[str, dict[str, Any]]:
    field_names = ("operator", "parallelism", "maxParallelism")
    return {"rescale_shape": {"operators": [dict(zip(field_names, shape, strict=True)) for shape in shapes]}}


def _dataset_name(uri: str) -> dict[str, str]:
    """Return namespace and name of a place, by OpenLineage's naming rules."""
    if not is_s3(uri):
        return {"namespace": "file", "name": uri}
    bucket, key = split_s3(uri)
    return {"namespace": f"s3://{bucket}", "name": key}
