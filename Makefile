# Everything a newcomer types. Each target installs what it needs by itself.
SHELL := bash
.DEFAULT_GOAL := help
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen

.PHONY: help demo test check bench simulate reference format clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv

.venv/.synced: pyproject.toml uv.lock | $(filter .uv/%,$(UV))
	$(UV) sync --frozen --quiet
	@touch $@

demo: .venv/.synced ## Run a DAG, kill a worker in the middle of it, and watch it complete
	@$(RUN) python -m dags.demo

test: check ## Check, then run every test
	$(RUN) pytest -n 2

check: .venv/.synced ## Lint, types, import rules
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports

bench: .venv/.synced ## Measure the task contract beside the bare limit and a peer
	$(UV) run --frozen --group bench python -m bench $(ARGS)

simulate: .venv/.synced ## Seeded faults under a virtual clock: SCHEDULES=1000 SEED=1, PLANTED=all or EXHAUSTIVE=1
	$(RUN) python -m tests.simulation --schedules $(or $(SCHEDULES),1000) --seed $(or $(SEED),1) $(if $(PLANTED),--planted $(PLANTED)) $(if $(EXHAUSTIVE),--exhaustive)

reference: .venv/.synced ## Write the generated reference documents
	$(RUN) python -m trace_core.dag.json_schema > docs/reference/dag.schema.json
	$(RUN) python -m trace_core.dag.reference > docs/reference/dag_file.md
	$(RUN) python -m trace_cli.reference

format: .venv/.synced ## Format the code
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

clean: ## Remove what was installed and what the demo left behind
	rm -rf .venv .uv .trace
