-- fill_factor 10 leaves room for one row of about 550 bytes on each page, 20 for two. m takes so many values in
-- turn (`spread`) that an index scan over one of them reads every tenth page, and none beside another.
CREATE TABLE pages (n bigint, m int, x text) WITH (fillfactor = :fill_factor);
ALTER TABLE pages ALTER x SET STORAGE PLAIN;
INSERT INTO pages SELECT n, n % :spread, lpad('x', 500, 'x') FROM generate_series(0, :rows - 1) AS n;
CREATE INDEX pages_m_n ON pages (m, n);
VACUUM (ANALYZE) pages;
