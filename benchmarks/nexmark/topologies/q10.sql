SELECT auction, bidder, price, time, extra,
    strftime(epoch_ms(time), '%Y-%m-%d') AS day, strftime(epoch_ms(time), '%H:%M') AS minute
FROM bids
