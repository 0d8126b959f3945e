SELECT auction, bidder, price, time, value
FROM bids JOIN side_input ON auction % 10000 = key
