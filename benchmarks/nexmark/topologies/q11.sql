WITH begun AS (
    SELECT bidder, time,
        coalesce(time - lag(time) OVER each_bidder > 10000, true)::INT AS is_first
    FROM bids
    WINDOW each_bidder AS (PARTITION BY bidder ORDER BY time)
), numbered AS (
    SELECT bidder, time, sum(is_first) OVER (PARTITION BY bidder ORDER BY time) AS session
    FROM begun
)
SELECT bidder, min(time) AS window_start, max(time) + 10000 AS window_end, count(*) AS bids
FROM numbered
GROUP BY bidder, session
