-- The consistency conditions 1 to 4 of TPC-C 5.11, clause 3.3.2: a row for each that is violated, none where all hold.
SELECT 'condition 1: w_ytd is the sum of d_ytd' AS violated, w_id, NULL::integer AS d_id
FROM warehouse JOIN district ON d_w_id = w_id GROUP BY w_id, w_ytd HAVING w_ytd <> sum(d_ytd)
UNION ALL
SELECT 'condition 2: d_next_o_id - 1 is the greatest order, and new order', d_w_id, d_id
FROM district
WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
  OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
UNION ALL
SELECT 'condition 3: new orders have no gap', no_w_id, no_d_id
FROM new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)
UNION ALL
SELECT 'condition 4: orders have as many lines as they say', d_w_id, d_id
FROM district
WHERE (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
  <> (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id);
