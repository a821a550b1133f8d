"""Named edits of the file `market.dag.yaml`, each with exactly the jobs that it rebuilds.

Comments say why where one could decide otherwise.
"""

from __future__ import annotations

from tests.unit.deploy.market import TEXT

Edits = tuple[tuple[str, str], ...]

ALL_BEHIND = "volumes senders report mail"
"""What is behind `transfers`."""
PUBLISH_VOLUMES = TEXT[TEXT.index("  volumes:\n") : TEXT.index("  whale_events:\n")]


def sql_job(name: str, reads: str) -> str:
    """Another job like `senders`."""
    senders = TEXT[TEXT.index("  - name: senders\n") : TEXT.index("  - name: report\n")]
    return senders.replace("name: senders", f"name: {name}").replace("transfers", reads)


# The same thing, written another way: there is nothing to do.
SAME: dict[str, Edits] = {
    "comment added": (("version: 1\n", "version: 1  # of the grammar\n"),),
    "comment removed": (("# this DAG's own, by its published name", ""),),
    "key order": (("{ job: chunks, output: 0 }", "{ output: 0, job: chunks }"),),
    "key order of a job": (
        (
            "    runtime: dispatcher\n    operator: trigger_cron\n",
            "    operator: trigger_cron\n    runtime: dispatcher\n",
        ),
    ),
    "key order of a config": (
        (
            "{ chain_id: 10143, start_block: 1000000 }",
            "{ start_block: 1000000, chain_id: 10143 }",
        ),
    ),
    "key order of a filter": (
        ('{ topic0: "0xddf252ad", removed: false }', '{ removed: false, topic0: "0xddf252ad" }'),
    ),
    # A table keeps the order it was made with, so another order has nothing to do.
    "key order of columns": (
        (
            "        sender: text\n        label: text\n",
            "        label: text\n        sender: text\n",
        ),
    ),
    "key order of publications": (
        (
            PUBLISH_VOLUMES,
            "",
        ),
        (
            "publish:\n",
            "publish:\n  volumes:\n    description: Volume by label.\n"
            "    from: { job: volumes, output: 0 }\n",
        ),
    ),
    "order of checks": (
        ("    - { kind: not_null, columns: [sender] }\n", ""),
        (
            "    - { kind: unique, columns: [block_number, sender] }\n",
            "    - { kind: unique, columns: [block_number, sender] }\n"
            "    - { kind: not_null, columns: [sender] }\n",
        ),
    ),
    "quoting": (("name: market\n", 'name: "market"\n'),),
    "spaces before a value": (("outputs: 3\n", "outputs:   3\n"),),
    "whitespace": (("jobs:\n", "jobs:\n\n\n"),),
    "flow style to block style": (("source: { kind: manual }", "source:\n      kind: manual"),),
    "text over several lines": (
        (
            "sql: SELECT l.block_number, l.amount, l.sender,",
            "sql: >-\n        SELECT l.block_number, l.amount, l.sender,",
        ),
    ),
    "windows line ends": (("worker_pools:\n", "worker_pools:\r\n"),),
    "default of the operator made explicit": (
        ("range_size: 10000 }", "range_size: 10000, finality_depth: 0 }"),
    ),
    "execution-only default made explicit": (
        ("start_block: 1000000 }", "start_block: 1000000, poll_seconds: 0.5 }"),
    ),
    "default of the grammar made explicit": (
        ("    source: { kind: manual }\n", "    source: { kind: manual }\n    priority: live\n"),
    ),
    "update strategy of control work made explicit": (
        (
            "range_size: 10000 }\n",
            "range_size: 10000 }\n    update_strategy: replace\n",
        ),
    ),
    "defaults written out at the job": (
        (
            "scaling: { max_concurrency: 4 }",
            "timeout_seconds: 600\n    scaling: { max_concurrency: 4 }",
        ),
    ),
    "alias made explicit": (
        (
            "- from: { job: history, output: 0 }",
            "- { from: { job: history, output: 0 }, as: history }",
        ),
    ),
    "trigger made explicit": (
        (
            "- from: { job: nightly, output: 0 }",
            "- { from: { job: nightly, output: 0 }, trigger: true }",
        ),
    ),
    "filter in another spelling": (
        ("amount >= 10 AND label IS NOT NULL", "not (label is null)  and  amount>=10"),
    ),
    "filter as text instead of a map": (
        (
            '{ topic0: "0xddf252ad", removed: false }',
            "removed = FALSE AND topic0 IN ('0xddf252ad')",
        ),
    ),
    # It is a set of columns.
    "order of a unique key": (
        ("unique_key: [sender, block_number]", "unique_key: [block_number, sender]"),
    ),
    "list of one part": (
        (
            "  volumes:\n    from: { job: volumes, output: 0 }\n",
            "  volumes:\n    from: [{ job: volumes, output: 0 }]\n",
        ),
    ),
    "column type in another spelling": (("numeric(38)", "numeric(38, 0)"),),
}

# A new version, which rebuilds nothing.
NOTHING_REBUILDS: dict[str, Edits] = {
    "description": (("Transfers of a chain,", "All transfers of a chain,"),),
    "timeout": (("timeout_seconds: 600", "timeout_seconds: 900"),),
    "timeout of one job": (
        (
            "scaling: { max_concurrency: 4 }",
            "timeout_seconds: 60\n    scaling: { max_concurrency: 4 }",
        ),
    ),
    "heartbeat": (("heartbeat_seconds: 30", "heartbeat_seconds: 10"),),
    "max attempts": (("max_attempts: 3", "max_attempts: 7"),),
    "priority": (("    priority: backfill\n", "    priority: live\n"),),
    "max concurrency": (("max_concurrency: 20", "max_concurrency: 2"),),
    "back pressure": (("max_queued: 500", "max_queued: 50"),),
    "worker pool taken away": (("    worker_pool: rpc\n    scaling", "    scaling"),),
    "slot added": (
        ("    - name: provider_b\n", "    - name: provider_c\n    - name: provider_b\n"),
    ),
    # What a slot gives is the way to the data, not the data: another provider has the same chain.
    "slot environment": (("RPC_UPSTREAM: provider_a", "RPC_UPSTREAM: provider_z"),),
    "slot secret": (("RPC_KEY: rpc_key_a", "RPC_KEY: rpc_key_z"),),
    "unused pool added": (("worker_pools:\n", "worker_pools:\n  spare:\n    - name: one\n"),),
    # Where code runs does not change what it writes; operators list the runtimes they are good for.
    "runtime": (("    runtime: emr_serverless\n", "    runtime: lambda\n"),),
    "execution-only config": (("start_block: 1000000", "start_block: 1000000, poll_seconds: 9"),),
    "execution-only config of a cron source": (
        (
            'source: { kind: cron, schedule: "0 3 * * *" }',
            'source: { kind: cron, schedule: "0 3 * * *" }\n    config: { catch_up: all }',
        ),
    ),
    # What it has announced stays announced; it goes on by the new schedule.
    "source schedule": (("0 3 * * *", "0 4 * * *"),),
    # Says how a source begins for the first time; this one has begun.
    "bootstrap": (
        (
            "    source: { kind: always_on }\n",
            "    source: { kind: always_on }\n    bootstrap: { reset_outputs: true }\n",
        ),
    ),
    "publish description": (("Volume by label.", "Volume of each label."),),
    "publish freshness": (("freshness: 60s", "freshness: 5m"),),
    "publish pii": (("pii: [sender]", "pii: [sender, label]"),),
    "publish another output": (
        ("  volumes:\n", "  senders:\n    from: { job: senders, output: 0 }\n  volumes:\n"),
    ),
    "publish no longer": (
        (
            PUBLISH_VOLUMES,
            "",
        ),
    ),
    "publication renamed": (("  volumes:\n", "  label_volumes:\n"),),
    # The rules of `publish` are metadata and start nothing: what they ask of rows that exist is
    # judged as a schema change, and one that cannot be had without a rebuild is incompatible.
    "publish storage": (("    storage: s3\n", "    storage: postgres\n"),),
    "publish column": (("        label: text\n", "        label: text\n        fee: numeric\n"),),
    "publish index": (("indexes: [[sender]]", "indexes: [[sender], [label]]"),),
    "checks": (("{ kind: not_null, columns: [sender] }", "{ kind: not_null, columns: [label] }"),),
    "checks removed": (("    - { kind: not_null, columns: [sender] }\n", ""),),
    # The same parts, read under the same alias: the way to name them does not matter.
    "parts read by name instead of by job": (
        (
            "      - from: { job: transfers, output: 0 }\n        as: moves\n",
            "      - from: { dataset: transfers }\n        as: moves\n",
        ),
    ),
}

# Edits -> the jobs that rebuild: the edited ones and all behind them.
REBUILDS: dict[str, tuple[Edits, str]] = {
    "operator": (
        (
            ("operator: alert_evaluate", "operator: alert_route"),
            ("config: { rules: [large_transfer] }", "config: { destination: oncall }"),
        ),
        "whales",
    ),
    "affecting config": (
        (("chunk_size: 10000", "chunk_size: 5000"),),
        f"chunks backfill transfers {ALL_BEHIND}",
    ),
    "affecting config of a leaf": (
        (("SELECT * FROM report", "SELECT volume FROM report"),),
        "mail",
    ),
    "affecting config of an arm of the diamond": (
        (("SELECT DISTINCT sender", "SELECT sender"),),
        "senders report mail",
    ),
    "list inside a config": (
        (("[large_transfer]", "[large_transfer, mint]"),),
        "whales",
    ),
    "order of a list inside a config": (
        (("datasets: [blocks, logs]", "datasets: [logs, blocks]"),),
        f"backfill transfers {ALL_BEHIND}",
    ),
    "default of the operator made different": (
        (("range_size: 10000 }", "range_size: 10000, finality_depth: 64 }"),),
        f"ranges transfers {ALL_BEHIND}",
    ),
    "config of a source": (
        (("start_block: 1000000", "start_block: 900000"),),
        f"follow ranges whales transfers {ALL_BEHIND}",
    ),
    "filter with another meaning": (
        (("amount >= 10", "amount > 10"),),
        "volumes report mail",
    ),
    "filter with another value": (
        (("removed: false", "removed: true"),),
        f"transfers {ALL_BEHIND}",
    ),
    "filter removed": (
        (('        where: "amount >= 10 AND label IS NOT NULL"\n', ""),),
        "volumes report mail",
    ),
    "filter added": (
        (("        as: labels\n", "        as: labels\n        where: { kind: exchange }\n"),),
        f"transfers {ALL_BEHIND}",
    ),
    "alias": (((("        as: moves\n"), "        as: moved\n"),), "volumes report mail"),
    "trigger moved": (
        (
            (
                "      - from: { job: report, output: 0 }\n",
                "      - from: { job: report, output: 0 }\n        trigger: true\n",
            ),
        ),
        "mail",
    ),
    # Aliases stay; which input stands first may still mean something to the operator.
    "input order": (
        (
            (
                "      - from: { job: volumes, output: 0 }\n"
                "      - from: { job: senders, output: 0 }\n",
                "      - from: { job: senders, output: 0 }\n        trigger: false\n"
                "      - from: { job: volumes, output: 0 }\n        trigger: true\n",
            ),
        ),
        "report mail",
    ),
    "added input": (
        (
            (
                "      - from: { job: senders, output: 0 }\n",
                "      - from: { job: senders, output: 0 }\n"
                "      - from: { job: chunks, output: 0 }\n",
            ),
        ),
        "report mail",
    ),
    "removed input": ((("      - from: { job: senders, output: 0 }\n", ""),), "report mail"),
    "another output index": (
        (
            (
                "      - from: { job: follow, output: 2 }\n    outputs: 1",
                "      - from: { job: follow, output: 1 }\n    outputs: 1",
            ),
        ),
        "whales",
    ),
    "outputs count": (
        (("    outputs: 2\n", "    outputs: 3\n"),),
        f"backfill transfers {ALL_BEHIND}",
    ),
    "update strategy": (
        (
            (
                "    update_strategy: append\n    unique_key: [sender, block_number]\n",
                "    update_strategy: replace\n",
            ),
        ),
        "senders report mail",
    ),
    "unique key": (
        (("unique_key: [sender, block_number]", "unique_key: [sender]"),),
        "senders report mail",
    ),
    "execution strategy": (
        (
            (
                "operator: cryo_ingest\n    execution_strategy: PerPartition",
                "operator: cryo_ingest\n    execution_strategy: PerUpdate",
            ),
        ),
        f"backfill transfers {ALL_BEHIND}",
    ),
    # Another way to begin announces other things, even under the same operator.
    "source kind": (
        (("source: { kind: manual }", "source: { kind: webhook, path: /ranges }"),),
        f"history chunks backfill transfers {ALL_BEHIND}",
    ),
    "external dataset": (
        (("{ dataset: address_labels }", "{ dataset: address_labels_2 }"),),
        f"transfers {ALL_BEHIND}",
    ),
    # `mail` sees the job under its new name, so it is edited too.
    "renamed job": (
        (
            ("  - name: report\n", "  - name: summary\n"),
            ("{ job: report, output: 0 }", "{ job: summary, output: 0 }"),
        ),
        "summary mail",
    ),
    # The reader keeps its alias; a job is still another job under another name.
    "renamed job behind an alias": (
        (
            ("  - name: transfers\n", "  - name: movements\n"),
            (
                "      - from: { job: transfers, output: 0 }\n        as: moves\n",
                "      - from: { job: movements, output: 0 }\n        as: moves\n",
            ),
            (
                "      - from: { job: transfers, output: 0 }\n    outputs: 1",
                "      - { from: { job: movements, output: 0 }, as: transfers }\n    outputs: 1",
            ),
            (
                "    from: { job: transfers, output: 0 }\n    pii",
                "    from: { job: movements, output: 0 }\n    pii",
            ),
        ),
        f"movements {ALL_BEHIND}",
    ),
    "removed leaf": (
        ((TEXT[TEXT.index("  - name: mail\n") : TEXT.index("  - name: whales\n")], ""),),
        "",
    ),
    "removed job with a reader": (
        (
            (TEXT[TEXT.index("  - name: senders\n") : TEXT.index("  - name: report\n")], ""),
            ("      - from: { job: senders, output: 0 }\n", ""),
        ),
        "report mail",
    ),
    "added leaf": (
        (
            (
                "publish:\n",
                sql_job("counts", "volumes") + "publish:\n",
            ),
        ),
        "counts",
    ),
    "added job in the middle": (
        (
            (
                "  - name: volumes\n",
                sql_job("cleaned", "transfers") + "  - name: volumes\n",
            ),
            (
                "      - from: { job: transfers, output: 0 }\n        as: moves\n",
                "      - from: { job: cleaned, output: 0 }\n        as: moves\n",
            ),
        ),
        "cleaned volumes report mail",
    ),
    "publish parts while a job reads the name": (
        (("      - { job: backfill, output: 1 }\n", "      - { job: backfill, output: 0 }\n"),),
        f"transfers {ALL_BEHIND}",
    ),
    # Where two parts hold the same range, the order may decide which one is read.
    "order of parts while a job reads the name": (
        (
            (
                "      - { job: follow, output: 2 }\n      - { job: backfill, output: 1 }\n",
                "      - { job: backfill, output: 1 }\n      - { job: follow, output: 2 }\n",
            ),
        ),
        f"transfers {ALL_BEHIND}",
    ),
    "publication renamed while a job reads the name": (
        (("  logs:\n", "  all_logs:\n"), ("{ dataset: logs }", "{ dataset: all_logs }")),
        f"transfers {ALL_BEHIND}",
    ),
    "dataset read from another DAG instead": (
        (("{ dataset: logs }", "{ dataset: foreign_logs }"),),
        f"transfers {ALL_BEHIND}",
    ),
    "two edits in two branches": (
        (("large_transfer]", "mint]"), ("SELECT * FROM report", "SELECT 1")),
        "whales mail",
    ),
    "edit of data and of the run in one job": (
        (("range_size: 10000 }", "range_size: 500 }\n    max_attempts: 9"),),
        f"ranges transfers {ALL_BEHIND}",
    ),
    "user's code instead of an operator": (
        (("operator: alert_evaluate", "udf: { bundle: b1, entrypoint: rules.run }"),),
        "whales",
    ),
}

CODE: dict[str, tuple[str, str]] = {
    "code version of one job's operator": ("cryo_ingest", f"backfill transfers {ALL_BEHIND}"),
    "code version of a source's operator": ("trigger_cron", "nightly mail"),
    "code version of an operator of many jobs": ("sql_transform", f"transfers {ALL_BEHIND}"),
    "code version of an operator that is not used": ("webhook_source", ""),
}
