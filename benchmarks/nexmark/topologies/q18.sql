SELECT auction, bidder, price, time
FROM bids
QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY time DESC, price DESC) = 1
