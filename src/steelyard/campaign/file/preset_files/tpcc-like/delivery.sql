-- TPC-C-like Delivery: the oldest new order of each district of a warehouse, at once and not in the background.
\set w random(1, :warehouses)
\set carrier random(1, 10)
BEGIN;
WITH oldest AS (
  SELECT d_id, (SELECT min(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS o
  FROM district WHERE d_w_id = :w
), locked AS (
  SELECT no_d_id, no_o_id FROM new_order JOIN oldest ON no_d_id = d_id AND no_o_id = o
  WHERE no_w_id = :w ORDER BY no_d_id FOR UPDATE OF new_order
), taken AS (
  DELETE FROM new_order USING locked
  WHERE no_w_id = :w AND new_order.no_d_id = locked.no_d_id AND new_order.no_o_id = locked.no_o_id
  RETURNING new_order.no_d_id AS d, new_order.no_o_id AS o
), delivered AS (
  UPDATE orders SET o_carrier_id = :carrier FROM taken WHERE o_w_id = :w AND o_d_id = d AND o_id = o
  RETURNING o_d_id, o_id, o_c_id
), lines AS (
  UPDATE order_line SET ol_delivery_d = now() FROM taken WHERE ol_w_id = :w AND ol_d_id = d AND ol_o_id = o
  RETURNING ol_d_id, ol_o_id, ol_amount
), owed AS (
  SELECT o_d_id, o_c_id, sum(ol_amount) AS amount
  FROM delivered JOIN lines ON ol_d_id = o_d_id AND ol_o_id = o_id GROUP BY o_d_id, o_c_id
)
UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
FROM owed WHERE c_w_id = :w AND c_d_id = o_d_id AND c_id = o_c_id;
COMMIT;
