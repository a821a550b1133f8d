"""Where each box of a drawn graph goes: layers from top to bottom, few crossings, short lines.

A line that passes a layer gets a place of its own there (a `Via`), so lines never cross boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

GAP = 3
_SWEEPS = 8


@dataclass(eq=False)
class Box:
    """Text in a frame."""

    key: str
    lines: list[str]
    width: int
    layer: int = 0
    left: int = 0
    rounded: bool = False

    @property
    def height(self) -> int:
        return len(self.lines) + 2

    @property
    def middle(self) -> float:
        return self.left + (self.width - 1) / 2


@dataclass(eq=False)
class Via:
    """A line on its way through a layer."""

    layer: int
    left: int = 0
    width: int = 1

    @property
    def middle(self) -> float:
        return self.left


Place = Box | Via


@dataclass(eq=False)
class Net:
    """One output and all its readers: drawn as one line that branches."""

    origin: Box
    output: int
    readers: dict[str, bool] = field(default_factory=dict)
    """Reader -> whether this line triggers it."""
    vias: dict[int, Via] = field(default_factory=dict)


@dataclass
class Layout:
    layers: list[list[Place]]
    nets: list[Net]
    boxes: dict[str, Box]

    @property
    def width(self) -> int:
        return max(place.left + place.width for layer in self.layers for place in layer)

    def below(self, net: Net, layer: int) -> list[Place]:
        """What a net reaches in the layer after `layer`."""
        reached: list[Place] = [
            self.boxes[reader] for reader in net.readers if self.boxes[reader].layer == layer + 1
        ]
        via = net.vias.get(layer + 1)
        return [*reached, via] if via else reached

    def above(self, net: Net, layer: int) -> Place | None:
        """Where a net comes from in `layer`."""
        return net.origin if net.origin.layer == layer else net.vias.get(layer)


def lay_out(boxes: Sequence[Box], nets: Sequence[Net], limit: int) -> Layout | None:
    """Place all boxes within `limit` columns; nothing when they do not fit."""
    by_key = {box.key: box for box in boxes}
    _assign_layers(by_key, nets)
    layers: list[list[Place]] = [[] for _ in range(1 + max(box.layer for box in boxes))]
    for box in boxes:
        layers[box.layer].append(box)
    for net in nets:
        last = max(by_key[reader].layer for reader in net.readers)
        for number in range(net.origin.layer + 1, last):
            net.vias[number] = Via(number)
            layers[number].append(net.vias[number])
    if any(_tight_width(layer) > limit for layer in layers):
        return None
    layout = Layout(layers, list(nets), by_key)
    _reorder(layout)
    _align(layout)
    if layout.width > limit:
        for layer in layout.layers:
            _pack(layer)
    return layout


def _assign_layers(boxes: dict[str, Box], nets: Sequence[Net]) -> None:
    """One below the lowest producer; what has no producer stands just above its first reader."""
    inputs: dict[str, int] = dict.fromkeys(boxes, 0)
    for net in nets:
        for reader in net.readers:
            inputs[reader] += 1
    roots = [key for key, count in inputs.items() if count == 0]
    ready = list(roots)
    outgoing: dict[str, list[str]] = {key: [] for key in boxes}
    for net in nets:
        outgoing[net.origin.key].extend(net.readers)
    while ready:
        key = ready.pop()
        for reader in outgoing[key]:
            boxes[reader].layer = max(boxes[reader].layer, boxes[key].layer + 1)
            inputs[reader] -= 1
            if inputs[reader] == 0:
                ready.append(reader)
    for key in roots:
        if outgoing[key]:
            boxes[key].layer = min(boxes[reader].layer for reader in outgoing[key]) - 1


def _tight_width(layer: Sequence[Place]) -> int:
    return sum(place.width for place in layer) + GAP * (len(layer) - 1)


def _neighbours(layout: Layout) -> tuple[dict[int, list[Place]], dict[int, list[Place]]]:
    """For each place (by id) what is linked to it in the layer above and below."""
    up: dict[int, list[Place]] = {id(place): [] for layer in layout.layers for place in layer}
    down: dict[int, list[Place]] = {key: [] for key in up}
    for net in layout.nets:
        for layer in range(len(layout.layers) - 1):
            upper = layout.above(net, layer)
            for lower in layout.below(net, layer) if upper else ():
                if upper:
                    down[id(upper)].append(lower)
                    up[id(lower)].append(upper)
    return up, down


def _reorder(layout: Layout) -> None:
    """Sort each layer by the mean place of its neighbours, and keep the best order seen."""
    up, down = _neighbours(layout)
    best, best_crossings = [list(layer) for layer in layout.layers], _crossings(layout, down)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        linked = up if downwards else down
        for layer in layout.layers if downwards else reversed(layout.layers):
            place_of = {id(each): index for row in layout.layers for index, each in enumerate(row)}
            keyed = [
                (_mean_place([place_of[id(other)] for other in linked[id(each)]], index), index)
                for index, each in enumerate(layer)
            ]
            layer[:] = [layer[index] for _, index in sorted(keyed)]
        crossings = _crossings(layout, down)
        if crossings < best_crossings:
            best, best_crossings = [list(layer) for layer in layout.layers], crossings
    for layer, order in zip(layout.layers, best, strict=True):
        layer[:] = order


def _mean_place(places: Sequence[int], own: int) -> float:
    return sum(places) / len(places) if places else float(own)


def _crossings(layout: Layout, down: dict[int, list[Place]]) -> int:
    count = 0
    for upper, lower in zip(layout.layers, layout.layers[1:], strict=False):
        place_of = {id(each): index for index, each in enumerate(lower)}
        links = [
            (index, place_of[id(other)])
            for index, each in enumerate(upper)
            for other in down[id(each)]
        ]
        count += sum(
            (a - c) * (b - d) < 0 for at, (a, b) in enumerate(links) for c, d in links[at + 1 :]
        )
    return count


def _pack(layer: Sequence[Place]) -> None:
    left = 0
    for place in layer:
        place.left = left
        left += place.width + GAP


def _align(layout: Layout) -> None:
    """Move each place towards its neighbours as far as the order in the layer allows."""
    up, down = _neighbours(layout)
    for layer in layout.layers:
        _pack(layer)
    for sweep in range(_SWEEPS):
        linked = (up, down)[sweep % 2]
        for layer in layout.layers if sweep % 2 == 0 else reversed(layout.layers):
            wanted = [_wanted(place, linked[id(place)]) for place in layer]
            lefts = spread(wanted, [place.width + GAP for place in layer])
            for place, left in zip(layer, lefts, strict=True):
                place.left = left
    first = min(place.left for layer in layout.layers for place in layer)
    for layer in layout.layers:
        for place in layer:
            place.left -= first


def _wanted(place: Place, around: Iterable[Place]) -> float:
    middles = [other.middle for other in around]
    if not middles:
        return float(place.left)
    return sum(middles) / len(middles) - (place.width - 1) / 2


def spread(wanted: Sequence[float], room: Sequence[int]) -> list[int]:
    """The places nearest to `wanted` at which each keeps `room` before the next one.

    Least squares under an order: neighbours that collide move together (pool adjacent violators).
    """
    offsets = [sum(room[:index]) for index in range(len(room))]
    groups: list[list[float]] = []  # sum, count
    for want, offset in zip(wanted, offsets, strict=True):
        groups.append([want - offset, 1])
        while len(groups) > 1 and _mean(groups[-2]) > _mean(groups[-1]):
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    bases = [_mean(group) for group in groups for _ in range(int(group[1]))]
    return [round(base) + offset for base, offset in zip(bases, offsets, strict=True)]


def _mean(group: list[float]) -> float:
    return group[0] / group[1]


def components(boxes: Sequence[Box], nets: Sequence[Net]) -> list[tuple[list[Box], list[Net]]]:
    """The parts of the graph that no line connects, each in the given order."""
    parent = {box.key: box.key for box in boxes}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for net in nets:
        for reader in net.readers:
            parent[root(reader)] = root(net.origin.key)
    parts: dict[str, tuple[list[Box], list[Net]]] = {}
    for box in boxes:
        parts.setdefault(root(box.key), ([], []))[0].append(box)
    for net in nets:
        parts[root(net.origin.key)][1].append(net)
    return list(parts.values())
