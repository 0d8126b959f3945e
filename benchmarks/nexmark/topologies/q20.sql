SELECT item, seller, category, auctions.time,
    auction, bidder, price, channel, url, bids.time AS bid_time, bids.extra
FROM bids JOIN auctions ON bids.auction = auctions.id
WHERE category = 10
