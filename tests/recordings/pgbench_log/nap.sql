\sleep 1 ms
SELECT pg_sleep(0.02);
