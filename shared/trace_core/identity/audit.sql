-- name: record
-- One row; nothing here changes or deletes any.
INSERT INTO audit (audit_id, org_id, at, actor_kind, actor_id, user_id, action, target, detail,
                   request_id)
VALUES (%(audit_id)s, %(org_id)s, %(at)s, %(actor_kind)s, %(actor_id)s, %(user_id)s, %(action)s,
        %(target)s, %(detail)s, %(request_id)s)

-- name: entries
-- The newest entries of an org; an action `dag` stands for all of `dag.…`.
SELECT a.audit_id, a.at, a.actor_kind, a.actor_id, a.action, a.target, a.detail, a.request_id,
       coalesce(u.name, u.subject) AS actor_name
  FROM audit a
  LEFT JOIN users u ON u.user_id = a.user_id
 WHERE a.org_id = %(org_id)s AND a.audit_id < %(before)s
   AND (%(actor)s::text IS NULL OR %(actor)s::text IN (a.actor_id, u.subject, u.name))
   AND (%(action)s::text IS NULL OR a.action = %(action)s::text
        OR starts_with(a.action, %(action)s::text || '.'))
   AND (%(target)s::text IS NULL OR a.target = %(target)s::text)
   AND (%(since)s::timestamptz IS NULL OR a.at >= %(since)s::timestamptz)
 ORDER BY a.audit_id DESC
 LIMIT %(limit)s
