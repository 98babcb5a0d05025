package harness;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Reads a command per line (a JSON object with `command`, `timeout` in seconds, and its arguments) and answers each
 * with a line: `{"result": ...}` or `{"error": ..., "trace": [...]}`. Standard output has only answers; Flink's output
 * goes to standard error. The server ends when its input ends.
 */
public final class Server {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Cases cases;

    private Server(Cases cases) {
        this.cases = cases;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Path work = Files.createDirectories(Path.of(arguments[0]));
        Map<String, String> options = new LinkedHashMap<>();
        JSON.readTree(arguments[1]).fields().forEachRemaining(
                option -> options.put(option.getKey(), option.getValue().asText()));
        try (Cluster cluster = new Cluster(work, options)) {
            Server server = new Server(new Cases(cluster));
            answers.println("{\"result\": \"ready\"}");
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                answers.println(JSON.writeValueAsString(server.answer(line)));
            }
        }
        System.exit(0);
    }

    private Map<String, Object> answer(String line) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            JsonNode request = JSON.readTree(line);
            answer.put("result", run(request, new Deadline(request.get("timeout").asDouble())));
        } catch (Throwable error) {
            error.printStackTrace();
            answer.put("error", JobFailed.chain(error));
            List<String> trace = new ArrayList<>();
            for (StackTraceElement element : error.getStackTrace()) {
                trace.add(element.toString());
            }
            answer.put("trace", trace);
        }
        return answer;
    }

    private Object run(JsonNode request, Deadline deadline) throws Exception {
        return switch (request.get("command").asText()) {
            case "snapshot" -> cases.snapshot(request, deadline);
            case "restore" -> cases.restore(request, deadline);
            case "run" -> cases.run(request, deadline);
            case "collect" -> cases.collect(request, deadline);
            case "describe" -> Description.of(Path.of(request.get("path").asText()));
            case "expected" -> Cases.expected(new Job(request.get("job")));
            case "redistribute" -> redistribute(request);
            case "key_groups" -> keyGroups(request);
            case "missing_classes" -> missingClasses(request);
            case "key_types" -> Keys.types();
            case "keys" -> Keys.of(
                    request.get("type").asText(),
                    request.get("seed").asLong(),
                    request.get("count").asInt(),
                    request.get("max_parallelism").asInt());
            default -> throw new IllegalArgumentException("no command: " + request.get("command"));
        };
    }

    /** Returns those of the classes `names` that this Flink lacks. */
    private static List<String> missingClasses(JsonNode request) {
        List<String> missing = new ArrayList<>();
        for (JsonNode name : request.get("names")) {
            try {
                Class.forName(name.asText(), false, Server.class.getClassLoader());
            } catch (ClassNotFoundException gone) {
                missing.add(name.asText());
            }
        }
        return missing;
    }

    /** Answers with the pieces of each new subtask; `old` has a list of {name, mode, elements} per old subtask. */
    private static Object redistribute(JsonNode request) {
        List<List<Redistribution.Part>> old = new ArrayList<>();
        for (JsonNode subtask : request.get("old")) {
            List<Redistribution.Part> parts = new ArrayList<>();
            for (JsonNode part : subtask) {
                parts.add(new Redistribution.Part(
                        part.get("name").asText(),
                        part.get("mode").asText(),
                        part.get("elements").asInt()));
            }
            old.add(parts);
        }
        List<Object> answer = new ArrayList<>();
        for (List<Redistribution.Piece> pieces :
                Redistribution.pieces(old, old.size(), request.get("parallelism").asInt())) {
            List<Object> shown = new ArrayList<>();
            for (Redistribution.Piece piece : pieces) {
                shown.add(Map.of("name", piece.name(), "from", piece.from(), "elements", piece.numbers()));
            }
            answer.add(shown);
        }
        return answer;
    }

    /**
     * Returns values of `KeyGroupRangeAssignment` for lists of inputs: `hashes` [hash, max parallelism], `ranges` [max
     * parallelism, parallelism, subtask], `owners` [max parallelism, parallelism, key group], `defaults` parallelism.
     */
    private static Object keyGroups(JsonNode request) {
        List<Integer> groups = new ArrayList<>();
        for (JsonNode pair : request.path("hashes")) {
            groups.add(KeyGroupRangeAssignment.computeKeyGroupForKeyHash(
                    pair.get(0).asInt(), pair.get(1).asInt()));
        }
        List<List<Integer>> ranges = new ArrayList<>();
        for (JsonNode triple : request.path("ranges")) {
            KeyGroupRange range = KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(
                    triple.get(0).asInt(), triple.get(1).asInt(), triple.get(2).asInt());
            ranges.add(List.of(range.getStartKeyGroup(), range.getEndKeyGroup()));
        }
        List<Integer> owners = new ArrayList<>();
        for (JsonNode triple : request.path("owners")) {
            owners.add(KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(
                    triple.get(0).asInt(), triple.get(1).asInt(), triple.get(2).asInt()));
        }
        List<Integer> defaults = new ArrayList<>();
        for (JsonNode parallelism : request.path("defaults")) {
            defaults.add(KeyGroupRangeAssignment.computeDefaultMaxParallelism(parallelism.asInt()));
        }
        return Map.of("groups", groups, "ranges", ranges, "owners", owners, "defaults", defaults);
    }
}
