"""What a function sees: its code, its layers, its variables, and a scratch folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SITE_PACKAGES = Path("python", "lib", "python3.11", "site-packages")


@dataclass(frozen=True)
class Sandbox:
    code: Path
    layers: Sequence[Path]
    """In the order of the function's configuration: a later one hides an earlier one."""
    scratch: Path

    def environment(self, given: Mapping[str, object], runtime_api: str) -> dict[str, str]:
        """The variables of a Lambda function, with real folders in place of the usual ones."""
        variables = {name: str(value) for name, value in given.items()}
        return {
            "LANG": "en_US.UTF-8",
            "HOME": str(self.scratch),
            "TMPDIR": str(self.scratch),
            **variables,
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.11",
            "AWS_LAMBDA_RUNTIME_API": runtime_api,
            "LAMBDA_TASK_ROOT": str(self.code),
            "PATH": _joined(self._in_layers("bin"), variables.get("PATH", os.defpath)),
            "LD_LIBRARY_PATH": _joined(self._libraries(), variables.get("LD_LIBRARY_PATH")),
            "PYTHONPATH": _joined(self._python_path(), variables.get("PYTHONPATH")),
        }

    def _python_path(self) -> Iterator[Path]:
        yield self.code
        for layer in reversed(self.layers):
            yield from filter(Path.is_dir, (layer / _SITE_PACKAGES, layer / "python"))

    def _libraries(self) -> Iterator[Path]:
        yield self.code
        yield self.code / "lib"
        yield from self._in_layers("lib")

    def _in_layers(self, name: str) -> Iterator[Path]:
        return (layer / name for layer in reversed(self.layers) if (layer / name).is_dir())


def _joined(folders: Iterator[Path], more: str | None) -> str:
    return os.pathsep.join([*map(str, folders), *([more] if more else [])])
