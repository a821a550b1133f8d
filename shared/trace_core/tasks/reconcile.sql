-- name: any_in_data_database
-- Whether any dataset has its rows in the data database.
SELECT EXISTS (SELECT FROM dataset_versions WHERE backend = 'postgres') AS found

-- name: known_commits
-- Which of these commits are registered.
SELECT c.dataset_version, c.number
  FROM unnest(%(versions)b::uuid[], %(numbers)s::bigint[]) AS w (dataset_version, number)
  JOIN commits c ON c.dataset_version = w.dataset_version AND c.number = w.number
