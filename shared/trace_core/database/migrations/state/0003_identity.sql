-- Goes before the code that needs it. Adds columns and creates tables; takes ACCESS EXCLUSIVE locks
-- on users, worker_tokens and triggers for a moment. The indexes on triggers are built under that
-- lock: seconds for millions of requests.

-- A subject means nothing without the issuer that named it.
ALTER TABLE users
    ADD COLUMN issuer text NOT NULL DEFAULT 'development',
    ADD COLUMN name   text,
    DROP CONSTRAINT users_subject_key,
    ADD CONSTRAINT users_issuer_subject_key UNIQUE (issuer, subject);
ALTER TABLE users ALTER COLUMN issuer DROP DEFAULT;

CREATE INDEX memberships_user ON memberships (user_id);

ALTER TABLE worker_tokens
    ADD COLUMN token_id     uuid,
    ADD COLUMN expires_at   timestamptz,
    -- Coarse: written once an hour at most, never with each call.
    ADD COLUMN last_used_at timestamptz,
    ADD CONSTRAINT worker_tokens_token_id_key UNIQUE (token_id);
UPDATE worker_tokens SET token_id = md5(encode(token_sha256, 'hex'))::uuid;
ALTER TABLE worker_tokens ALTER COLUMN token_id SET NOT NULL;

CREATE INDEX worker_tokens_org ON worker_tokens (org_id, name);

-- When and by whom each user secret was written. Values are in the secret store only.
CREATE TABLE secrets (
    org_id     uuid NOT NULL REFERENCES orgs,
    name       text NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by uuid REFERENCES users (user_id),
    PRIMARY KEY (org_id, name)
);

-- Where others may call in. It belongs to a job by name, so that its address outlives deploys.
CREATE TABLE webhook_sources (
    source_id  uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES orgs,
    dag_id     uuid NOT NULL REFERENCES dags,
    job_name   text NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (dag_id, job_name)
);

-- Which secrets sign for a source; their values are in the secret store.
CREATE TABLE webhook_secrets (
    secret_id  uuid PRIMARY KEY,
    source_id  uuid NOT NULL REFERENCES webhook_sources,
    created_at timestamptz NOT NULL,
    -- Set when a newer one took its place.
    expires_at timestamptz
);

CREATE INDEX webhook_secrets_source ON webhook_secrets (source_id);

-- A call that came in is a request with the caller's own key: the same key makes nothing again.
ALTER TABLE triggers
    ADD COLUMN source_id uuid REFERENCES webhook_sources,
    ADD COLUMN event_key text;

CREATE UNIQUE INDEX triggers_event_key ON triggers (source_id, event_key)
 WHERE source_id IS NOT NULL;

-- Who did what. Written in the transaction of the change it tells of, and never changed again.
CREATE TABLE audit (
    audit_id   uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES orgs,
    at         timestamptz NOT NULL,
    actor_kind text NOT NULL CHECK (actor_kind IN ('user', 'system')),
    actor_id   text NOT NULL,
    user_id    uuid REFERENCES users,
    action     text NOT NULL,
    target     text NOT NULL,
    detail     jsonb NOT NULL,
    request_id text
);

CREATE INDEX audit_org ON audit (org_id, audit_id);

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit rows are never changed';
END
$$;

CREATE TRIGGER audit_is_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
