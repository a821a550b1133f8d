"""A DAG as boxes and lines for a terminal; as an indented tree where boxes would be too wide."""

from __future__ import annotations

from trace_core.dag.canvas import Canvas
from trace_core.dag.graph import feeds_of, order
from trace_core.dag.layers import Box, Layout, Net, Place, components, lay_out
from trace_core.dag.model import Dag, Job

WIDTH = 100

_LEGEND = "▼ triggers   ▽ read at its pin   0 1 2 outputs   » published   ╭╮ dataset from elsewhere"


def draw(dag: Dag, width: int = WIDTH) -> str:
    """The graph in at most `width` columns where possible."""
    boxes, nets = _boxes_and_nets(dag)
    pictures = []
    for part_boxes, part_nets in components(boxes, nets):
        layout = lay_out(part_boxes, part_nets, width)
        picture = _picture(layout) if layout else None
        if picture is None:
            return f"{_tree(dag)}\n\n{_summary(dag)}"
        pictures.append(picture)
    return "\n\n".join([*pictures, _LEGEND, _summary(dag)])


def _boxes_and_nets(dag: Dag) -> tuple[list[Box], list[Net]]:
    published: dict[str, list[str]] = {job.name: [] for job in dag.jobs}
    for publication in dag.publications:
        for part in publication.parts:
            label = f"» {publication.name}"
            if label not in published[part.job]:
                published[part.job].append(label)
    boxes: dict[str, Box] = {}
    for dataset, _, _ in dag.external_datasets():
        lines = [dataset, "dataset"]
        boxes[f"dataset {dataset}"] = Box(f"dataset {dataset}", lines, 0, rounded=True)
    for job in dag.jobs:
        boxes[job.name] = Box(job.name, [*_labels(job), *published[job.name]], 0)
    nets: dict[tuple[str, int], Net] = {}

    def link(origin: str, output: int, reader: str, trigger: bool) -> None:
        net = nets.setdefault((origin, output), Net(boxes[origin], output))
        net.readers[reader] = net.readers.get(reader, False) or trigger

    for edge in dag.edges():
        link(edge.origin.job, edge.origin.output, edge.job, edge.trigger)
    for dataset, reader, trigger in dag.external_datasets():
        link(f"dataset {dataset}", 0, reader, trigger)
    for box in boxes.values():
        leaving = sum(net.origin is box for net in nets.values())
        entering = sum(box.key in net.readers for net in nets.values())
        # Room for every line at its own column, with a space between.
        box.width = max(*(len(line) + 4 for line in box.lines), 3 * leaving + 3, 2 * entering + 5)
    return list(boxes.values()), list(nets.values())


def _labels(job: Job) -> list[str]:
    code = job.operator or (f"udf {job.udf.entrypoint}" if job.udf else "")
    pool = f" · pool {job.worker_pool}" if job.worker_pool else ""
    return [job.name, code, f"{job.runtime}{pool}"]


def _picture(layout: Layout) -> str | None:
    canvas = Canvas()
    # Columns where each net leaves each layer, and where it enters each place of the next.
    leaving = _leaving_columns(layout)
    row = 0
    for number, layer in enumerate(layout.layers):
        height = max((place.height for place in layer if isinstance(place, Box)), default=1)
        for place in layer:
            if isinstance(place, Box):
                canvas.box(row, place)
        for index, net in enumerate(layout.nets):
            column = leaving.get((index, number))
            above = layout.above(net, number)
            if column is None or above is None:
                continue
            start = row
            if isinstance(above, Box):
                start = row + above.height
                several = sum(other.origin is above for other in layout.nets) > 1
                show = above.key in layout.boxes and not above.rounded and (several or net.output)
                canvas.port(start - 1, column, str(net.output) if show else "┬")
            canvas.vertical(index, column, start, row + height)
        row += height
        rows = _draw_gap(canvas, layout, number, row, leaving)
        if rows is None:
            return None
        row += rows
    return canvas.text()


def _leaving_columns(layout: Layout) -> dict[tuple[int, int], int]:
    columns: dict[tuple[int, int], int] = {}
    for number in range(len(layout.layers)):
        for place in layout.layers[number]:
            here = [
                (index, net)
                for index, net in enumerate(layout.nets)
                if layout.above(net, number) is place and layout.below(net, number)
            ]
            if not isinstance(place, Box):
                columns.update({(index, number): place.left for index, _ in here})
                continue
            targets = {index: _target(layout, net, number) for index, net in here}
            for at, index in enumerate(sorted(targets, key=targets.__getitem__)):
                step = place.width / (len(here) + 1)
                columns[index, number] = place.left + int(step * (at + 1))
    return columns


def _target(layout: Layout, net: Net, number: int) -> float:
    middles = [place.middle for place in layout.below(net, number)]
    return sum(middles) / len(middles)


def _draw_gap(
    canvas: Canvas, layout: Layout, number: int, row: int, leaving: dict[tuple[int, int], int]
) -> int | None:
    """The lines between two layers; gives the rows they took, or nothing if they would touch."""
    if number + 1 == len(layout.layers):
        return 0
    upper = {
        index: leaving[index, number]
        for index in range(len(layout.nets))
        if (index, number) in leaving
    }
    lower: dict[int, list[tuple[int, Place]]] = {index: [] for index in upper}
    for place in layout.layers[number + 1]:
        entering = [index for index in upper if place in layout.below(layout.nets[index], number)]
        columns = _entering_columns(place, entering, upper)
        if columns is None:
            return None
        for index, column in columns.items():
            lower[index].append((column, place))
    tracks = _tracks(upper, {index: [c for c, _ in ends] for index, ends in lower.items()})
    if tracks is None:
        return None
    last = row + 1 + max(tracks.values(), default=-1)
    for index, column in upper.items():
        track = row + tracks[index] if index in tracks else row
        canvas.vertical(index, column, row - 1, track, open_top=True)
        ends = [each for each, _ in lower[index]]
        canvas.horizontal(index, track, min([column, *ends]), max([column, *ends]))
        for end, place in lower[index]:
            canvas.vertical(index, end, track, last + 1)
            if isinstance(place, Box):
                trigger = layout.nets[index].readers[place.key]
                canvas.arrow(last, end, "▼" if trigger else "▽")
    return last - row + 1


def _entering_columns(
    place: Place, entering: list[int], upper: dict[int, int]
) -> dict[int, int] | None:
    """A column of its own for each line that enters, straight below where it left if possible."""
    if not isinstance(place, Box):
        return dict.fromkeys(entering, place.left)
    first, last = place.left + 1, place.left + place.width - 2
    taken: dict[int, int] = {}
    for index in sorted(entering, key=lambda each: upper[each]):
        # Under another line's start this line would run into it.
        blocked = {column for other, column in upper.items() if other != index}
        free = [
            column
            for column in range(first, last + 1)
            if column not in blocked and all(abs(column - other) >= 2 for other in taken.values())
        ]
        if not free:
            return None
        goal = upper[index] if first <= upper[index] <= last else round(place.middle)
        taken[index] = _nearest(goal, free)
    # Lines from the left enter on the left: sorting both keeps them from crossing at the box.
    ordered = sorted(taken.values())
    return dict(zip(sorted(entering, key=lambda each: upper[each]), ordered, strict=True))


def _nearest(goal: int, columns: list[int]) -> int:
    return min(columns, key=lambda column: abs(column - goal))


def _tracks(upper: dict[int, int], lower: dict[int, list[int]]) -> dict[int, int] | None:
    """The row of each line's horizontal part; straight lines need none.

    A line that starts in the column where another one ends must turn above it.
    """
    bent = {index for index in upper if lower[index] != [upper[index]]}
    above: dict[int, set[int]] = {index: set() for index in bent}
    for index in bent:
        for other in bent:
            if other != index and upper[other] in lower[index]:
                above[index].add(other)
    tracks: dict[int, int] = {}
    spans: list[list[tuple[int, int]]] = []
    waiting = sorted(bent, key=lambda index: upper[index])
    while waiting:
        ready = [each for each in waiting if above[each] <= tracks.keys()]
        if not ready:
            return None
        index = ready[0]
        waiting.remove(index)
        ends = [upper[index], *lower[index]]
        span = (min(ends), max(ends))
        track = 1 + max((tracks[other] for other in above[index]), default=-1)
        while track < len(spans) and any(
            span[0] <= right + 1 and left - 1 <= span[1] for left, right in spans[track]
        ):
            track += 1
        while track >= len(spans):
            spans.append([])
        spans[track].append(span)
        tracks[index] = track
    return tracks


def _tree(dag: Dag) -> str:
    """Each job once in full, under the first job that feeds it."""
    feeds = feeds_of(dag)
    fed = {reader for readers in feeds.values() for reader in readers}
    external: dict[str, list[str]] = {}
    for dataset, reader, _ in dag.external_datasets():
        external.setdefault(reader, []).append(dataset)
    lines: list[str] = []
    shown: set[str] = set()
    stack = [(job.name, "", "") for job in reversed(order(dag)) if job.name not in fed]
    while stack:
        name, lead, below = stack.pop()
        job = dag.job(name)
        text = f"{name}  ({', '.join(_labels(job)[1:])})"
        if name in external:
            text += f"  ← {', '.join(external[name])}"
        if name in shown:
            lines.append(f"{lead}{name}  (see above)")
            continue
        shown.add(name)
        lines.append(f"{lead}{text}")
        readers = feeds[name]
        for index in reversed(range(len(readers))):
            last = index == len(readers) - 1
            stack.append(
                (
                    readers[index],
                    f"{below}{'└─ ' if last else '├─ '}",
                    f"{below}{'   ' if last else '│  '}",
                )
            )
    return "\n".join(lines)


def _summary(dag: Dag) -> str:
    lines = []
    for pool in dag.worker_pools:
        users = [job.name for job in dag.jobs if job.worker_pool == pool.name]
        slots = f"{len(pool.slots)} slot{'' if len(pool.slots) == 1 else 's'}"
        lines.append(f"pool {pool.name}: {slots}, used by {', '.join(users) or 'no job'}")
    for publication in dag.publications:
        parts = ", ".join(str(part) for part in publication.parts)
        lines.append(f"published {publication.name}: {parts}")
    edges = sum(1 for _ in dag.edges())
    lines.append(f"{len(dag.jobs)} jobs, {edges} edges, {len(dag.publications)} publications")
    return "\n".join(lines)
