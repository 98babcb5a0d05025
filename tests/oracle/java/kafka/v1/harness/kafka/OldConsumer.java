package harness.kafka;

import harness.Expected;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.connectors.kafka.FlinkKafkaConsumer;

/** A `FlinkKafkaConsumer`, whose every record is a result. After a restore, it must ignore its configured start. */
public final class OldConsumer implements Scenario {
    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        Topics.feed(job);
        FlinkKafkaConsumer<String> consumer =
                new FlinkKafkaConsumer<>(Topics.names(job), new SimpleStringSchema(), Topics.properties(job));
        if (run.restored) {
            consumer.setStartFromLatest();
        } else {
            consumer.setStartFromEarliest();
        }
        // The uid is set here: a source is not among the job's transformations that get other uids later.
        String uid = job.uids.getOrDefault("orders", "orders");
        Results.collect(
                environment.addSource(consumer, "orders").uid(uid).setParallelism(job.parallelism("orders")),
                job, run, "orders");
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }
}
