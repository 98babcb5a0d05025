"""Reader of hand-written YAML files, with errors for mistakes that a parser would silently ignore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rescale.options.text_files import read_limited
from rescale.text.errors import RequestError


def read_yaml(path: Path, problem: str) -> Any:
    """Return the contents of a file; None for an empty file. Raises `RequestError` with `problem` for a bad file."""
    try:
        return yaml.load(read_limited(path), _UniqueKeyLoader)
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: not UTF-8, too large, or February 30
        raise RequestError(problem, path=str(path), found=error) from None


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's safe loader, which raises an error for two fields of the same name instead of taking the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen_names = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen_names:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} occurs twice", key.start_mark)
            seen_names.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping
