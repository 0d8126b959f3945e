SELECT auction, price, bidder, time, extra, time // 10000 * 10000 AS window_start,
    window_start + 10000 AS window_end
FROM bids
QUALIFY price = max(price) OVER (PARTITION BY window_start)
