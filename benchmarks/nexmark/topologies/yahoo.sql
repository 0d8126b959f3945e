SELECT campaign, time // 10000 * 10000 AS window_start, window_start + 10000 AS window_end,
    count(*) AS views
FROM events JOIN ads USING (ad)
WHERE event = 'view'
GROUP BY campaign, window_start
