WITH winning AS (
    SELECT auctions.id, item, initial, reserve, seller, category, expires, auctions.time, auctions.extra,
        auction, bidder, price, bids.time AS bid_time, bids.extra AS bid_extra
    FROM auctions JOIN bids ON auctions.id = bids.auction
    WHERE bids.time BETWEEN auctions.time AND expires
    QUALIFY row_number() OVER (PARTITION BY auctions.id ORDER BY price DESC, bids.time, bidder) = 1
)
SELECT item, initial, reserve, seller, category, expires, time, extra,
    auction, bidder, price, bid_time, bid_extra
FROM winning
