-- TPC-C-like: tables and rows for :warehouses warehouses, about 100 MB each. No official result.
-- Sizes and relations are those of TPC-C 5.11, clause 1; addresses and the districts of a stock are one column each.
CREATE FUNCTION last_name(number integer) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS $$
  SELECT syllables[1 + number / 100] || syllables[1 + number / 10 % 10] || syllables[1 + number % 10]
  FROM (SELECT ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'] AS syllables) _
$$;
CREATE TABLE warehouse (
  w_id integer, w_name text, w_address text, w_tax numeric(4, 4), w_ytd numeric(12, 2)
) WITH (fillfactor = 10);  -- each row is updated all the time
CREATE TABLE district (
  d_w_id integer, d_id integer, d_next_o_id integer, d_name text, d_address text, d_tax numeric(4, 4), d_ytd numeric(12, 2)
) WITH (fillfactor = 10);
CREATE TABLE customer (
  c_w_id integer, c_d_id integer, c_id integer, c_first text, c_last text, c_address text, c_phone text, c_since timestamptz,
  c_credit text, c_credit_lim numeric(12, 2), c_discount numeric(4, 4), c_balance numeric(12, 2),
  c_ytd_payment numeric(12, 2), c_payment_cnt integer, c_delivery_cnt integer, c_data text
);
CREATE TABLE history (
  h_c_w_id integer, h_c_d_id integer, h_c_id integer, h_w_id integer, h_d_id integer, h_date timestamptz,
  h_amount numeric(6, 2), h_data text
);
CREATE TABLE item (i_id integer, i_im_id integer, i_name text, i_price numeric(5, 2), i_data text);
CREATE TABLE stock (
  s_w_id integer, s_i_id integer, s_quantity integer, s_dist text, s_ytd integer, s_order_cnt integer,
  s_remote_cnt integer, s_data text
);
CREATE TABLE orders (
  o_w_id integer, o_d_id integer, o_id integer, o_c_id integer, o_carrier_id integer, o_ol_cnt integer,
  o_all_local boolean, o_entry_d timestamptz
);
CREATE TABLE new_order (no_w_id integer, no_d_id integer, no_o_id integer);
CREATE TABLE order_line (
  ol_w_id integer, ol_d_id integer, ol_o_id integer, ol_number integer, ol_i_id integer, ol_supply_w_id integer,
  ol_quantity integer, ol_amount numeric(8, 2), ol_delivery_d timestamptz, ol_dist_info text
);
SELECT setseed(0.5);
INSERT INTO item
SELECT i, 1 + floor(random() * 10000), 'item ' || i, 1 + random() * 99, repeat(md5(i::text), 1)
FROM generate_series(1, 100000) i;
INSERT INTO warehouse
SELECT w, 'name ' || w, 'street, city, state, 123411111', random() * 0.2, 300000 FROM generate_series(1, :warehouses) w;
INSERT INTO district
SELECT w, d, 3001, 'name ' || d, 'street, city, state, 123411111', random() * 0.2, 30000
FROM generate_series(1, :warehouses) w, generate_series(1, 10) d;
INSERT INTO stock
SELECT w, i, 10 + floor(random() * 91), repeat(substr(md5(i::text), 1, 24), 10), 0, 0, 0, md5(i::text)
FROM generate_series(1, :warehouses) w, generate_series(1, 100000) i;
INSERT INTO customer
SELECT w, d, c, 'first ' || c, last_name(CASE WHEN c <= 1000 THEN c - 1 ELSE floor(random() * 1000)::integer END),
  'street, city, state, 123411111', '0123456789012345', now(), CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, 50000,
  random() * 0.5, -10, 10, 1, 0, repeat(md5(c::text), 12)
FROM generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;
INSERT INTO history
SELECT c_w_id, c_d_id, c_id, c_w_id, c_d_id, now(), 10, 'history of twelve to 24' FROM customer;
-- Each customer has one order, in an order of its own; 7919 and 3000 have no common divisor.
INSERT INTO orders
SELECT w, d, o, 1 + o * 7919 % 3000, CASE WHEN o <= 2100 THEN 1 + floor(random() * 10) END, 5 + floor(random() * 11), true, now()
FROM generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) o;
INSERT INTO order_line
SELECT o_w_id, o_d_id, o_id, line, 1 + floor(random() * 100000), o_w_id, 5,
  CASE WHEN o_id <= 2100 THEN 0 ELSE random() * 9999 END, CASE WHEN o_id <= 2100 THEN o_entry_d END, repeat('d', 24)
FROM orders, generate_series(1, o_ol_cnt) line;
INSERT INTO new_order SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_id > 2100;
ALTER TABLE warehouse ADD PRIMARY KEY (w_id);
ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id);
ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id);
ALTER TABLE item ADD PRIMARY KEY (i_id);
ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id);
ALTER TABLE orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id);
ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);
ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
