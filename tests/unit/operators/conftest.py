from __future__ import annotations

from hypothesis import settings

# A busy machine makes one example slow now and then; that says nothing about the operators.
settings.register_profile("operators", deadline=None)
settings.load_profile("operators")
