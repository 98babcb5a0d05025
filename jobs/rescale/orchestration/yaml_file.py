"""A file that a platform team writes in YAML, read so that nothing in it is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rescale.errors import RequestError


def read_yaml(path: Path, what: str) -> Any:
    """What the file holds, None for an empty one; `RequestError` says `what` is wrong if that cannot be told."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:  # `ValueError`: no UTF-8, or no day of any calendar
        raise RequestError(what, path=str(path), found=error) from None


class _Loader(yaml.SafeLoader):
    """YAML's safe loader; of two fields with one name, which it would take the last of, it complains."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping
