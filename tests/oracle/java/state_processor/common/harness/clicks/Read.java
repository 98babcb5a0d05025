package harness.clicks;

import harness.Expected;
import harness.Job;
import harness.Listing;
import harness.ReportingOperator;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Set;
import java.util.TreeSet;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.state.api.functions.KeyedStateReaderFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/** Reads the savepoint of `Bootstrapped` that the option `read` names: a result for every value and element. */
public final class Read implements Scenario {
    private static final OperatorIdentifier SHARDS = OperatorIdentifier.forUid(Shards.NAME);

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        try {
            SavepointReader savepoint = SavepointReader.read(environment, job.configuration.get("read"));
            Results.collect(
                    savepoint.readKeyedState(
                            OperatorIdentifier.forUid(PerUser.NAME), new ReadUser(), Types.STRING, Types.STRING),
                    job, run, PerUser.NAME);
            elements(savepoint.readListState(SHARDS, Shards.SHARDS.getName(), Types.STRING), "shards/shards", job, run);
            elements(savepoint.readUnionState(SHARDS, Shards.OWNERS.getName(), Types.STRING), "shards/owners", job, run);
            elements(
                    savepoint
                            .readBroadcastState(
                                    OperatorIdentifier.forUid(Answers.NAME),
                                    Revenue.PRICES.getName(), Types.STRING, Types.LONG)
                            .map(price -> price.f0 + "=" + price.f1)
                            .returns(Types.STRING),
                    "answers/prices", job, run);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void elements(DataStream<String> elements, String state, Job job, Run run) {
        Results.collect(elements.map(element -> state + ": " + element).returns(Types.STRING), job, run, state);
    }

    @Override
    public Expected expected(Job source) {
        return new Bootstrapped().expected(source);
    }

    private static final class ReadUser extends KeyedStateReaderFunction<String, String> {
        private static final long serialVersionUID = 1L;

        private transient ValueState<Long> clicks;
        private transient MapState<String, Long> pages;
        private transient ListState<String> way;

        @Override
        public void open(OpenContext context) {
            clicks = getRuntimeContext().getState(PerUser.CLICKS);
            pages = getRuntimeContext().getMapState(PerUser.PAGES);
            way = getRuntimeContext().getListState(PerUser.WAY);
        }

        /** Method that Flink 1.x calls. */
        public void open(Configuration ignored) {}

        @Override
        public void readKey(String user, Context context, Collector<String> out) throws Exception {
            Set<String> timers = new TreeSet<>();
            context.registeredEventTimeTimers().forEach(time -> timers.add("VoidNamespace@" + time));
            out.collect(line("clicks", user, String.valueOf(clicks.value())));
            out.collect(line("pages", user, Listing.text(pages)));
            out.collect(line("way", user, Listing.text(way)));
            out.collect(line(ReportingOperator.TIMERS + "/event", user, timers.toString()));
        }

        private static String line(String state, String user, String value) {
            return PerUser.NAME + "/" + state + " of " + user + ": " + value;
        }
    }
}
