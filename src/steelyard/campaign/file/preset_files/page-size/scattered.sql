\set m random(0, 9)
\set n random(0, :pages - 100)
SELECT sum(length(x)) FROM pages WHERE m = :m AND n BETWEEN :n AND :n + 99;
