"""What all drawings share: elements whose places are parts of the width, so that text keeps its size at every width."""

from __future__ import annotations

from collections.abc import Iterable

from htpy import Element, Node
from htpy import svg as _svg
from htpy import title as _title


def element(name: str) -> Element:
    """An element of SVG that HTML does not have."""
    return Element(name)


g, rect, line, circle, path, text, image = map(element, ("g", "rect", "line", "circle", "path", "text", "image"))


def drawing(words: str, height: int, *content: Node, kind: str = "") -> Element:
    """As wide as there is room, `height` pixels high; `words` are for those who cannot see it."""
    return _svg(class_=f"drawing {kind}".strip(), role="img", aria_label=words, height=height)[content]


def stretched(y: int, height: int, *content: Node) -> Element:
    """Content in a square of 1000 that is stretched over the whole width: for paths, which know no parts."""
    return _svg(y=y, width="100%", height=height, viewBox="0 0 1000 1000", preserveAspectRatio="none")[content]


def said(words: str) -> Element:
    """What hovering shows."""
    return _title[words]


def part(number: float) -> str:
    """A part of the width, as a percentage in as few signs as the eye can tell apart."""
    return f"{round(100 * number, 2):g}%"


def thousandths(number: float) -> str:
    """A place in what is stretched."""
    return f"{round(1000 * number, 1):g}"


def points(places: Iterable[tuple[float, float]]) -> str:
    """A path from place to place; y goes up."""
    return "M" + "L".join(f"{thousandths(x)} {thousandths(1 - y)}" for x, y in places)
