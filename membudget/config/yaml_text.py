"""YAML text -> plain values with the position of each; what two readers may read differently is refused.

Read from parser events instead of composed nodes, so that depth, aliases and size are bounded while reading
and no input recurses deeper than MAX_DEPTH.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from membudget.config.scalars import ScalarError, resolve
from membudget.config.source import Source, printable
from membudget.config.syntax import syntax_problem
from membudget.errors import ConfigError, Problem

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 50
MAX_ALIASES = 100
MAX_NODES = 20_000
"""Keys and values of a file, aliases written out."""

Path: TypeAlias = tuple[str | int, ...]
Position: TypeAlias = tuple[int, int]

UNREADABLE = object()
"""Stands where a value was refused: no field accepts it, and errors about it are not reported again."""

_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_CONFLICT = re.compile(r"^<<<<<<< ", re.MULTILINE)


@dataclass
class Document:
    """What a file says. Paths are as ("loss", "kl", "chunk") or ("hardware", "groups", 0, "role")."""

    data: Any = None
    keys: dict[Path, Position] = field(default_factory=dict)
    """Where each key stands; for an item of a list, where the item begins."""
    values: dict[Path, Position] = field(default_factory=dict)
    """Where each value begins."""
    empty: list[Path] = field(default_factory=list)
    """Keys with nothing written after them."""
    refused: set[Path] = field(default_factory=set)
    """What already has a problem."""
    problems: list[Problem] = field(default_factory=list)


@dataclass(slots=True)
class _Node:
    position: Position
    content: str | list[_Node] | list[tuple[_Node, _Node]]
    kind: str
    """plain, quoted, list or keys."""
    tag: str | None = None
    size: int = 1
    """Nodes in it, itself included and aliases written out."""
    height: int = 1


def read_yaml(source: Source) -> Document:
    """The values of a text, and its problems. Raises ConfigError where reading cannot go on."""
    _check_characters(source)
    node = _Builder(source).document()
    document = Document()
    if node is not None:
        _Converter(source, document).convert(node, ())
    return document


def _check_characters(source: Source) -> None:
    if conflict := _CONFLICT.search(source.text):
        message = "a merge conflict is left in this file; keep one of its two sides"
        raise ConfigError([source.problem(source.position(conflict.start()), message)])
    if forbidden := _FORBIDDEN.search(source.text):
        message = f"the invisible character U+{ord(forbidden[0]):04X} is not allowed; delete it"
        raise ConfigError([source.problem(source.position(forbidden.start()), message)])


def _events(source: Source) -> Iterator[yaml.Event]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(source.text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([syntax_problem(source, error)]) from error


class _Builder:
    """Events -> nodes. Aliases share the node of their anchor."""

    def __init__(self, source: Source) -> None:
        import yaml

        self.yaml = yaml
        self.source = source
        self.events = _events(source)
        self.anchors: dict[str, _Node | None] = {}
        self.num_aliases = 0
        self.num_nodes = 0

    def document(self) -> _Node | None:
        """The only document of the stream; None when it holds nothing."""
        root = None
        num_documents = 0
        for event in self.events:
            if isinstance(event, self.yaml.DocumentStartEvent):
                num_documents += 1
                if num_documents == 2:
                    raise self._stop(event, "a second document begins here; a file holds one configuration")
            elif isinstance(event, self.yaml.NodeEvent):
                root = self._node(event, 1)
        if root is not None and root.kind == "plain" and root.content == "":
            return None
        return root

    def _node(self, event: yaml.Event, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise self._stop(event, f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, self.yaml.AliasEvent):
            return self._alias(event, depth)
        self._count(event, 1)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self.anchors[anchor] = None  # until it is complete
        node = self._content(event, depth)
        if anchor is not None:
            self.anchors[anchor] = node
        return node

    def _content(self, event: yaml.Event, depth: int) -> _Node:
        position, tag = _position(event), getattr(event, "tag", None)
        if isinstance(event, self.yaml.ScalarEvent):
            return _Node(position, event.value, "quoted" if event.style else "plain", tag)
        children: list[_Node] = []
        ends = (self.yaml.SequenceEndEvent, self.yaml.MappingEndEvent)
        while not isinstance(child := next(self.events), ends):
            children.append(self._node(child, depth + 1))
        size = 1 + sum(node.size for node in children)
        height = 1 + max((node.height for node in children), default=0)
        if isinstance(event, self.yaml.SequenceStartEvent):
            return _Node(position, children, "list", tag, size, height)
        pairs = list(zip(children[::2], children[1::2], strict=True))
        return _Node(position, pairs, "keys", tag, size, height)

    def _alias(self, event: yaml.Event, depth: int) -> _Node:
        name = str(getattr(event, "anchor", ""))
        shown = printable(name)
        self.num_aliases += 1
        if self.num_aliases > MAX_ALIASES:
            raise self._stop(event, f"more than {MAX_ALIASES} aliases")
        if name not in self.anchors:
            raise self._stop(event, f"the alias *{shown} has no anchor &{shown} before it")
        node = self.anchors[name]
        if node is None:
            raise self._stop(event, f"the alias *{shown} stands inside its own anchor")
        if depth + node.height - 1 > MAX_DEPTH:
            raise self._stop(event, f"nested more than {MAX_DEPTH} deep, aliases written out")
        self._count(event, node.size)
        return node

    def _count(self, event: yaml.Event, size: int) -> None:
        self.num_nodes += size
        if self.num_nodes > MAX_NODES:
            raise self._stop(event, f"more than {MAX_NODES:,} keys and values; is this a configuration?")

    def _stop(self, event: yaml.Event, message: str) -> ConfigError:
        return ConfigError([self.source.problem(_position(event), message)])


def _position(event: yaml.Event) -> Position:
    mark: Any = event.start_mark
    return mark.line + 1, mark.column + 1


class _Converter:
    """Nodes -> plain values, filling in the rest of the document."""

    def __init__(self, source: Source, document: Document) -> None:
        self.source = source
        self.document = document

    def convert(self, node: _Node, path: Path) -> None:
        self.document.data = self._value(node, path)

    def _value(self, node: _Node, path: Path) -> object:
        self.document.values[path] = node.position
        if node.tag is not None:
            return self._refuse(node, path, f"the tag {_tag_text(node.tag)} is not read; remove it")
        if isinstance(node.content, str):
            return self._scalar(node, node.content, path)
        if node.kind == "keys":
            return self._mapping(node, path)
        items: list[object] = []
        for index, item in enumerate(node.content):
            assert isinstance(item, _Node)
            self.document.keys[(*path, index)] = item.position
            items.append(self._value(item, (*path, index)))
        return items

    def _scalar(self, node: _Node, text: str, path: Path) -> object:
        if node.kind == "quoted":
            return text
        if text == "":
            self.document.empty.append(path)
            return UNREADABLE
        try:
            return resolve(text)
        except ScalarError as error:
            return self._refuse(node, path, str(error))

    def _mapping(self, node: _Node, path: Path) -> dict[str, object]:
        values: dict[str, object] = {}
        for pair in node.content:
            assert isinstance(pair, tuple)
            key, value = pair
            name = self._key(key, path)
            if name is None:
                continue
            if name in values:
                first = self.document.keys[(*path, name)][0]
                message = f'the key "{printable(name)}" is given twice, first on line {first}; keep one'
                self.document.problems.append(self.source.problem(key.position, message))
                continue
            self.document.keys[(*path, name)] = key.position
            values[name] = self._value(value, (*path, name))
        return values

    def _key(self, key: _Node, path: Path) -> str | None:
        """The key's text as written; None, after reporting it, when it is none."""
        if key.kind == "plain" and key.content == "<<":
            # What the merge would have brought is unknown, so nothing else is said about this section.
            self._refuse(key, path, "merge keys (<<) are not read; write the keys out")
            return None
        if isinstance(key.content, str) and key.tag is None:
            return key.content
        self._refuse(key, path, "a key must be a word without a tag")
        return None

    def _refuse(self, node: _Node, path: Path, message: str) -> object:
        self.document.refused.add(path)
        self.document.problems.append(self.source.problem(node.position, message))
        return UNREADABLE


def _tag_text(tag: str) -> str:
    return printable(tag.replace("tag:yaml.org,2002:", "!!"))
