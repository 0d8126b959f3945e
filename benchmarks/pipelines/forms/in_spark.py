"""Cents by user in ten minutes, in Structured Streaming of PySpark."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, sum, window

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 1)
fields = "user STRING, kind STRING, price BIGINT, at TIMESTAMP"
clicks = spark.readStream.schema(fields).json("clicks").withWatermark("at", "0 seconds")
buys = clicks.where("kind = 'buy'").withColumn("cents", col("price") * 100)
windows = buys.groupBy("user", window("at", "10 minutes"))
totals = windows.agg(count("*").alias("n"), sum("cents").alias("cents"))
rows = totals.select("user", col("window.start").alias("start"), "n", "cents")
query = rows.writeStream.format("json").option("path", "out")
query = query.option("checkpointLocation", "state").trigger(availableNow=True).start()
query.awaitTermination()
