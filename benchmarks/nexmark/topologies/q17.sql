WITH ranked AS (
    SELECT *, time // 86400000 * 86400000 AS window_start,
        CASE WHEN price < 10000 THEN 1 WHEN price < 1000000 THEN 2 ELSE 3 END AS rank
    FROM bids
)
SELECT auction, window_start, window_start + 86400000 AS window_end,
    count(*) AS bids,
    count(*) FILTER (rank = 1) AS bids1,
    count(*) FILTER (rank = 2) AS bids2,
    count(*) FILTER (rank = 3) AS bids3,
    min(price) AS lowest,
    max(price) AS highest,
    avg(price) AS mean,
    sum(price)::BIGINT AS total
FROM ranked
GROUP BY auction, window_start
