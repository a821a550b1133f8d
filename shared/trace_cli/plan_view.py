"""A plan for people: what changes, why, how much work it is, who is affected, what to type next."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trace_cli.output import printable
from trace_cli.plan_values import amount, change, duration, of_bytes
from trace_cli.plan_words import cut_over_lines, happens, readers, reason
from trace_core.dag.field_changes import Effect
from trace_core.deploy.plan_model import (
    Action,
    DatasetAction,
    Edit,
    JobPlan,
    Plan,
    SchemaChange,
)

_SIGNS = {
    Action.ADDED: ("+", "green"),
    Action.REMOVED: ("-", "red"),
    Action.CHANGED: ("~", "yellow"),
    Action.REUSED: ("*", "cyan"),
    Action.KEPT: ("=", "dim"),
}
_DATASET_SIGNS = {
    DatasetAction.PUBLISHED: ("+", "green"),
    DatasetAction.HIDDEN: ("-", "red"),
    DatasetAction.RENAMED: ("~", "yellow"),
    DatasetAction.CHANGED: ("~", "yellow"),
    DatasetAction.REBUILT: ("~", "yellow"),
}
_COUNTED = {
    Action.ADDED: "to add",
    Action.CHANGED: "to rebuild",
    Action.REUSED: "to take up again",
    Action.REMOVED: "to remove",
    Action.KEPT: "kept",
}
_MANY = 3
_LEGEND = "+ add   - remove   ~ rebuild   * take up again   = keep"


def show_plan(
    plan: Plan, out: Console, *, file: str, apply: str | None = "trace dag apply"
) -> None:
    """Print the plan; `apply` is the command that does what it says, where it is not done next."""
    _View(plan, out, file).show(f"{apply} {file}" if apply else None)


class _View:
    def __init__(self, plan: Plan, out: Console, file: str) -> None:
        self._plan = plan
        self._out = out
        self._file = file
        self._width = max((len(job.name) for job in plan.jobs), default=0)

    def show(self, command: str | None) -> None:
        plan = self._plan
        if plan.is_empty:
            self._line(
                Text.assemble(
                    (plan.dag, "bold"), f": version {plan.from_version} is what the file says."
                )
            )
            self._line("Nothing to do.")
            return
        self._header()
        self._jobs()
        self._estimate()
        self._sources()
        self._datasets()
        self._cut_over()
        self._warnings()
        self._next(command)

    def _header(self) -> None:
        plan = self._plan
        since = (
            f"version {plan.from_version} → new version" if plan.from_version else "first version"
        )
        self._line(Text.assemble((plan.dag, "bold"), f": {since} {plan.to_digest[:8]}"))
        counted = [
            f"{count} {words}"
            for action, words in _COUNTED.items()
            if (count := sum(job.action is action for job in plan.jobs))
        ]
        self._line(", ".join(counted))
        self._line(_LEGEND, style="dim")

    def _jobs(self) -> None:
        self._title("Jobs")
        shared = self._shared()
        for job in self._plan.jobs:
            own = [edit for edit in job.edits if _key(edit) not in shared]
            if job.action is not Action.KEPT or own:
                self._job(job, own)
        seen = {name for names in shared.values() for name in names}
        for edit in _first_of(self._plan.jobs, shared):
            names = shared[_key(edit)]
            every = len(names) == len(self._plan.jobs)
            self._line("every job" if every else ", ".join(names), indent=4, style="dim")
            self._edit(edit, indent=6)
        quiet = [
            job.name
            for job in self._plan.jobs
            if job.action is Action.KEPT and not job.edits and job.name not in seen
        ]
        if quiet:
            self._line(f"= {', '.join(quiet)}", indent=2, style="dim", hang=4)
        if self._plan.edits:
            self._title("The DAG itself")
            for edit in self._plan.edits:
                self._edit(edit, indent=2)

    def _shared(self) -> dict[str, list[str]]:
        """Edits of many jobs at once, which come from `defaults`: said once, not for each job."""
        found: dict[str, list[str]] = {}
        for job in self._plan.jobs:
            for edit in job.edits:
                if edit.effect is not Effect.DATA:
                    found.setdefault(_key(edit), []).append(job.name)
        return {key: names for key, names in found.items() if len(names) >= _MANY}

    def _job(self, job: JobPlan, edits: Sequence[Edit]) -> None:
        sign, style = _SIGNS[job.action]
        name = Text.assemble((f"{sign} {job.name:<{self._width}}", style), f"  {reason(job)}")
        self._line(name, indent=2, hang=self._width + 6)
        for edit in edits:
            self._edit(edit, indent=6)

    def _edit(self, edit: Edit, indent: int) -> None:
        why = (f"{edit.effect}{f', line {edit.line}' if edit.line else ''}", "dim")
        lines = change(edit.old, edit.new)
        in_one = Text.assemble((edit.field, "bold"), "  ", lines[0], "  ", why)
        if len(lines) == 1 and len(in_one) + indent <= self._out.width:
            self._line(in_one, indent=indent)
            return
        self._line(Text.assemble((edit.field, "bold"), "  ", why), indent=indent)
        for line in lines:
            style = {"-": "red", "+": "green"}.get(line[:1], "")
            self._line(line, indent=indent + 2, style=style, hang=indent + 4)

    def _estimate(self) -> None:
        total = self._plan.total
        if total is None:
            return
        self._title("Rebuild, estimated")
        table = Table(
            box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim", show_footer=True
        )
        table.add_column("Job", "Total", no_wrap=True)
        for head, figure, words in (
            ("Partitions", "partitions", amount(total.partitions)),
            ("Rows", "rows", amount(total.rows)),
            ("Bytes", "bytes", of_bytes(total.bytes)),
            ("Time", "seconds", duration(total.seconds)),
        ):
            least = "≥ " if figure in total.at_least else ""
            table.add_column(head, f"{least}{words}", justify="right", no_wrap=True)
        table.add_column("Basis", total.basis)
        for job in self._plan.jobs:
            if job.estimate is not None:
                each = job.estimate
                table.add_row(
                    job.name,
                    amount(each.partitions),
                    amount(each.rows),
                    of_bytes(each.bytes),
                    duration(each.seconds),
                    Text(each.basis, style="dim"),
                )
        self._print_table(table)

    def _sources(self) -> None:
        if self._plan.sources:
            self._title("Sources that begin anew")
            for source in self._plan.sources:
                self._line(f"~ {source.job} ({source.kind}): {source.past}", indent=2, hang=4)

    def _datasets(self) -> None:
        if not self._plan.datasets:
            return
        self._title("Published datasets")
        for dataset in self._plan.datasets:
            sign, style = _DATASET_SIGNS[dataset.action]
            self._line(
                Text.assemble(
                    (f"{sign} {dataset.name}", style), f"  {happens(dataset, self._plan)}"
                ),
                indent=2,
                hang=4,
            )
            for edit in dataset.edits:
                self._edit(edit, indent=6)
            for schema in dataset.schema:
                if schema.field != "name":
                    self._schema(schema)
            for line in readers(dataset):
                self._line(line, indent=6, style="dim", hang=8)

    def _schema(self, schema: SchemaChange) -> None:
        mark = ("compatible", "green") if schema.compatible else ("INCOMPATIBLE", "bold red")
        where = f"{self._file}:{schema.line}" if schema.line else ""
        values = change(schema.old, schema.new)
        shown = f"  {values[0]}  " if len(values) == 1 else "  "
        self._line(
            Text.assemble((schema.field, "bold"), shown, mark, (f"  {where}", "dim")), indent=6
        )
        for line in values if len(values) > 1 else ():
            self._line(line, indent=8, hang=10)
        self._line(schema.why, indent=8, style="dim", hang=8)
        if schema.breaks:
            self._line(f"breaks {', '.join(schema.breaks)}", indent=8, style="red", hang=10)
        if schema.may_break:
            names = ", ".join(schema.may_break)
            why = f"may break {names}: which columns they read is not known"
            self._line(why, indent=8, style="yellow", hang=10)

    def _cut_over(self) -> None:
        lines = list(cut_over_lines(self._plan))
        if lines:
            self._title("Cut over")
            for line in lines:
                self._line(line, indent=2, hang=4)

    def _warnings(self) -> None:
        if self._plan.warnings:
            self._title("Warnings")
            for warning in self._plan.warnings:
                self._line(f"! {warning}", indent=2, style="yellow", hang=4)

    def _next(self, command: str | None) -> None:
        plan = self._plan
        if plan.incompatible or command:
            self._out.print()
        if plan.incompatible:
            count = len(plan.incompatible)
            what = "1 change is" if count == 1 else f"{count} changes are"
            better = "give the dataset a new name, or bring its readers along first"
            self._line(f"{what} incompatible: {better}.", style="red")
        if command:
            self._line(Text.assemble("Next: ", (command, "bold")))

    def _title(self, words: str) -> None:
        self._out.print()
        self._line(Text(words, style="bold"))

    def _line(
        self, line: str | Text, *, indent: int = 0, style: str = "", hang: int | None = None
    ) -> None:
        """One line, or several when it is long: the rest stands under `hang`."""
        text = Text(printable(line), style=style) if isinstance(line, str) else line
        hang = indent if hang is None else hang
        indents = [indent, hang]
        for number, each in enumerate(_wrapped(text, *(self._out.width - n for n in indents))):
            self._out.print(Text(" " * indents[min(number, 1)]) + each, soft_wrap=True)

    def _print_table(self, table: Table) -> None:
        """Indented, and without the spaces that would fill the last column."""
        options = self._out.options.update(width=self._out.width - 2)
        for line in self._out.render_lines(table, options):
            text = Text.assemble("  ", *((part.text, part.style or "") for part in line))
            text.rstrip()
            self._out.print(text, soft_wrap=True)


def _wrapped(text: Text, first: int, rest: int) -> Iterator[Text]:
    """Cut at spaces; the first line may be longer than the others."""
    width = first
    while len(text) > width:
        cut = text.plain.rfind(" ", 1, width + 1)
        line, text = text[: cut if cut > 0 else width], text[cut if cut > 0 else width :]
        line.rstrip()
        yield line
        text = text[len(text) - len(text.plain.lstrip()) :]
        width = rest
    yield text


def _key(edit: Edit) -> str:
    return f"{edit.field} {edit.old!r} {edit.new!r}"


def _first_of(jobs: Sequence[JobPlan], keys: Collection[str]) -> Iterator[Edit]:
    """One edit for each key."""
    left = set(keys)
    for job in jobs:
        for edit in job.edits:
            if _key(edit) in left:
                left.remove(_key(edit))
                yield edit
