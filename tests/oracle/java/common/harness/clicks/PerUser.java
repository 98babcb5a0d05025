package harness.clicks;

import harness.Expected;
import harness.Feed;
import harness.ReportingOperator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Counts each user's clicks, by page, and lists the pages in order; a timer emits the sums at the end of the day. */
final class PerUser extends KeyedProcessFunction<String, Tuple3<String, String, Integer>, String> {
    private static final long serialVersionUID = 1L;
    static final String NAME = "clicks-per-user";
    static final ValueStateDescriptor<Long> CLICKS = new ValueStateDescriptor<>("clicks", Types.LONG);
    static final MapStateDescriptor<String, Long> PAGES =
            new MapStateDescriptor<>("pages", Types.STRING, Types.LONG);
    static final ListStateDescriptor<String> WAY = new ListStateDescriptor<>("way", Types.STRING);
    static final List<StateDescriptor<?, ?>> STATES = List.of(CLICKS, PAGES, WAY);
    private static final long EVENING = 3 * Feed.PAUSE;

    @Override
    public void processElement(Tuple3<String, String, Integer> click, Context context, Collector<String> out)
            throws Exception {
        long number = count(click, getRuntimeContext(), context.timerService());
        out.collect(click.f0 + " clicks for the " + number + ". time, on " + click.f1);
    }

    /** Adds a click to the state of its user; returns the user's number of clicks. */
    static long count(Tuple3<String, String, Integer> click, RuntimeContext user, TimerService timers)
            throws Exception {
        ValueState<Long> clicks = user.getState(CLICKS);
        MapState<String, Long> pages = user.getMapState(PAGES);
        long number = clicks.value() == null ? 1 : clicks.value() + 1;
        clicks.update(number);
        pages.put(click.f1, pages.contains(click.f1) ? pages.get(click.f1) + 1 : 1);
        user.getListState(WAY).add(click.f1);
        timers.registerEventTimeTimer(EVENING);
        return number;
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
        ListState<String> way = getRuntimeContext().getListState(WAY);
        out.collect(context.getCurrentKey() + " went " + String.join(" > ", way.get()));
    }

    static void expect(Expected expected, String user, List<String> visited) {
        Map<String, Long> pages = new TreeMap<>();
        visited.forEach(page -> pages.merge(page, 1L, Long::sum));
        expected.key(NAME + "/clicks", user, Integer.toString(visited.size()));
        expected.key(NAME + "/pages", user, pages.toString());
        expected.key(NAME + "/way", user, visited.toString());
        expected.key(NAME + "/" + ReportingOperator.TIMERS + "/event", user, "[VoidNamespace@" + EVENING + "]");
    }
}
