WITH counts AS (
    SELECT auction, count(*) AS bids, (time // 2000 - n) * 2000 + 10000 AS window_end
    FROM bids, range(5) AS windows(n)
    GROUP BY auction, window_end
)
SELECT auction, bids, window_end
FROM counts
QUALIFY bids = max(bids) OVER (PARTITION BY window_end)
