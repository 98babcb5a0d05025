"""Mutants of a file: one small thing is different in each, so that a test should find it.

Made here and not by a package: those that there are (mutmut, cosmic-ray) drop no statement, no `raise` and no operand,
which is what hurts a tool that shall refuse, and bring a database or a terminal interface along.

Not touched: annotations, decorators, docstrings, and whatever only words an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_BARE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_COMPOUND = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Mutant:
    """`function` has the names of its classes before it (`Class.method`); `change` is the statement as it is now."""

    path: Path
    function: str
    change: str
    lines: range
    code: CodeType

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.lines.start}, {self.function}"


def mutants(path: Path) -> Iterator[Mutant]:
    """All of a file's functions, in order; two that read the same, in one function, are both given."""
    tree = ast.parse(path.read_text())
    for name, function in _functions(tree.body):
        for statement in _statements(function.body):
            for change in _changes(statement):
                yield Mutant(path, name, change, _head(statement), compile(tree, str(path), "exec", dont_inherit=True))


def _functions(body: Sequence[ast.stmt], outer: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of the module and of its classes; an inner function belongs to the outer one."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield outer + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, f"{outer}{statement.name}.")


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.stmt | ast.excepthandler]:
    for statement in body:
        if isinstance(statement, ast.stmt | ast.excepthandler):
            yield statement
        for field in _COMPOUND:
            yield from _statements(getattr(statement, field, ()))


def _head(statement: ast.AST) -> range:
    """The lines of the statement without those of the statements in it."""
    first, last = statement.lineno, statement.end_lineno  # type: ignore[attr-defined]
    body = getattr(statement, "body", ()) or getattr(statement, "cases", ())
    inner = [statement for statement in body if isinstance(statement, ast.stmt)]
    return range(first, max(first + 1, inner[0].lineno) if inner else last + 1)


def _described(statement: ast.AST) -> str:
    text = ast.unparse(statement)
    return text.partition("\n")[0] if hasattr(statement, "body") else " ".join(text.split())


def _changes(statement: ast.stmt | ast.excepthandler) -> Iterator[str]:
    """The tree holds one change each time that this yields how the statement reads."""
    yield from _without(statement)
    for parent, field, place, node in _expressions(statement):
        negated = [ast.UnaryOp(ast.Not(), node)] if field in ("test", "ifs") and isinstance(node, _BARE) else []
        for other in (*negated, *_alternatives(node)):
            _put(parent, field, place, ast.fix_missing_locations(ast.copy_location(other, node)))
            yield _described(statement)
        _put(parent, field, place, node)


def _without(statement: ast.stmt | ast.excepthandler) -> Iterator[str]:
    """It is not there, or ends a loop in the other way."""
    other: type[ast.stmt]
    match statement:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Break() | ast.Continue():
            other = ast.Continue if isinstance(statement, ast.Break) else ast.Break
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Assert() | ast.Delete() | ast.Return(value=None):
            other = ast.Pass
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            other = ast.Pass
        case ast.Return() if not isinstance(statement.value, ast.Constant):
            value, statement.value = statement.value, ast.copy_location(ast.Constant(None), statement)
            yield _described(statement)
            statement.value = value
            return
        case ast.ExceptHandler():
            body, statement.body = statement.body, [ast.copy_location(ast.Raise(), statement.body[0])]
            yield f"{_described(statement)} raise"
            statement.body = body
            return
        case _:
            return
    text, fields = _described(statement), vars(statement)
    kept: type[ast.AST] = type(statement)
    missing = {name: fields.pop(name) for name in kept._fields if name in fields}
    statement.__class__ = other  # type: ignore[assignment]
    yield f"{_described(statement)}: {text}"
    statement.__class__ = kept  # type: ignore[assignment]
    fields.update(missing)


def _expressions(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Yield the expressions in the head of a statement, each with its place."""
    if isinstance(parent, ast.FunctionDef | ast.ClassDef) or (isinstance(parent, ast.Raise) or _words_an_error(parent)):
        return
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns") or (field in _COMPOUND and isinstance(value, list)):
            continue
        for place, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.expr | ast.comprehension | ast.keyword):
                if isinstance(node, ast.expr) and not _words_an_error(node):
                    yield parent, field, place, node
                yield from _expressions(node)


def _words_an_error(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error")
    )


def _put(parent: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[place] = node


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the replacements for an expression."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(other) for other in (value + 1, value - 1) if other >= 0)
        case ast.Compare(left=left, ops=[op], comparators=right):
            yield from (ast.Compare(left, [other()], right) for other in COMPARED[type(op)])
        case ast.Compare(left=left, ops=ops, comparators=right):
            for i, op in enumerate(ops):
                others = COMPARED[type(op)]
                yield from (ast.Compare(left, [*ops[:i], other(), *ops[i + 1 :]], right) for other in others)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in CALCULATED:
            yield ast.BinOp(left, CALCULATED[type(op)](), right)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step), ctx=context):
            if lower is not None:
                yield ast.Subscript(value, ast.Slice(None, upper, step), context)
            if upper is not None:
                yield ast.Subscript(value, ast.Slice(lower, None, step), context)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=named) if name in CALLED:
            function = ast.Name(CALLED[name], ast.Load())
            yield ast.Call(function, arguments, named if name != "sorted" else [])
        case ast.Call(func=function, args=arguments, keywords=named):
            for i, keyword in enumerate(named):
                if keyword.arg is not None:
                    yield ast.Call(function, arguments, [*named[:i], *named[i + 1 :]])
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _unfiltered(node)


def _unfiltered(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[ast.expr]:
    for i, loop in enumerate(node.generators):
        if loop.ifs:
            every = ast.comprehension(loop.target, loop.iter, [], loop.is_async)
            generators = [*node.generators[:i], every, *node.generators[i + 1 :]]
            yield type(node)(**{**dict(ast.iter_fields(node)), "generators": generators})
