import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Numbers that a job writes into a topic of Kafka, each exactly once; or what was committed there, a number a line.
 *
 * <p>Arguments: `run`, `create` or `read`, the broker, and the topic, which has one partition. A number is written with how
 * many of the same key came before it.
 */
public final class Exactly {
    private static final long KEYS = 10;
    private static final long LAST = 10_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        String broker = arguments[1];
        String topic = arguments[2];
        switch (arguments[0]) {
            case "create":
                create(broker, topic);
                break;
            case "read":
                read(broker, topic);
                break;
            default:
                run(broker, topic);
        }
    }

    private static void run(String broker, String topic) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(broker)
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(topic)
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(topic)
                .setProperty("transaction.timeout.ms", "600000")
                .build();
        environment
                .fromSequence(0, LAST)
                .uid("numbers")
                .map(number -> {
                    Thread.sleep(5);
                    return number;
                })
                .returns(Long.class)
                .uid("slow")
                .keyBy(number -> number % KEYS)
                .process(new Count())
                .uid("counts")
                .sinkTo(sink)
                .uid("topic");
        environment.execute("exactly");
    }

    private static Properties of(String broker) {
        Properties properties = new Properties();
        properties.setProperty("bootstrap.servers", broker);
        return properties;
    }

    private static void create(String broker, String topic) throws Exception {
        try (Admin admin = Admin.create(of(broker))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
    }

    /** Reads up to the end of what is committed; a transaction that is open holds back all that came later. */
    private static void read(String broker, String topic) {
        Properties properties = of(broker);
        properties.setProperty("isolation.level", "read_committed");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                records.forEach(record -> System.out.println(record.value()));
            }
        }
    }

    private static final class Count extends KeyedProcessFunction<Long, Long, String> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Long.class));
        }

        @Override
        public void processElement(Long number, Context context, Collector<String> out) throws Exception {
            long before = count.value() == null ? 0 : count.value();
            count.update(before + 1);
            out.collect(number + " " + before);
        }
    }
}
