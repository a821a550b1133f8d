-- name: put_secret
-- The secret was written now, by that user.
INSERT INTO secrets (org_id, name, updated_at, updated_by)
VALUES (%(org_id)s, %(name)s, %(now)s, %(user_id)s)
    ON CONFLICT (org_id, name) DO UPDATE
       SET updated_at = excluded.updated_at, updated_by = excluded.updated_by
RETURNING (xmax = 0) AS created

-- name: secrets
-- When and by whom each secret of an org was written.
SELECT s.name, s.updated_at, coalesce(u.name, u.subject) AS updated_by
  FROM secrets s
  LEFT JOIN users u ON u.user_id = s.updated_by
 WHERE s.org_id = %(org_id)s

-- name: remove_secret
-- The secret is gone.
DELETE FROM secrets WHERE org_id = %(org_id)s AND name = %(name)s
