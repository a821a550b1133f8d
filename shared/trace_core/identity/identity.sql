-- name: add_org
-- The org of that name, if it is new.
INSERT INTO orgs (org_id, name, created_at)
VALUES (%(org_id)s, %(name)s, %(now)s)
    ON CONFLICT (name) DO NOTHING
RETURNING org_id

-- name: org_by_name
-- The org of that name.
SELECT org_id FROM orgs WHERE name = %(name)s

-- name: create_org
-- The org of that id and name; one that has the id or the name already is left as it is.
INSERT INTO orgs (org_id, name, created_at)
VALUES (%(org_id)s, %(name)s, %(now)s)
    ON CONFLICT DO NOTHING
RETURNING org_id

-- name: lock_org
-- One change of members or tokens of an org at a time.
SELECT org_id FROM orgs WHERE org_id = %(org_id)s FOR NO KEY UPDATE

-- name: count_admins
-- How many administrators an org has.
SELECT count(*) AS admins FROM memberships
 WHERE org_id = %(org_id)s AND platform_role = 'admin'

-- name: ensure_user
-- The user whom the issuer calls so, made when it is new; a given name replaces the old one.
INSERT INTO users (user_id, issuer, subject, name, created_at)
VALUES (%(user_id)s, %(issuer)s, %(subject)s, %(name)s, %(now)s)
    ON CONFLICT (issuer, subject) DO UPDATE SET name = coalesce(excluded.name, users.name)
RETURNING user_id

-- name: put_member
-- The user is a member with that role from now on.
INSERT INTO memberships (org_id, user_id, platform_role, created_at)
VALUES (%(org_id)s, %(user_id)s, %(platform_role)s, %(now)s)
    ON CONFLICT (org_id, user_id) DO UPDATE SET platform_role = excluded.platform_role

-- name: add_member
-- The user becomes a member, unless it is one.
INSERT INTO memberships (org_id, user_id, platform_role, created_at)
VALUES (%(org_id)s, %(user_id)s, %(platform_role)s, %(now)s)
    ON CONFLICT (org_id, user_id) DO NOTHING
RETURNING user_id

-- name: memberships_of
-- Every org of a user, with what it may do there.
SELECT m.org_id, o.name AS org, m.user_id, m.platform_role,
       ARRAY(SELECT r.role FROM member_roles r
              WHERE r.org_id = m.org_id AND r.user_id = m.user_id) AS org_roles
  FROM users u
  JOIN memberships m ON m.user_id = u.user_id
  JOIN orgs o ON o.org_id = m.org_id
 WHERE u.issuer = %(issuer)s AND u.subject = %(subject)s

-- name: members
-- The members of an org.
SELECT m.user_id, u.subject, u.name, m.platform_role AS role, m.created_at,
       ARRAY(SELECT r.role FROM member_roles r
              WHERE r.org_id = m.org_id AND r.user_id = m.user_id ORDER BY r.role) AS org_roles
  FROM memberships m
  JOIN users u ON u.user_id = m.user_id
 WHERE m.org_id = %(org_id)s
 ORDER BY u.subject

-- name: member
-- One member of an org.
SELECT m.user_id, u.subject, m.platform_role
  FROM memberships m
  JOIN users u ON u.user_id = m.user_id
 WHERE m.org_id = %(org_id)s AND m.user_id = %(user_id)s

-- name: set_role
-- Another platform role for a member.
UPDATE memberships SET platform_role = %(platform_role)s
 WHERE org_id = %(org_id)s AND user_id = %(user_id)s

-- name: remove_member
-- The user is no member any more; its org roles go with it.
DELETE FROM memberships WHERE org_id = %(org_id)s AND user_id = %(user_id)s

-- name: roles
-- The roles of an org, and how many members have each.
SELECT o.role, o.created_at, (SELECT count(*) FROM member_roles m
                               WHERE m.org_id = o.org_id AND m.role = o.role) AS members
  FROM org_roles o
 WHERE o.org_id = %(org_id)s
 ORDER BY o.role

-- name: add_role
-- A new role, unless it is there.
INSERT INTO org_roles (org_id, role, created_at)
VALUES (%(org_id)s, %(role)s, %(now)s)
    ON CONFLICT (org_id, role) DO NOTHING

-- name: role_exists
-- Whether the org has that role.
SELECT role FROM org_roles WHERE org_id = %(org_id)s AND role = %(role)s

-- name: dags_of_role
-- The DAGs that name a role.
SELECT name FROM dags WHERE org_id = %(org_id)s AND %(role)s = ANY (deploy_roles) ORDER BY name

-- name: datasets_of_role
-- The datasets that name a role, hidden ones too: they keep their readers.
SELECT dataset_name AS name FROM publications
 WHERE org_id = %(org_id)s AND %(role)s = ANY (read_roles)
 ORDER BY dataset_name

-- name: remove_role
-- The role is gone, also from its members.
DELETE FROM org_roles WHERE org_id = %(org_id)s AND role = %(role)s

-- name: grant_role
-- The member has the role, if it had it not.
INSERT INTO member_roles (org_id, user_id, role)
VALUES (%(org_id)s, %(user_id)s, %(role)s)
    ON CONFLICT (org_id, user_id, role) DO NOTHING

-- name: revoke_role
-- The member has the role no more.
DELETE FROM member_roles
 WHERE org_id = %(org_id)s AND user_id = %(user_id)s AND role = %(role)s
