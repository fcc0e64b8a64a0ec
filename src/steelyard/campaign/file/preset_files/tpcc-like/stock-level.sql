-- TPC-C-like Stock-Level: how many items of the last 20 orders of a district are nearly out of stock.
\set w random(1, :warehouses)
\set d random(1, 10)
\set least random(10, 20)
BEGIN;
SELECT d_next_o_id AS o FROM district WHERE d_w_id = :w AND d_id = :d \gset
SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = :w AND s_i_id = ol_i_id
WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o - 20 AND ol_o_id < :o AND s_quantity < :least;
COMMIT;
