package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Line;
import harness.ReportingOperator;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A job that assigns records to subtasks by virtual keys: for each subtask, the smallest number that `keyBy` sends to
 * it. It also has a list. Snapshots of this job are inspected, but not restored.
 */
public final class Picked implements Scenario {
    private static final String NAME = "dealt";

    private static final ValueStateDescriptor<Long> SUM = new ValueStateDescriptor<>("sum", Types.LONG);

    /** Returns for each subtask the smallest number that `keyBy` sends to it. */
    private static List<Integer> keys(Job job) {
        int parallelism = job.parallelism(NAME);
        List<Integer> keys = new ArrayList<>();
        for (int subtask = 0; subtask < parallelism; subtask++) {
            int key = 0;
            while (KeyGroupRangeAssignment.assignKeyToParallelOperator(key, job.maxParallelism(NAME), parallelism)
                    != subtask) {
                key++;
            }
            keys.add(key);
        }
        return keys;
    }

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        List<Integer> keys = keys(job);
        Results.collect(
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job))
                        .keyBy(event -> keys.get((int) (event.f0 % keys.size())), Types.INT)
                        .transform(NAME, Types.STRING, new ReportingOperator<>(run, NAME, new Dealt(), List.of(SUM)))
                        .uid(NAME)
                        .setParallelism(job.parallelism(NAME)),
                job, run, NAME);
    }

    @Override
    public Expected expected(Job source) {
        throw new UnsupportedOperationException("nobody restores this job");
    }

    private static final class Dealt extends KeyedProcessFunction<Integer, Tuple3<Long, Integer, Long>, String>
            implements CheckpointedFunction {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(Tuple3<Long, Integer, Long> event, Context context, Collector<String> out)
                throws Exception {
            ValueState<Long> sum = getRuntimeContext().getState(SUM);
            sum.update((sum.value() == null ? 0 : sum.value()) + event.f2);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            ListState<String> pending =
                    context.getOperatorStateStore().getListState(new ListStateDescriptor<>("pending", Types.STRING));
            pending.update(List.of("of subtask " + Line.subtask(getRuntimeContext())));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }
}
