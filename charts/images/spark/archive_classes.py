"""Runs one job of Spark's, so that its JVM leaves the classes that it took for it where SPARK_SUBMIT_OPTS says."""

from pyspark import SparkConf, SparkContext

conf = SparkConf().setMaster("local[1]").setAppName("classes")
for address in ("spark.driver.host", "spark.driver.bindAddress"):  # nothing names the host where an image is built
    conf.set(address, "127.0.0.1")
context = SparkContext(conf=conf)
context.parallelize(range(1), 1).map(str).collect()
jvm = SparkContext._gateway.proc
context.stop()
jvm.stdin.close()  # at which it ends, and writes the archive
jvm.wait()
