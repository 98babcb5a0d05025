"""SVG elements of all drawings: x positions are percentages, so that text keeps its size at every width."""

from __future__ import annotations

from collections.abc import Iterable

from htpy import Element, Node
from htpy import svg as _svg
from htpy import title as _title

g, rect, line, circle, path, text, image = map(Element, ("g", "rect", "line", "circle", "path", "text", "image"))


def drawing(description: str, height: int, *content: Node, css_class: str = "") -> Element:
    """Return a drawing of the full width and `height` pixels; screen readers read the description."""
    return _svg(class_=f"drawing {css_class}".strip(), role="img", aria_label=description, height=height)[content]


def stretched(y: int, height: int, *content: Node) -> Element:
    """Return content in a 1000 × 1000 box stretched to the full width: for paths, which take no percentages."""
    return _svg(y=y, width="100%", height=height, viewBox="0 0 1000 1000", preserveAspectRatio="none")[content]


def hover_text(tooltip: str) -> Element:
    return _title[tooltip]


def percentage(number: float) -> str:
    """Return a fraction of the width as a percentage with two decimals."""
    return f"{round(100 * number, 2):g}%"


def thousandths(number: float) -> str:
    """Return a fraction as a coordinate, in thousandths, of a box made by `stretched`."""
    return f"{round(1000 * number, 1):g}"


def path_through(points: Iterable[tuple[float, float]]) -> str:
    """Return a path through the points, whose y grows upwards."""
    return "M" + "L".join(f"{thousandths(x)} {thousandths(1 - y)}" for x, y in points)
