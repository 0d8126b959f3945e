SELECT category, sum(price)::DOUBLE / count(*) AS price
FROM (
    SELECT auctions.id, category, max(price) AS price
    FROM auctions JOIN bids ON auctions.id = bids.auction
    WHERE bids.time BETWEEN auctions.time AND expires
    GROUP BY auctions.id, category
)
GROUP BY category
