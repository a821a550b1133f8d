# Everything a newcomer types. Each target installs what it needs by itself.
SHELL := bash
.DEFAULT_GOAL := help
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen

.PHONY: help demo demo-chain test check bench bench-spark simulate fork-fuzz seam synth cdk reference localstack localstack-stop localstack-status localstack-smoke format clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv

.venv/.synced: pyproject.toml uv.lock | $(filter .uv/%,$(UV))
	$(UV) sync --frozen --quiet
	@touch $@

demo: .venv/.synced ## Run a DAG, kill a worker in the middle of it; then edit a job, and roll back
	@$(RUN) python -m dags.demo

demo-chain: .venv/.synced ## Follow a real chain, backfill it, work on it with Spark, repair a reorg
	@$(RUN) python -m dags.demo_chain

test: check ## Check, then run every test
	$(RUN) pytest -n 2 --dist worksteal

check: .venv/.synced ## Lint, types, import rules
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports

bench: .venv/.synced ## Measure the task contract beside the bare limit and a peer
	$(UV) run --frozen --group bench python -m bench $(ARGS)

bench-spark: .venv/.synced ## Measure PySpark operators beside bare PySpark and DuckDB: ARGS="--only decode_logs --rows 500000"
	$(RUN) python -m bench.spark $(ARGS)

simulate: .venv/.synced ## Seeded faults under a virtual clock: SCHEDULES=1000 SEED=1, PLANTED=all or EXHAUSTIVE=1
	$(RUN) python -m tests.simulation --schedules $(or $(SCHEDULES),1000) --seed $(or $(SEED),1) $(if $(PLANTED),--planted $(PLANTED)) $(if $(EXHAUSTIVE),--exhaustive)

fork-fuzz: .venv/.synced ## Random reorgs of a real chain while it is followed and compacted, compared with a clean build: REORGS=200 SEED=1, or PLANTED=1
	$(RUN) python -m tests.chain.fork_fuzz --reorgs $(or $(REORGS),200) --seed $(or $(SEED),1) $(if $(PLANTED),--planted)

seam: .venv/.synced ## Backfill by Cryo below a follower at random blocks, compared with a clean build: POINTS=100 SEED=1
	$(RUN) python -m tests.chain.seam --points $(or $(POINTS),100) --seed $(or $(SEED),1)

synth: .venv/.synced ## Templates of every environment, with cdk-nag and cfn-lint; no credentials
	@$(RUN) python -m infra.synth

cdk: .venv/.synced ## The pinned CDK command line: ARGS='deploy -c environment=dev --all'
	@$(RUN) python -m infra.node $(ARGS)

reference: .venv/.synced ## Write the generated reference documents
	$(RUN) python -m trace_core.dag.json_schema > docs/reference/dag.schema.json
	$(RUN) python -m trace_core.dag.reference > docs/reference/dag_file.md
	$(RUN) python -m trace_cli.reference
	$(RUN) python -m trace_core.http.reference
	$(RUN) python -m infra.wildcards > docs/reference/wildcards.md

localstack: .venv/.synced ## Start an AWS emulator on this machine, without Docker: PORT=4566, or a free one
	@$(RUN) python -m infra.localstack start $(if $(PORT),--port $(PORT))

localstack-stop: .venv/.synced ## Stop it
	@$(RUN) python -m infra.localstack stop

localstack-status: .venv/.synced ## Does it run, and where?
	@$(RUN) python -m infra.localstack status

localstack-smoke: .venv/.synced ## Deploy to an emulator of its own, run the demo there, compare it with lite, destroy
	@$(RUN) python -m infra.smoke

format: .venv/.synced ## Format the code
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

clean: ## Remove what was installed and what the demo left behind
	rm -rf .venv .uv .trace .cdk cdk.out
