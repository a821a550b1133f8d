-- name: add_worker_token
-- Only the hash of a worker token is kept.
INSERT INTO worker_tokens (token_sha256, token_id, org_id, name, created_at, expires_at)
VALUES (%(token_sha256)s, %(token_id)s, %(org_id)s, %(name)s, %(now)s, %(expires_at)s)
    ON CONFLICT (token_sha256) DO NOTHING

-- name: worker_token
-- Whether the token was ever registered.
SELECT token_id FROM worker_tokens WHERE token_sha256 = %(token_sha256)s

-- name: valid_worker_tokens
-- The valid tokens of one name.
SELECT token_id FROM worker_tokens
 WHERE org_id = %(org_id)s AND name = %(name)s AND revoked_at IS NULL
   AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: worker_tokens
-- All tokens of an org, as far as anybody can know them.
SELECT token_id, name, created_at, expires_at, last_used_at, revoked_at
  FROM worker_tokens
 WHERE org_id = %(org_id)s
 ORDER BY name, created_at

-- name: revoke_worker_token
-- The token opens nothing any more.
UPDATE worker_tokens SET revoked_at = %(now)s
 WHERE org_id = %(org_id)s AND token_id = %(token_id)s AND revoked_at IS NULL
RETURNING name

-- name: org_of_worker_token
-- Whose workers present this token.
SELECT org_id, last_used_at FROM worker_tokens
 WHERE token_sha256 = %(token_sha256)s AND revoked_at IS NULL
   AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: use_worker_token
-- It was used; coarse, so that calls do not write.
UPDATE worker_tokens SET last_used_at = %(now)s
 WHERE token_sha256 = %(token_sha256)s AND (last_used_at IS NULL OR last_used_at <= %(recorded)s)
