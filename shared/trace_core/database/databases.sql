-- name: database_exists
-- Whether the server has a database of that name.
SELECT EXISTS (SELECT FROM pg_database WHERE datname = %(name)s);

-- name: create_database
-- A database from the empty template.
CREATE DATABASE {name};
