-- TPC-C-like Order-Status: the last order of a customer.
\set cw random(1, :warehouses)
\set cd random(1, 10)
\set c 1 + ((random(0, 1023) | random(1, 3000)) + 259) % 3000
\set named random(0, 99)
\set number ((random(0, 255) | random(0, 999)) + 173) % 1000
BEGIN;
\if :named < 60
SELECT c_id AS c FROM customer WHERE c_w_id = :cw AND c_d_id = :cd AND c_last = last_name(:number)
ORDER BY c_first OFFSET (
  SELECT (count(*) - 1) / 2 FROM customer WHERE c_w_id = :cw AND c_d_id = :cd AND c_last = last_name(:number)
) LIMIT 1 \gset
\endif
SELECT c_balance, c_first, c_last FROM customer WHERE c_w_id = :cw AND c_d_id = :cd AND c_id = :c;
SELECT max(o_id) AS o FROM orders WHERE o_w_id = :cw AND o_d_id = :cd AND o_c_id = :c \gset
SELECT o_entry_d, o_carrier_id, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
WHERE o_w_id = :cw AND o_d_id = :cd AND o_id = :o;
COMMIT;
