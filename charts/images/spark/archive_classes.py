"""Run a Spark job, so that its JVM writes the archive of its classes (SPARK_SUBMIT_OPTS)."""

from pyspark import SparkConf, SparkContext

conf = SparkConf().setMaster("local[1]").setAppName("classes")
for address in (
    "spark.driver.host",
    "spark.driver.bindAddress",
):  # the host's name cannot be resolved where an image is built
    conf.set(address, "127.0.0.1")
context = SparkContext(conf=conf)
context.parallelize(range(1), 1).map(str).collect()
jvm = SparkContext._gateway.proc
context.stop()
jvm.stdin.close()  # the JVM writes the archive and ends
jvm.wait()
