-- name: ensure_org
-- The org of that name, made when it is new.
WITH made AS (
    INSERT INTO orgs (org_id, name, created_at)
    VALUES (%(org_id)s, %(name)s, %(now)s)
        ON CONFLICT (name) DO NOTHING
    RETURNING org_id
)
SELECT org_id FROM made
UNION ALL
SELECT org_id FROM orgs WHERE name = %(name)s
LIMIT 1

-- name: create_org
-- The org of that id and name; one that has the id or the name already is left as it is.
WITH made AS (
    INSERT INTO orgs (org_id, name, created_at)
    VALUES (%(org_id)s, %(name)s, %(now)s)
        ON CONFLICT DO NOTHING
    RETURNING org_id
)
SELECT org_id FROM made
UNION ALL
SELECT org_id FROM orgs WHERE name = %(name)s
UNION ALL
SELECT NULL
LIMIT 1

-- name: ensure_member
-- A user who is a member of the org, with the given platform role.
WITH made AS (
    INSERT INTO users (user_id, subject, created_at)
    VALUES (%(user_id)s, %(subject)s, %(now)s)
        ON CONFLICT (subject) DO UPDATE SET subject = excluded.subject
    RETURNING user_id
),
joined AS (
    INSERT INTO memberships (org_id, user_id, platform_role, created_at)
    SELECT %(org_id)s, m.user_id, %(platform_role)s, %(now)s
      FROM made m
        ON CONFLICT (org_id, user_id) DO UPDATE SET platform_role = excluded.platform_role
)
SELECT user_id FROM made

-- name: add_worker_token
-- Only the hash of a worker token is kept.
INSERT INTO worker_tokens (token_sha256, org_id, name, created_at)
VALUES (%(token_sha256)s, %(org_id)s, %(name)s, %(now)s)
    ON CONFLICT (token_sha256) DO NOTHING

-- name: org_of_worker_token
-- Whose workers present this token.
SELECT org_id FROM worker_tokens WHERE token_sha256 = %(token_sha256)s AND revoked_at IS NULL

