package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/** Patterns that begin in the first phase and end in the second. Parameters: `seed`, `keys`. */
public final class Cep implements Scenario {
    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        DataStream<Tuple3<Long, Integer, Long>> events =
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job));
        Pattern<Tuple3<Long, Integer, Long>, ?> pattern =
                Pattern.<Tuple3<Long, Integer, Long>>begin("first")
                        .where(new Starts())
                        .followedByAny("then");
        Results.collect(
                CEP.pattern(events.keyBy(event -> event.f0, Types.LONG), pattern)
                        .process(new Matched(), Types.STRING)
                        .uid("pattern")
                        .setParallelism(job.parallelism("pattern")),
                job, run, "pattern");
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    private static final class Starts extends SimpleCondition<Tuple3<Long, Integer, Long>> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean filter(Tuple3<Long, Integer, Long> event) {
            return event.f1 % 2 == 0;
        }
    }

    private static final class Matched extends PatternProcessFunction<Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processMatch(
                Map<String, List<Tuple3<Long, Integer, Long>>> match, Context context, Collector<String> out) {
            out.collect(match.get("first") + " then " + match.get("then"));
        }
    }
}
