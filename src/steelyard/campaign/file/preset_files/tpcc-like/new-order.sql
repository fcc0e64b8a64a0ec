-- TPC-C-like New-Order: 5 to 15 lines, one in ten orders with a line of another warehouse, one in a hundred rolled back.
\set w random(1, :warehouses)
\set d random(1, 10)
\set c 1 + ((random(0, 1023) | random(1, 3000)) + 259) % 3000
\set lines random(5, 15)
\set withdrawn random(1, 100)
\set other 1 + (:w - 1 + random(1, greatest(:warehouses - 1, 1))) % :warehouses
\set supplier case when random(1, 10) = 1 then :other else :w end
\set i1 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q1 random(1, 10)
\set i2 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q2 random(1, 10)
\set i3 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q3 random(1, 10)
\set i4 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q4 random(1, 10)
\set i5 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q5 random(1, 10)
\set i6 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q6 random(1, 10)
\set i7 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q7 random(1, 10)
\set i8 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q8 random(1, 10)
\set i9 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q9 random(1, 10)
\set i10 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q10 random(1, 10)
\set i11 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q11 random(1, 10)
\set i12 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q12 random(1, 10)
\set i13 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q13 random(1, 10)
\set i14 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q14 random(1, 10)
\set i15 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\set q15 random(1, 10)
BEGIN;
SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse
WHERE w_id = :w AND c_w_id = :w AND c_d_id = :d AND c_id = :c;
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d RETURNING d_next_o_id - 1 AS o \gset
INSERT INTO orders VALUES (:w, :d, :o, :c, NULL, :lines, :supplier::integer = :w::integer, now());
INSERT INTO new_order VALUES (:w, :d, :o);
-- In the order of the key, so that two orders wait for each other's rows one way only.
SELECT s_quantity FROM stock
WHERE (s_w_id, s_i_id) IN (SELECT supply, item FROM (VALUES (1, :i1::integer, :q1::integer, :supplier::integer), (2, :i2, :q2, :w), (3, :i3, :q3, :w), (4, :i4, :q4, :w), (5, :i5, :q5, :w), (6, :i6, :q6, :w), (7, :i7, :q7, :w), (8, :i8, :q8, :w), (9, :i9, :q9, :w), (10, :i10, :q10, :w), (11, :i11, :q11, :w), (12, :i12, :q12, :w), (13, :i13, :q13, :w), (14, :i14, :q14, :w), (15, :i15, :q15, :w)) asked (line, item, quantity, supply) WHERE line <= :lines)
ORDER BY s_w_id, s_i_id FOR UPDATE;
UPDATE stock SET
  s_quantity = s_quantity - asked.quantity + CASE WHEN s_quantity - asked.quantity < 10 THEN 91 ELSE 0 END,
  s_ytd = s_ytd + asked.quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (supply <> :w)::integer
FROM (
  SELECT item, supply, sum(quantity)::integer AS quantity
  FROM (VALUES (1, :i1::integer, :q1::integer, :supplier::integer), (2, :i2, :q2, :w), (3, :i3, :q3, :w), (4, :i4, :q4, :w), (5, :i5, :q5, :w), (6, :i6, :q6, :w), (7, :i7, :q7, :w), (8, :i8, :q8, :w), (9, :i9, :q9, :w), (10, :i10, :q10, :w), (11, :i11, :q11, :w), (12, :i12, :q12, :w), (13, :i13, :q13, :w), (14, :i14, :q14, :w), (15, :i15, :q15, :w)) asked (line, item, quantity, supply) WHERE line <= :lines GROUP BY item, supply
) asked
WHERE s_w_id = supply AND s_i_id = item;
INSERT INTO order_line
SELECT :w::integer, :d::integer, :o::integer, line, item, supply, quantity, quantity * i_price, NULL, substr(s_dist, 24 * (:d - 1) + 1, 24)
FROM (VALUES (1, :i1::integer, :q1::integer, :supplier::integer), (2, :i2, :q2, :w), (3, :i3, :q3, :w), (4, :i4, :q4, :w), (5, :i5, :q5, :w), (6, :i6, :q6, :w), (7, :i7, :q7, :w), (8, :i8, :q8, :w), (9, :i9, :q9, :w), (10, :i10, :q10, :w), (11, :i11, :q11, :w), (12, :i12, :q12, :w), (13, :i13, :q13, :w), (14, :i14, :q14, :w), (15, :i15, :q15, :w)) asked (line, item, quantity, supply)
JOIN item ON i_id = item JOIN stock ON s_w_id = supply AND s_i_id = item WHERE line <= :lines;
\if :withdrawn = 1
ROLLBACK;
\else
COMMIT;
\endif
