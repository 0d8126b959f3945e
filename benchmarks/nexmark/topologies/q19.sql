SELECT auction, row_number() OVER highest AS rank, bidder, price, time, extra
FROM bids
WINDOW highest AS (PARTITION BY auction ORDER BY price DESC, time, bidder)
QUALIFY rank <= 10
