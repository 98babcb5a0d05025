import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.util.Collector;

/**
 * Starts the counting operator of the demo's job from a savepoint, in a Flink within this JVM, and prints what each of
 * its subtasks holds: a line "subtask, tab, user, tab, clicks, tab, clicks by page" for every user.
 *
 * <p>Arguments: the savepoint's directory, and the parallelism.
 */
public final class Restored {
    private static final int MAX_PARALLELISM = 128;

    public static void main(String[] arguments) throws Exception {
        int parallelism = Integer.parseInt(arguments[1]);
        Configuration local = new Configuration();
        local.setString("jobmanager.bind-host", "127.0.0.1"); // of the server that hands out files, too
        local.setString("rest.bind-address", "127.0.0.1");
        MiniClusterConfiguration cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(local)
                .setNumSlotsPerTaskManager(parallelism)
                .setCommonBindAddress("127.0.0.1")
                .withRandomPorts()
                .build();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            JobGraph job = job(parallelism);
            // The other operators of the savepoint are not in this job.
            job.setSavepointRestoreSettings(
                    SavepointRestoreSettings.forPath(Path.of(arguments[0]).toUri().toString(), true));
            flink.executeJobBlocking(job);
        }
    }

    /** A job that gets no input: its operator opens, tells what it restored, and ends. */
    private static JobGraph job(int parallelism) {
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy.type", "none");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(parallelism);
        environment.setMaxParallelism(MAX_PARALLELISM);
        environment.fromData("nobody")
                .filter(user -> false)
                .keyBy(user -> user, Types.STRING)
                .transform("count", Types.VOID, new Count())
                .uid("clicks-per-user");
        return environment.getStreamGraph().getJobGraph();
    }

    private static final class Count extends KeyedProcessOperator<String, String, Void> {
        private static final ValueStateDescriptor<Long> CLICKS = new ValueStateDescriptor<>("clicks", Types.LONG);
        private static final MapStateDescriptor<String, Long> PAGES =
                new MapStateDescriptor<>("pages", Types.STRING, Types.LONG);

        Count() {
            super(new Nothing());
        }

        @Override
        public void open() throws Exception {
            super.open();
            KeyedStateBackend<String> backend = getKeyedStateBackend();
            ValueState<Long> clicks = backend.getPartitionedState(
                    VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, CLICKS);
            MapState<String, Long> pages = backend.getPartitionedState(
                    VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, PAGES);
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            try (Stream<String> users = backend.getKeys(CLICKS.getName(), VoidNamespace.INSTANCE)) {
                for (String user : users.toList()) {
                    backend.setCurrentKey(user);
                    Map<String, Long> byPage = new TreeMap<>();
                    for (Map.Entry<String, Long> page : pages.entries()) {
                        byPage.put(page.getKey(), page.getValue());
                    }
                    System.out.println(subtask + "\t" + user + "\t" + clicks.value() + "\t" + byPage);
                }
            }
        }
    }

    private static final class Nothing extends KeyedProcessFunction<String, String, Void> {
        @Override
        public void processElement(String user, Context context, Collector<Void> out) {}
    }
}
