SELECT auction, bidder, price, time, extra FROM bids
