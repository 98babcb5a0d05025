import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.OperatorTransformation;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.state.api.SavepointWriter;
import org.apache.flink.state.api.functions.KeyedStateBootstrapFunction;
import org.apache.flink.state.api.functions.KeyedStateReaderFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/**
 * The program that users of Flink write today to give a job another max parallelism: it reads every record by the State
 * Processor API, keys it again and puts it into a new savepoint. The state is that of {@code big_savepoint}: one
 * operator, one {@code ValueState<byte[]>}, keys of type long.
 *
 * <p>{@code StateProcessorRehash SOURCE TARGET UID STATE PARALLELISM MAX-PARALLELISM SCRATCH}
 */
public final class StateProcessorRehash {
    private static final TypeInformation<byte[]> BYTES = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

    public static void main(String[] arguments) throws Exception {
        String source = arguments[0], target = arguments[1], uid = arguments[2], state = arguments[3];
        int parallelism = Integer.parseInt(arguments[4]), maxParallelism = Integer.parseInt(arguments[5]);
        StreamExecutionEnvironment flink =
                StreamExecutionEnvironment.getExecutionEnvironment(onThisMachine(parallelism, Path.of(arguments[6])));
        flink.setParallelism(parallelism);
        flink.setRuntimeMode(RuntimeExecutionMode.STREAMING);
        flink.getConfig().enableObjectReuse();

        StateBackend heap = new HashMapStateBackend();
        OperatorIdentifier operator = OperatorIdentifier.forUid(uid);
        var records =
                SavepointReader.read(flink, source, heap)
                        .readKeyedState(operator, new Read(state), Types.LONG, Types.TUPLE(Types.LONG, BYTES));
        var put =
                OperatorTransformation.bootstrapWith(records)
                        .setMaxParallelism(maxParallelism)
                        .keyBy(record -> record.f0, Types.LONG)
                        .transform(new Put(state));
        SavepointWriter.newSavepoint(flink, heap, maxParallelism).withOperator(operator, put).write(target);
        flink.execute();
        // Threads of the embedded cluster may outlive the job.
        System.exit(0);
    }

    /** Options of the fastest variant that was tried: streaming, state on the heap, and a buffer before the file. */
    private static Configuration onThisMachine(int parallelism, Path scratch) throws Exception {
        Configuration options = new Configuration();
        options.setString("taskmanager.numberOfTaskSlots", Integer.toString(parallelism));
        options.setString("execution.checkpointing.write-buffer-size", "1048576");
        options.setString("io.tmp.dirs", Files.createDirectories(scratch).toString());
        for (String host : new String[] {"rest.address", "rest.bind-address", "taskmanager.host", "jobmanager.rpc.address"}) {
            options.setString(host, "127.0.0.1");
        }
        options.setString("rest.bind-port", "0");
        return options;
    }

    private static final class Read extends KeyedStateReaderFunction<Long, Tuple2<Long, byte[]>> {
        private final String name;
        private transient ValueState<byte[]> state;

        Read(String name) {
            this.name = name;
        }

        @Override
        public void open(Configuration ignored) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>(name, BYTES));
        }

        @Override
        public void readKey(Long key, Context context, Collector<Tuple2<Long, byte[]>> records) throws Exception {
            records.collect(Tuple2.of(key, state.value()));
        }
    }

    private static final class Put extends KeyedStateBootstrapFunction<Long, Tuple2<Long, byte[]>> {
        private final String name;
        private transient ValueState<byte[]> state;

        Put(String name) {
            this.name = name;
        }

        @Override
        public void open(Configuration ignored) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>(name, BYTES));
        }

        @Override
        public void processElement(Tuple2<Long, byte[]> record, Context context) throws Exception {
            state.update(record.f1);
        }
    }
}
