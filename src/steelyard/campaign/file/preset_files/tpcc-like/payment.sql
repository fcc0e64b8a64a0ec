-- TPC-C-like Payment: 15 % by customers of another warehouse, 60 % by customers who say their name.
\set w random(1, :warehouses)
\set d random(1, 10)
\set other 1 + (:w - 1 + random(1, greatest(:warehouses - 1, 1))) % :warehouses
\set far random(1, 100)
\set cw case when :far <= 15 then :other else :w end
\set cd case when :far <= 15 then random(1, 10) else :d end
\set c 1 + ((random(0, 1023) | random(1, 3000)) + 259) % 3000
\set named random(0, 99)
\set number ((random(0, 255) | random(0, 999)) + 173) % 1000
\set cents random(100, 500000)
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + :cents / 100.0 WHERE w_id = :w;
UPDATE district SET d_ytd = d_ytd + :cents / 100.0 WHERE d_w_id = :w AND d_id = :d;
\if :named < 60
SELECT c_id AS c FROM customer WHERE c_w_id = :cw AND c_d_id = :cd AND c_last = last_name(:number)
ORDER BY c_first OFFSET (
  SELECT (count(*) - 1) / 2 FROM customer WHERE c_w_id = :cw AND c_d_id = :cd AND c_last = last_name(:number)
) LIMIT 1 \gset
\endif
UPDATE customer SET c_balance = c_balance - :cents / 100.0, c_ytd_payment = c_ytd_payment + :cents / 100.0,
  c_payment_cnt = c_payment_cnt + 1,
  c_data = CASE c_credit WHEN 'BC' THEN left(concat_ws(' ', c_id, :d::integer, :w::integer, :cents::integer, c_data), 500) ELSE c_data END
WHERE c_w_id = :cw AND c_d_id = :cd AND c_id = :c;
INSERT INTO history VALUES (:cw, :cd, :c, :w, :d, now(), :cents / 100.0, 'payment');
COMMIT;
