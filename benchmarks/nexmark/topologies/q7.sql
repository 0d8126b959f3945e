SELECT time // 10000 * 10000 AS window_start, window_start + 10000 AS window_end,
    auction, price, bidder, time, extra
FROM bids
QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY price DESC, time) = 1
