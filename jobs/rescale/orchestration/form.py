"""The trigger form, and the request that a filled form stands for.

What can be said about one value alone is its schema, which the form and the REST API refuse to break; what takes two
values, or a look at the snapshot, is refused by the first task. Secrets are never values: a connection is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from rescale.errors import RequestError
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.orchestration.key_functions import check_key_functions
from rescale.planning.request import Request, make_request, parse_uids

# An answer to a wrong value shows the pattern: they are as plain as they can be.
_PLACE = "^(/|file:/|s3://|s3a://|s3p://)"
_PLACES = "s3://bucket/key, or an absolute path that workers can reach"

_NUMBER_OF_ONE = "^.+=[1-9][0-9]*$"
_KEY_HASH = "^(.+=)?[^=]+$"

_OPERATORS, _STORAGE = "Single operators", "Storage"


def rescale_form() -> dict[str, Param]:
    """The Params of a rescale, in the order of the form. What most people need has no section: it is always open."""
    return {
        "source": Param(
            type="string",
            pattern=_PLACE,
            title="Source",
            description_md=f"The directory that Flink printed when it took the savepoint: {_PLACES}. Never modified.",
        ),
        "target": Param(
            type="string",
            pattern=_PLACE,
            title="Target",
            description_md=f"A directory that does not exist yet, apart from the source: {_PLACES}.",
        ),
        "parallelism": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=UPPER_BOUND_MAX_PARALLELISM,
            title="Parallelism",
            description_md="For every operator whose parallelism may change. Empty: as it is.",
        ),
        "max_parallelism": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=UPPER_BOUND_MAX_PARALLELISM,
            title="Max parallelism",
            description_md="The number of key groups, for every operator but those that always run with one subtask. "
            "Empty: as it is.",
        ),
        "connection": Param(
            None,
            type=["null", "string"],
            title="Connection",
            description_md="The id of an Airflow connection of type aws that gives access to S3. "
            "Empty: what the worker has in its own environment.",
        ),
        "operator_parallelism": Param(
            [],
            type="array",
            items={"type": "string", "pattern": _NUMBER_OF_ONE},
            title="Parallelism of single operators",
            section=_OPERATORS,
            description_md="Lines `uid=4` or `operator-id=4`; they go before the parallelism for all.",
        ),
        "operator_max_parallelism": Param(
            [],
            type="array",
            items={"type": "string", "pattern": _NUMBER_OF_ONE},
            title="Max parallelism of single operators",
            section=_OPERATORS,
            description_md="Lines `uid=256` or `operator-id=256`; they go before the max parallelism for all.",
        ),
        "key_hashes": Param(
            [],
            type="array",
            items={"type": "string", "pattern": _KEY_HASH},
            title="How keys hash",
            section=_OPERATORS,
            description_md="Only for another max parallelism, and for keys whose `hashCode` is your own: lines "
            "`objects-hash(a,b)` or `uid=objects-hash(a,b)`, or `module:function` where whoever runs Airflow allows "
            "the module. Empty: common formulas are tried.",
        ),
        "operator_names": Param(
            [],
            type="array",
            items={"type": "string"},
            title="Operator names",
            section=_OPERATORS,
            description_md="Lines `uid` or `operator-id name`. Flink 1.x stores only ids; this is what to call them.",
        ),
        "allowed_prefixes": Param(
            [],
            type="array",
            items={"type": "string", "pattern": _PLACE},
            title="More places of state",
            section=_STORAGE,
            description_md="Files of the snapshot may also lie below these, one a line.",
        ),
        "accept_unconditional_publish": Param(
            False,
            type="boolean",
            title="The store does not honour put-if-absent",
            section=_STORAGE,
            description_md="Go on nevertheless; see to it that no other run has this target.",
        ),
    }


def request_of(params: Mapping[str, Any]) -> Request:
    """The request of a filled form; `RequestError` names what makes no sense."""
    if unknown := sorted(params.keys() - rescale_form().keys()):
        raise RequestError(
            "the form has no such field", expected=f"only {', '.join(rescale_form())}", found=", ".join(unknown)
        )
    check_key_functions(name.rpartition("=")[2] for name in params["key_hashes"])
    return make_request(
        params["source"],
        params["target"],
        _numbers(params, "parallelism"),
        params["allowed_prefixes"],
        parse_uids(params["operator_names"]),
        _numbers(params, "max_parallelism"),
        params["key_hashes"],
    )


def _numbers(params: Mapping[str, Any], name: str) -> list[str]:
    """As words of a command line: the number for all, if there is one, and those of single operators."""
    of_all = params[name]
    return [*params[f"operator_{name}"], *([] if of_all is None else [str(of_all)])]
