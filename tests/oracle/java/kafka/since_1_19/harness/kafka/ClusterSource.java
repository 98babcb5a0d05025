package harness.kafka;

import harness.Expected;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.kafka.dynamic.metadata.SingleClusterTopicMetadataService;
import org.apache.flink.connector.kafka.dynamic.source.DynamicKafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A `DynamicKafkaSource` of one cluster, whose every record is a result. */
public final class ClusterSource implements Scenario {
    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        Topics.feed(job);
        DynamicKafkaSource<String> source = DynamicKafkaSource.<String>builder()
                .setProperties(Topics.properties(job))
                .setStreamIds(Set.copyOf(Topics.names(job)))
                .setKafkaMetadataService(new SingleClusterTopicMetadataService("east", Topics.properties(job)))
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setDeserializer(KafkaRecordDeserializationSchema.valueOnly(new SimpleStringSchema()))
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
