"""Renders the key-group map and the matrix of moves as SVG."""

from __future__ import annotations

from collections.abc import Iterator

from htpy import Element, Node, div, li, span, ul

from rescale.report.figures import KeyGroupMap, Matrix, Ribbon, Strip
from rescale.report.html.png import shades_uri
from rescale.report.html.svg import drawing, g, hover_text, image, path, percentage, rect, stretched, text, thousandths

_LABEL_HEIGHT, _OWNERS_HEIGHT, _CELLS_HEIGHT, _RIBBONS_HEIGHT, _GAP_HEIGHT, _MARKS_HEIGHT = 18, 18, 26, 96, 3, 12
"""Heights of the rows of the map, in pixels."""
_NARROWEST_LABELLED_SHARE = 0.022
_FEW_CELLS = 256


def key_group_map(figure: KeyGroupMap, description: str) -> Element:
    """Return the map as SVG, from the top: old key groups, old owners, ribbons, new owners, new key groups."""
    nodes: list[Node] = []
    y = 0
    nodes += _label(figure.before, y)
    y += _LABEL_HEIGHT
    if figure.before.hot:
        nodes += _hot_marks(figure.before, y)
        y += _MARKS_HEIGHT
    nodes += _cells(figure.before, y)
    y += _CELLS_HEIGHT + _GAP_HEIGHT
    if figure.before.owners:
        nodes += _owners(figure.before, y)
        y += _OWNERS_HEIGHT
    if figure.after is not None:
        after = figure.after
        if figure.ribbons:
            nodes.append(stretched(y, _RIBBONS_HEIGHT, *map(_ribbon, figure.ribbons)))
            y += _RIBBONS_HEIGHT
        else:
            y += 2 * _GAP_HEIGHT
        if after.owners:
            nodes += _owners(after, y)
            y += _OWNERS_HEIGHT + _GAP_HEIGHT
        nodes += _cells(after, y)
        y += _CELLS_HEIGHT
        if after.hot:
            nodes += _hot_marks(after, y)
            y += _MARKS_HEIGHT
        nodes += _label(after, y)
        y += _LABEL_HEIGHT
    return div[drawing(description, y, nodes, css_class="groups"), _legend(figure) if figure.before.parts else None]


def _label(strip: Strip, y: int) -> Iterator[Node]:
    yield text(class_="label", x=0, y=y + 13)[strip.label]


def _hot_marks(strip: Strip, y: int) -> Iterator[Node]:
    yield g(class_="hot")[(text(x=percentage(mark.at), y=y + 10)["▼", hover_text(mark.tooltip)] for mark in strip.hot)]


def _cells(strip: Strip, y: int) -> Iterator[Node]:
    """Yield a frame, the shades of the key groups in it, and on top transparent parts with tooltips."""
    yield rect(class_="frame", y=y, width="100%", height=_CELLS_HEIGHT)
    css_class = "few" if len(strip.shades) <= _FEW_CELLS else None
    uri = shades_uri([strip.shades])
    yield image(href=uri, y=y, width="100%", height=_CELLS_HEIGHT, preserveAspectRatio="none", class_=css_class)
    if strip.parts:
        yield g(class_="parts")[
            (
                rect(x=percentage(share.start), y=y, width=percentage(share.end - share.start), height=_CELLS_HEIGHT)[
                    hover_text(share.tooltip)
                ]
                for share in strip.parts
            )
        ]


def _owners(strip: Strip, y: int) -> Iterator[Node]:
    yield g(class_="owners")[
        (
            rect(x=percentage(share.start), y=y, width=percentage(share.end - share.start), height=_OWNERS_HEIGHT - 2)[
                hover_text(share.tooltip)
            ]
            for share in strip.owners
        )
    ]
    yield g(class_="numbers")[
        (
            text(x=percentage((share.start + share.end) / 2), y=y + 12)[share.label]
            for share in strip.owners
            if share.end - share.start >= _NARROWEST_LABELLED_SHARE
        )
    ]


def _ribbon(ribbon: Ribbon) -> Element:
    start, end, new_end, new_start = map(thousandths, (ribbon.start, ribbon.end, ribbon.new_end, ribbon.new_start))
    path_data = (
        f"M{start} 0H{end}C{end} 500 {new_end} 500 {new_end} 1000H{new_start}C{new_start} 500 {start} 500 {start} 0"
    )
    css_class = "stays" if ribbon.keeps_subtask else "odd" if ribbon.is_odd else None
    return path(d=path_data, class_=css_class)[hover_text(ribbon.tooltip)]


def _legend(figure: KeyGroupMap) -> Element:
    has_hot_groups = figure.before.hot or (figure.after is not None and figure.after.hot)
    return ul(class_="legend")[
        li[span(class_="key shades", aria_hidden="true"), "bytes, from none to three times the mean and more"],
        li[span(class_="key hot", aria_hidden="true")["▼"], "hot key group"] if has_hot_groups else None,
        li[span(class_="key stays", aria_hidden="true"), "stays with the subtask of the same number"]
        if figure.ribbons
        else None,
        li[span(class_="key moves", aria_hidden="true"), "goes to another subtask"] if figure.ribbons else None,
    ]


def matrix(figure: Matrix, description: str) -> Element:
    """Return the matrix as a square of shaded cells that are large enough to see."""
    return drawing(
        description,
        300,
        text(class_="label", x=0, y=13)[f"↓ {figure.row_label}   → {figure.column_label}"],
        rect(class_="frame", y=20, width=280, height=280),
        image(href=shades_uri(figure.shades), y=20, width=280, height=280, preserveAspectRatio="none", class_="few"),
        css_class="matrix",
    )
