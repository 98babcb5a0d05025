package harness;

import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * A scenario with its parameters (the seed and the scenario's switches), parallelism and options. `exceptions` and
 * `maxExceptions` give single operators another parallelism and max parallelism. A max parallelism of 0 means that the
 * user never set it, so that Flink computes it. `uids` gives operators other uids than the scenario does.
 */
public final class Job implements Serializable {
    private static final long serialVersionUID = 1L;

    public final String scenario;
    public final Map<String, Long> parameters;
    public final int parallelism;
    public final Map<String, Integer> exceptions;
    public final int maxParallelism;
    public final Map<String, Integer> maxExceptions;
    public final boolean compression;
    public final Map<String, String> configuration;
    public final Map<String, String> uids;

    public Job(JsonNode document) {
        scenario = document.get("scenario").asText();
        parameters = new TreeMap<>();
        document.path("parameters").fields().forEachRemaining(
                field -> parameters.put(field.getKey(), field.getValue().asLong()));
        parallelism = document.get("parallelism").asInt();
        exceptions = new TreeMap<>();
        document.path("exceptions").fields().forEachRemaining(
                field -> exceptions.put(field.getKey(), field.getValue().asInt()));
        maxParallelism = document.path("max_parallelism").asInt(0);
        maxExceptions = new TreeMap<>();
        document.path("max_exceptions").fields().forEachRemaining(
                field -> maxExceptions.put(field.getKey(), field.getValue().asInt()));
        compression = document.path("compression").asBoolean(false);
        configuration = new TreeMap<>();
        document.path("configuration").fields().forEachRemaining(
                field -> configuration.put(field.getKey(), field.getValue().asText()));
        uids = new TreeMap<>();
        document.path("uids").fields().forEachRemaining(
                field -> uids.put(field.getKey(), field.getValue().asText()));
    }

    private Job(Job other) {
        scenario = other.scenario;
        parameters = other.parameters;
        parallelism = 2;
        exceptions = Map.of();
        maxParallelism = 0;
        maxExceptions = Map.of();
        compression = false;
        configuration = Map.of();
        uids = Map.of();
    }

    /** Returns the same scenario with the same input, at parallelism 2 and without options. */
    public Job narrow() {
        return new Job(this);
    }

    public long parameter(String name, long otherwise) {
        return parameters.getOrDefault(name, otherwise);
    }

    public boolean has(String flag) {
        return parameter(flag, 0) != 0;
    }

    public int parallelism(String operator) {
        return exceptions.getOrDefault(operator, parallelism);
    }

    /** Returns the max parallelism that Flink gives this operator in a job that starts without state. */
    public int maxParallelism(String operator) {
        return maxParallelism > 0
                ? maxParallelism
                : KeyGroupRangeAssignment.computeDefaultMaxParallelism(parallelism(operator));
    }
}
