\set first random(1, 3)
\set second random(1, 3)
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = :first;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = :second;
COMMIT;
