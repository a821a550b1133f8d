"""Every key of a version 1 DAG file, declared once.

The reader, the JSON Schema for editors and the reference page all come from this declaration;
rules between keys are in validate.py.
"""

from __future__ import annotations

from trace_core.dag.containers import Key, ListOf, MapOf, Object
from trace_core.dag.dag_shapes import Version
from trace_core.dag.job_grammar import JOB, LIMITS
from trace_core.dag.publish_grammar import CHECK, PUBLICATION
from trace_core.dag.shapes import Refusal, Text
from trace_core.dag.words import DESCRIPTION, ENV_NAME, NAME, NO_MODE, NO_SECRETS, SECRET_NAME
from trace_core.kernel import limits

SLOT = Object(
    {
        "name": Key(NAME, "Unique within the pool.", required=True),
        "env": Key(
            MapOf(ENV_NAME, Text(longest=4096), most=100, example="`{ NAME: value }`"),
            "Environment variables for the task that holds the slot.",
        ),
        "secrets": Key(
            MapOf(ENV_NAME, SECRET_NAME, most=100, example="`{ RPC_KEY: name_of_the_secret }`"),
            "Environment variable to the name of a user secret.",
        ),
    },
    example="`{ name: …, env: { … }, secrets: { … } }`",
)

DAG = Object(
    {
        "version": Key(Version(1), "The version of this grammar.", required=True),
        "name": Key(NAME, "The DAG's name, unique in the org.", required=True),
        "description": Key(DESCRIPTION, "For the people who run it."),
        "defaults": Key(Object(LIMITS), "What jobs have unless they say otherwise."),
        "worker_pools": Key(
            MapOf(
                NAME,
                ListOf(SLOT, 1, 1000, example="a list of slots: `- name: …`"),
                most=100,
                example="`pool_name:` with a list of slots under it",
            ),
            "Named lists of slots; a running task holds one slot.",
        ),
        "jobs": Key(
            ListOf(JOB, 1, limits.DAG_JOBS_MAX, example="a list of jobs: `- name: …`"),
            "What runs.",
            required=True,
        ),
        "publish": Key(
            MapOf(NAME, PUBLICATION, example="`dataset_name:` with `from:` under it"),
            "Dataset name to the outputs it stands for. Metadata only: it starts nothing.",
        ),
        "checks": Key(
            MapOf(NAME, ListOf(CHECK, 1, example="`- { kind: unique, columns: [hash] }`")),
            "Published name to what must hold before a new version becomes current.",
        ),
    },
    refused={
        "mode": NO_MODE,
        "secrets": NO_SECRETS._replace(reason="cannot be declared at the top"),
        "read_roles": Refusal(
            "is set by administrators in the registry, not by a DAG", "remove it here"
        ),
    },
    example="`version: 1`, `name: …` and `jobs:`",
)
