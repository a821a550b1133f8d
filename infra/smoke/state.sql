-- name: create_role
-- The owner of the state database: no superuser, as on RDS.
CREATE ROLE {role} LOGIN PASSWORD {password};

-- name: own_database
-- A database of its own for the role.
CREATE DATABASE {name} OWNER {role};
