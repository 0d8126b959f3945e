SELECT auction, bidder, 0.908::DOUBLE * price AS price,
    CASE WHEN hour BETWEEN 8 AND 18 THEN 'day' WHEN hour <= 6 OR hour >= 20 THEN 'night' ELSE 'other' END
        AS time_of_day,
    time, extra, length(url) - length(replace(url, 'c', '')) AS letters
FROM (SELECT *, time // 3600000 % 24 AS hour FROM bids)
WHERE 0.908::DOUBLE * price > 1000000 AND 0.908::DOUBLE * price < 50000000
