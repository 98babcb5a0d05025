package harness.kafka;

import harness.Job;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Topics that a job reads: their names end with its `seed`, and the option `kafka` names the broker. Every start of the
 * job finds the records of one more phase, which its parameter `phase` names. A record is
 * `topic/partition/number`; phase 0 creates the topics, phase 2 gives the first one a partition more.
 */
final class Topics {
    /** Names of the topics; the first has three partitions, and each later one two more. */
    private static final List<String> NAMES =
            List.of("orders", "a-topic-with-so-long-a-name-that-it-is-written-another-way-than-a-shorter-one");

    private static final int SEND_MILLISECONDS = 60_000;
    private static final int MOST_TRIES = 3;

    private Topics() {}

    static List<String> names(Job job) {
        List<String> names = new ArrayList<>();
        for (String name : NAMES) {
            names.add(name + "-" + job.parameter("seed", 0));
        }
        return names;
    }

    static Properties properties(Job job) {
        Properties properties = new Properties();
        properties.setProperty("bootstrap.servers", job.configuration.get("kafka"));
        properties.setProperty("group.id", "group-" + job.parameter("seed", 0));
        return properties;
    }

    /** Writes the records of the job's phase. */
    static void feed(Job job) {
        try {
            long phase = job.parameter("phase", 0);
            if (phase == 0 || phase == 2) {
                create(job, phase);
            }
            List<ProducerRecord<String, String>> records = records(job, phase);
            for (int tries = 0; !records.isEmpty(); tries++) {
                if (tries == MOST_TRIES) {
                    throw new IllegalStateException("the broker refused " + records.size() + " records");
                }
                records = send(job, records);
            }
        } catch (Exception error) {
            throw new IllegalStateException("the topics cannot be filled", error);
        }
    }

    private static List<ProducerRecord<String, String>> records(Job job, long phase) {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        List<String> topics = names(job);
        for (int i = 0; i < topics.size(); i++) {
            for (int partition = 0; partition < partitions(i, phase); partition++) {
                for (long number = before(phase, partition); number < before(phase + 1, partition); number++) {
                    String value = topics.get(i) + "/" + partition + "/" + number;
                    records.add(new ProducerRecord<>(topics.get(i), partition, null, value));
                }
            }
        }
        return records;
    }

    /** Sends records; returns those that the broker refused, because it may not be ready for a new topic. */
    private static List<ProducerRecord<String, String>> send(
            Job job, List<ProducerRecord<String, String>> records) throws InterruptedException {
        Properties properties = properties(job);
        properties.put("max.block.ms", SEND_MILLISECONDS);
        properties.put("delivery.timeout.ms", SEND_MILLISECONDS);
        properties.put("request.timeout.ms", SEND_MILLISECONDS / 2);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (ProducerRecord<String, String> record : records) {
                sent.add(producer.send(record));
            }
        }
        List<ProducerRecord<String, String>> refused = new ArrayList<>();
        for (int i = 0; i < sent.size(); i++) {
            try {
                sent.get(i).get();
            } catch (ExecutionException notTaken) {
                refused.add(records.get(i));
            }
        }
        return refused;
    }

    private static void create(Job job, long phase) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        List<String> names = names(job);
        for (int i = 0; i < names.size(); i++) {
            topics.add(new NewTopic(names.get(i), partitions(i, phase), (short) 1));
        }
        try (Admin admin = Admin.create(properties(job))) {
            if (phase == 0) {
                admin.createTopics(topics).all().get();
            } else {
                NewPartitions more = NewPartitions.increaseTo(partitions(0, phase));
                admin.createPartitions(Map.of(names.get(0), more)).all().get();
            }
        }
    }

    private static int partitions(int topic, long phase) {
        return 3 + 2 * topic + (topic == 0 && phase >= 2 ? 1 : 0);
    }

    /** Returns the number of records of a partition before a phase, which differs between partitions of a topic. */
    private static long before(long phase, int partition) {
        return phase * (20 + 3L * partition);
    }
}
