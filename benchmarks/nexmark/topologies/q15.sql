WITH ranked AS (
    SELECT *, time // 86400000 * 86400000 AS window_start,
        CASE WHEN price < 10000 THEN 1 WHEN price < 1000000 THEN 2 ELSE 3 END AS rank
    FROM bids
)
SELECT window_start, window_start + 86400000 AS window_end,
    count(*) AS bids,
    count(*) FILTER (rank = 1) AS bids1,
    count(*) FILTER (rank = 2) AS bids2,
    count(*) FILTER (rank = 3) AS bids3,
    count(DISTINCT bidder) AS bidders,
    count(DISTINCT bidder) FILTER (rank = 1) AS bidders1,
    count(DISTINCT bidder) FILTER (rank = 2) AS bidders2,
    count(DISTINCT bidder) FILTER (rank = 3) AS bidders3,
    count(DISTINCT auction) AS auctions,
    count(DISTINCT auction) FILTER (rank = 1) AS auctions1,
    count(DISTINCT auction) FILTER (rank = 2) AS auctions2,
    count(DISTINCT auction) FILTER (rank = 3) AS auctions3
FROM ranked
GROUP BY window_start
