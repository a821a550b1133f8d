"""Settings: read from variables, frozen, and silent about secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from trace_core.kernel.errors import Invalid
from trace_core.settings import Settings, variable


def test_the_defaults_are_the_lite_profile_in_the_current_folder() -> None:
    settings = Settings.from_env({})
    assert (settings.profile, settings.home) == ("lite", Path(".trace"))
    assert settings.internal_address == f"http://127.0.0.1:{settings.internal_port}"


def test_variables_are_read_and_others_ignored() -> None:
    settings = Settings.from_env(
        {
            "TRACE_HOME": "/srv/trace",
            "TRACE_OPERATOR_MODULES": "a.b, ./own.py ,",
            "TRACE_USER_PORT": "0",
            "TRACE_ORG": "",
            "TRACE_MUTATIONS": "5",
        }
    )
    assert settings.operator_modules == ("a.b", "./own.py")
    assert (settings.user_port, settings.org) == (0, "local")


def test_a_wrong_value_is_named_by_its_variable_and_not_shown() -> None:
    with pytest.raises(Invalid, match="TRACE_USER_PORT") as refused:
        Settings.from_env({"TRACE_USER_PORT": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_secrets_do_not_show_in_the_representation() -> None:
    settings = Settings.from_env({"TRACE_STATE_DSN": "postgresql://u:hunter2@h/d"})
    assert "hunter2" not in repr(settings)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().org = "other"  # type: ignore[misc]


def test_every_variable_has_a_description() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, variable(name)
