package harness.kafka;

import harness.Expected;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A `KafkaSource`, whose every record is a result. After a restore, it must ignore its configured start offsets. */
public final class NewSource implements Scenario {
    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        Topics.feed(job);
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setProperties(Topics.properties(job))
                .setTopics(Topics.names(job))
                .setStartingOffsets(run.restored ? OffsetsInitializer.latest() : OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        Results.collect(
                environment
                        .fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
                        .uid("orders")
                        .setParallelism(job.parallelism("orders")),
                job, run, "orders");
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }
}
