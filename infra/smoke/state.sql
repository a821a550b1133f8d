-- name: create_role
-- The owner of both databases: no superuser, and may make databases and roles, as on RDS.
CREATE ROLE {role} LOGIN CREATEDB CREATEROLE PASSWORD {password};

-- name: own_database
-- A database of its own for the role.
CREATE DATABASE {name} OWNER {role};
