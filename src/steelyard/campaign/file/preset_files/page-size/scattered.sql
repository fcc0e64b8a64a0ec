\set m random(0, :spread - 1)
\set n random(0, :rows - 10 * :spread)
SELECT sum(length(x)) FROM pages WHERE m = :m AND n BETWEEN :n AND :n + 10 * :spread - 1;
