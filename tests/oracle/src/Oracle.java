import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.Executors;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.options.Options;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;

/** Java Paimon as a reader, writer and checker that Headwater's authors did not write; the verbs are in oracle.sh. */
public final class Oracle {
    static final ObjectMapper JSON = new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);
    private static final Set<String> SWITCHES = Set.of("full", "all", "meta", "write-only", "delete");

    interface Sink<T> {
        void accept(T item) throws Exception;
    }

    /** One call: WAREHOUSE DB.TABLE and options, lines in, lines out. */
    static final class Call {
        final List<String> words = new ArrayList<>();
        final Map<String, String> options = new HashMap<>();
        final Map<String, String> table = new HashMap<>();
        final Map<String, String> store = new HashMap<>();
        /** Column and value of each --where. */
        final Map<String, String> where = new LinkedHashMap<>();
        /** The partition of --overwrite; empty for `*`, all of them. */
        Map<String, String> overwrite;
        final BufferedReader in;
        final Sink<String> out;

        Call(List<String> args, BufferedReader in, Sink<String> out) {
            this.in = in;
            this.out = out;
            for (Iterator<String> it = args.iterator(); it.hasNext(); ) {
                String arg = it.next();
                if (!arg.startsWith("--")) {
                    words.add(arg);
                    continue;
                }
                String name = arg.substring(2), value = SWITCHES.contains(name) ? "" : it.next();
                String[] pair = value.split("=", 2);
                switch (name) {
                    case "opt": table.put(pair[0], pair[1]); break;
                    case "conf": store.put(pair[0], pair[1]); break;
                    case "where": where.put(pair[0], pair[1]); break;
                    case "overwrite":
                        if (overwrite == null) overwrite = new HashMap<>();
                        if (value.equals("*")) table.put("dynamic-partition-overwrite", "false");
                        else overwrite.put(pair[0], pair[1]);
                        break;
                    default: options.put(name, value);
                }
            }
        }

        boolean has(String name) {
            return options.containsKey(name);
        }

        Long number(String name) {
            return has(name) ? Long.valueOf(options.get(name)) : null;
        }

        FileIO files(Path path) throws IOException {
            return store.isEmpty() ? new Files() : FileIO.get(path, CatalogContext.create(Options.fromMap(store)));
        }

        FileStoreTable table() throws IOException {
            String[] name = words.get(1).split("\\.", 2);
            if (has("snapshot")) table.put("scan.snapshot-id", options.get("snapshot"));
            if (has("tag")) table.put("scan.tag-name", options.get("tag"));
            Path path = new Path(new Path(words.get(0), name[0] + ".db"), name[1]);
            return FileStoreTableFactory.create(files(path), path).copy(table);
        }
    }

    /** Whether the answer is good: false is a difference or a problem found. */
    static boolean run(String verb, Call call) throws Exception {
        switch (verb) {
            case "read": Reading.read(call); return true;
            case "hash": Reading.hash(call); return true;
            case "diff": return Reading.diff(call);
            case "stream": Reading.stream(call); return true;
            case "info": Reading.info(call); return true;
            case "files": Reading.files(call); return true;
            case "fsck": return Fsck.run(call);
            case "create": Altering.create(call); return true;
            case "alter": Altering.alter(call); return true;
            case "write": Writing.write(call); return true;
            case "compact": Writing.compact(call); return true;
            case "expire": Maintaining.expire(call); return true;
            case "tag": Maintaining.tag(call); return true;
            case "rollback": Maintaining.rollback(call); return true;
            case "drop": Maintaining.drop(call); return true;
            case "truncate": Maintaining.truncate(call); return true;
            case "orphan": Maintaining.orphan(call); return true;
            case "bench": Bench.write(call); return true;
            case "vectors": Writing.vectors(call); return true;
            default: throw new IllegalArgumentException("no verb " + verb);
        }
    }

    /** POST /verb; the body's first line is a JSON array of arguments, what follows is the input. 200, 409 (found something), 500. */
    private static void serve(int port) throws IOException, InterruptedException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 64);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            ByteArrayOutputStream body = new ByteArrayOutputStream();
            Writer writer = new OutputStreamWriter(body, StandardCharsets.UTF_8);
            int status = 200;
            try {
                BufferedReader in = new BufferedReader(new InputStreamReader(exchange.getRequestBody(), StandardCharsets.UTF_8));
                List<String> args = new ArrayList<>();
                JSON.readTree(in.readLine()).forEach(arg -> args.add(arg.asText()));
                String verb = exchange.getRequestURI().getPath().substring(1);
                if (!run(verb, new Call(args, in, line -> writer.append(line).append('\n')))) status = 409;
            } catch (Throwable e) {
                status = 500;
                writer.append(failure(e)).append('\n');
            }
            writer.flush();
            exchange.sendResponseHeaders(status, body.size() == 0 ? -1 : body.size());
            body.writeTo(exchange.getResponseBody());
            exchange.close();
        });
        server.start();
        System.out.println(server.getAddress().getPort());
        while (System.in.read() >= 0) { }   // ends with whoever holds the other end of its input
        System.exit(0);
    }

    private static String failure(Throwable e) {
        StringBuilder text = new StringBuilder("error: ").append(e);
        for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) text.append("; caused by ").append(cause);
        if (System.getenv("ORACLE_TRACE") != null) e.printStackTrace();
        return text.toString();
    }

    static JsonNode json(String text) throws IOException {
        return JSON.readTree(text);
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("serve")) serve(Integer.parseInt(args[1]));
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int status = 2;
        try {
            status = run(args[0], new Call(Arrays.asList(args).subList(1, args.length), in, out::println)) ? 0 : 1;
        } catch (Throwable e) {
            System.err.println(failure(e));
        }
        out.flush();
        System.exit(status);
    }
}
