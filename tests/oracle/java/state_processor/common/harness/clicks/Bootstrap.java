package harness.clicks;

import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Line;
import harness.Run;
import harness.Scenario;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.OperatorTransformation;
import org.apache.flink.state.api.SavepointWriter;
import org.apache.flink.state.api.StateBootstrapTransformation;
import org.apache.flink.state.api.functions.BroadcastStateBootstrapFunction;
import org.apache.flink.state.api.functions.KeyedStateBootstrapFunction;
import org.apache.flink.state.api.functions.StateBootstrapFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Writes the state of `Bootstrapped` into the savepoint that the option `written` names. If the option `base` names a
 * savepoint, only the prices are written, and all other state is taken from there.
 */
public final class Bootstrap implements Scenario {
    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        String base = job.configuration.get("base");
        OperatorIdentifier answers = OperatorIdentifier.forUid(Answers.NAME);
        SavepointWriter writer = base == null
                ? SavepointWriter.newSavepoint(environment, job.maxParallelism)
                        .withOperator(OperatorIdentifier.forUid(Shards.NAME), shards(environment, job))
                        .withOperator(OperatorIdentifier.forUid(PerUser.NAME), perUser(environment, job))
                : existing(environment, base).removeOperator(answers);
        writer.withOperator(answers, prices(environment)).write(job.configuration.get("written"));
    }

    private static SavepointWriter existing(StreamExecutionEnvironment environment, String path) {
        try {
            return SavepointWriter.fromExistingSavepoint(environment, path);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static StateBootstrapTransformation<?> shards(StreamExecutionEnvironment environment, Job job) {
        List<Integer> subtasks = IntStream.range(0, job.parallelism).boxed().collect(Collectors.toList());
        DataStream<Integer> toEach = environment
                .fromData(subtasks, Types.INT)
                .partitionCustom((subtask, parallelism) -> subtask, subtask -> subtask);
        return OperatorTransformation.bootstrapWith(toEach).transform(new PutShards(job.parameter("seed", 1)));
    }

    private static StateBootstrapTransformation<?> perUser(StreamExecutionEnvironment environment, Job job) {
        return OperatorTransformation.bootstrapWith(
                        values(environment, Clicks.clicks(job, 1, 0, 1), Clicks.CLICK))
                .keyBy(click -> click.f0, Types.STRING)
                .transform(new PutClicks());
    }

    private static StateBootstrapTransformation<?> prices(StreamExecutionEnvironment environment) {
        return OperatorTransformation.bootstrapWith(
                        values(environment, Revenue.prices(1, 0), Types.TUPLE(Types.STRING, Types.LONG)))
                .transform(new PutPrices());
    }

    private static <T> DataStream<T> values(
            StreamExecutionEnvironment environment, List<Feed.Timed<T>> records, TypeInformation<T> type) {
        return environment.fromData(
                records.stream().map(Feed.Timed::value).collect(Collectors.toList()), type);
    }

    @Override
    public Expected expected(Job source) {
        return new Bootstrapped().expected(source);
    }

    private static final class PutShards extends StateBootstrapFunction<Integer> {
        private static final long serialVersionUID = 1L;

        private final long seed;
        private transient ListState<String> shards;
        private transient ListState<String> owners;

        PutShards(long seed) {
            this.seed = seed;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            shards = context.getOperatorStateStore().getListState(Shards.SHARDS);
            owners = context.getOperatorStateStore().getUnionListState(Shards.OWNERS);
        }

        @Override
        public void processElement(Integer subtask, Context context) throws Exception {
            shards.addAll(Shards.shards(seed, subtask));
            owners.addAll(Shards.owners(subtask));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }

    private static final class PutClicks
            extends KeyedStateBootstrapFunction<String, Tuple3<String, String, Integer>> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(Tuple3<String, String, Integer> click, Context context) throws Exception {
            PerUser.count(click, getRuntimeContext(), context.timerService());
        }
    }

    private static final class PutPrices extends BroadcastStateBootstrapFunction<Tuple2<String, Long>> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(Tuple2<String, Long> price, Context context) throws Exception {
            context.getBroadcastState(Revenue.PRICES).put(price.f0, price.f1);
        }
    }
}
