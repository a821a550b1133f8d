"""What `trace dag apply` is given: a DAG file, or a plan that was kept together with its file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from trace_core.http.deploy_answers import Planned
from trace_core.kernel.errors import Invalid

_FORMAT = "trace plan 1"


@dataclass(frozen=True)
class Given:
    text: str
    filename: str
    digest: str | None = None
    """Of the kept plan, and the state that it was made on."""
    state_token: str | None = None

    def is_still(self, planned: Planned) -> bool:
        """A kept plan is what would be planned now; a file has nothing to differ from."""
        if self.digest is None:
            return True
        return (self.digest, self.state_token) == (planned.digest, planned.state_token)


def read(path: Path) -> Given:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8 text.") from error
    # A DAG file is YAML, and so is JSON; only ours says that it is a plan.
    if not text.startswith("{") or _FORMAT not in text:
        return Given(text, str(path)[-500:])
    try:
        kept = json.loads(text)
        plan = kept["plan"]
        return Given(kept["text"], kept["filename"], plan["digest"], plan["state_token"])
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(f"{path} is a plan that somebody has changed; plan again.") from error


def write(path: Path, given: Given, planned: Planned) -> None:
    """The plan, for eyes and programs, and the file that it is about."""
    content = {
        "format": _FORMAT,
        "filename": given.filename,
        "text": given.text,
        "plan": planned.model_dump(mode="json"),
    }
    try:
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}.") from error
