package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.catalog.GenericInMemoryCatalog;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.lookup.AsyncLookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.Factory;
import org.apache.flink.table.functions.AsyncLookupFunction;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;

/**
 * A lookup join and a delta join, which look up rows of a table asynchronously and answer the rows of a key in order.
 * All answers come in the second phase, so all rows of the first phase wait in keyed state, each with the watermark
 * before it. Chaining is off, as in `Queries`. Parameters: `seed`, `keys`.
 */
public final class Waiting implements Scenario {
    private static final String CATALOG = "answers";
    private static final String DATABASE = "all";

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        environment.disableOperatorChaining();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.getConfig().set("table.exec.async-lookup.key-ordered-enabled", "true");
        tables.getConfig().set("table.exec.async-lookup.output-mode", "ALLOW_UNORDERED");
        tables.getConfig().set("table.optimizer.non-deterministic-update.strategy", "IGNORE");
        tables.getConfig().set("table.optimizer.delta-join.strategy", "FORCE");
        tables.getConfig().set("table.exec.delta-join.cache-enabled", "false");
        tables.getConfig().set("table.exec.sink.upsert-materialize", "NONE");
        tables.getConfig().set("table.exec.sink.require-on-conflict", "false");
        tables.registerCatalog(CATALOG, new Answers(job, run));
        tables.useCatalog(CATALOG);
        Schema schema = Schema.newBuilder()
                .column("f0", "BIGINT NOT NULL")
                .column("f1", "INT")
                .column("f2", "BIGINT")
                .primaryKey("f0")
                .index("f0")
                .build();
        for (String name : List.of("asked", "lefts", "rights", "prices")) {
            tables.createTable(name, TableDescriptor.forConnector(name).schema(schema).build());
        }
        String sums = "(SELECT *, PROCTIME() AS now FROM (SELECT f0 + 0 AS f0, SUM(f2) AS total FROM asked GROUP BY f0 + 0))";
        add(
                tables.sqlQuery("SELECT a.f0, a.total, b.f2 FROM " + sums
                        + " AS a JOIN prices FOR SYSTEM_TIME AS OF a.now AS b ON a.f0 = b.f0"),
                ChangelogMode.all(), Schema.derived(), tables, job, run, "lookup");
        Schema joined = Schema.newBuilder()
                .column("f0", "BIGINT NOT NULL")
                .column("left_f2", "BIGINT")
                .column("right_f2", "BIGINT")
                .primaryKey("f0")
                .build();
        add(
                tables.sqlQuery("SELECT a.f0, a.f2 AS left_f2, b.f2 AS right_f2 FROM lefts a JOIN rights b ON a.f0 = b.f0"),
                ChangelogMode.upsert(false), joined, tables, job, run, "delta");
    }

    private static void add(
            Table query, ChangelogMode mode, Schema schema, StreamTableEnvironment tables, Job job, Run run, String name) {
        Results.net(
                tables.toChangelogStream(query, schema, mode).map(Object::toString).returns(Types.STRING).uid("changes-" + name),
                job, run, name);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    /** Tables that are read from a feed of their name, and in which every key has a row. */
    private static final class Answers extends GenericInMemoryCatalog implements DynamicTableSourceFactory {
        private final Job job;
        private final Run run;

        Answers(Job job, Run run) {
            super(CATALOG, DATABASE);
            this.job = job;
            this.run = run;
        }

        @Override
        public Optional<Factory> getFactory() {
            return Optional.of(this);
        }

        @Override
        public String factoryIdentifier() {
            return CATALOG;
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of();
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of();
        }

        @Override
        public DynamicTableSource createDynamicTableSource(Context context) {
            String name = context.getObjectIdentifier().getObjectName();
            return new Source(name, InternalTypeInfo.of(context.getPhysicalRowDataType().getLogicalType()), job, run);
        }
    }

    private record Source(String name, InternalTypeInfo<RowData> type, Job job, Run run)
            implements ScanTableSource, LookupTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(
                        ProviderContext context, StreamExecutionEnvironment environment) {
                    return Feed.add(environment, job, run, name, Events.TYPE, new Events(job))
                            .<RowData>map(event -> GenericRowData.of(event.f0, event.f1, event.f2))
                            .returns(type)
                            .uid("rows-of-" + name);
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return AsyncLookupFunctionProvider.of(new Lookup(run.id));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return name;
        }
    }

    /** Answers in the second phase. */
    public static final class Lookup extends AsyncLookupFunction {
        private static final long serialVersionUID = 1L;

        private final String run;

        Lookup(String run) {
            this.run = run;
        }

        @Override
        public CompletableFuture<Collection<RowData>> asyncLookup(RowData key) {
            long user = key.getLong(0);
            CompletableFuture<Collection<RowData>> answer = new CompletableFuture<>();
            Run.of(run).inSecondPhase(() -> answer.complete(List.of(GenericRowData.of(user, 0, user * 7))));
            return answer;
        }
    }
}
