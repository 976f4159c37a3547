import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.paimon.Snapshot;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.*;
import org.apache.paimon.types.RowType;

/** The verbs that only look. */
final class Reading {
    static <T> void each(RecordReader<T> reader, Oracle.Sink<T> sink) throws Exception {
        try (reader) {
            for (RecordReader.RecordIterator<T> batch; (batch = reader.readBatch()) != null; batch.releaseBatch())
                for (T item; (item = batch.next()) != null; ) sink.accept(item);
        }
    }

    /** Rows for which every --where COLUMN=VALUE holds; the value is as in canonical lines, without quotes, or `null`. */
    private static ReadBuilder builder(Oracle.Call call, FileStoreTable table) {
        ReadBuilder builder = table.newReadBuilder();
        PredicateBuilder predicate = new PredicateBuilder(table.rowType());
        for (Map.Entry<String, String> e : call.where.entrySet()) {
            int column = table.rowType().getFieldIndex(e.getKey());
            if (column < 0) throw new IllegalArgumentException("no column " + e.getKey());
            Object value = Row.parse(table.rowType().getTypeAt(column), Oracle.JSON.valueToTree(e.getValue()));
            builder.withFilter(e.getValue().equals("null") ? predicate.isNull(column) : predicate.equal(column, value));
        }
        return builder;
    }

    private static void rows(Oracle.Call call, Oracle.Sink<String> sink) throws Exception {
        FileStoreTable table = call.table();
        Row row = new Row(table.rowType());
        ReadBuilder builder = builder(call, table);
        for (Split split : builder.newScan().plan().splits())
            each(builder.newRead().executeFilter().createReader(split), r -> {
                if (r.getRowKind().isRetract()) throw new IllegalStateException("a batch read gave a delete: " + row.text(r));
                sink.accept(row.text(r));
            });
    }

    /** Canonical lines in the order of their bytes. */
    static void read(Oracle.Call call) throws Exception {
        List<byte[]> lines = new ArrayList<>();
        rows(call, line -> lines.add(line.getBytes(StandardCharsets.UTF_8)));
        lines.sort(Arrays::compareUnsigned);
        for (byte[] line : lines) call.out.accept(new String(line, StandardCharsets.UTF_8));
    }

    /** Number of rows and the wrapping sum of their hashes. */
    static void hash(Oracle.Call call) throws Exception {
        long[] sum = new long[2];
        rows(call, line -> {
            sum[0]++;
            sum[1] += Row.hash(line);
        });
        call.out.accept(String.format("{\"count\":%d,\"hash\":\"%016x\"}", sum[0], sum[1]));
    }

    /** The table against the canonical lines of the input, as multisets. */
    static boolean diff(Oracle.Call call) throws Exception {
        Map<String, Integer> surplus = new TreeMap<>();
        for (String line; (line = call.in.readLine()) != null; ) if (!line.isEmpty()) surplus.merge(line, -1, Integer::sum);
        rows(call, line -> surplus.merge(line, 1, (a, b) -> a + b == 0 ? null : a + b));
        int shown = 0;
        for (Map.Entry<String, Integer> e : surplus.entrySet())
            if (shown++ < 40) call.out.accept((e.getValue() < 0 ? "missing " : "surplus ") + Math.abs(e.getValue()) + " × " + e.getKey());
        call.out.accept(surplus.isEmpty() ? "equal" : surplus.size() + " rows differ");
        return surplus.isEmpty();
    }

    /** What a streaming reader sees of snapshots --from (default the first) to --to (the newest): kind, snapshot and row. */
    static void stream(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        Row row = new Row(table.rowType());
        StreamTableScan scan = table.newStreamScan();
        scan.restore(call.has("from") ? call.number("from") : 1L);
        long to = call.has("to") ? call.number("to") : Long.MAX_VALUE;
        for (Long before = null; !Objects.equals(before, scan.checkpoint()) && scan.checkpoint() <= to; ) {
            before = scan.checkpoint();
            for (Split split : scan.plan().splits()) {
                long snapshot = split instanceof DataSplit ? ((DataSplit) split).snapshotId() : scan.checkpoint() - 1;
                if (snapshot > to) return;   // those between had no changes
                each(table.newRead().createReader(split), r -> call.out.accept(
                    "{\"kind\":\"" + r.getRowKind().shortString() + "\",\"snapshot\":" + snapshot + ",\"row\":" + row.text(r) + "}"));
            }
        }
    }

    /** The newest schema, then every snapshot, each as it stands in its file. */
    static void info(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        call.out.accept(Oracle.json(table.schemaManager().latest().orElseThrow().toString()).toString());
        for (Iterator<Snapshot> it = table.snapshotManager().snapshots(); it.hasNext(); )
            call.out.accept(Oracle.json(table.fileIO().readFileUtf8(table.snapshotManager().snapshotPath(it.next().id()))).toString());
    }

    static Snapshot snapshot(Oracle.Call call, FileStoreTable table) {
        return call.has("snapshot") ? table.snapshotManager().snapshot(call.number("snapshot")) : table.snapshotManager().latestSnapshot();
    }

    /** The live data files; --meta adds statistics. */
    static void files(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        Snapshot snapshot = snapshot(call, table);
        if (snapshot == null) return;
        RowType keyType = new RowType(table.schema().trimmedPrimaryKeysFields());
        for (ManifestEntry e : table.store().newScan().withSnapshot(snapshot).plan().files()) {
            DataFileMeta f = e.file();
            Map<String, Object> m = new LinkedHashMap<>();
            m.put("partition", Oracle.json(new Row(table.store().partitionType()).text(e.partition())));
            m.put("bucket", e.bucket());
            m.put("totalBuckets", e.totalBuckets());
            m.put("level", f.level());
            m.put("file", f.fileName());
            m.put("size", f.fileSize());
            m.put("rows", f.rowCount());
            m.put("deletes", f.deleteRowCount().orElse(null));
            m.put("schema", f.schemaId());
            m.put("sequence", List.of(f.minSequenceNumber(), f.maxSequenceNumber()));
            if (!f.minKey().equals(BinaryRow.EMPTY_ROW))
                m.put("keys", List.of(Oracle.json(new Row(keyType).text(f.minKey())), Oracle.json(new Row(keyType).text(f.maxKey()))));
            if (call.has("meta")) {
                RowType type = table.schemaManager().schema(f.schemaId()).logicalRowType();
                m.put("keyStats", stats(keyType, f.keyStats()));
                m.put("valueStats", stats(f.valueStatsCols() == null ? type : type.project(f.valueStatsCols()), f.valueStats()));
            }
            call.out.accept(Oracle.JSON.writeValueAsString(m));
        }
    }

    /** {"column": [min, max, nulls]} */
    private static Map<String, Object> stats(RowType type, SimpleStats stats) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        Row row = new Row(type);
        for (int i = 0; i < Math.min(type.getFieldCount(), stats.minValues().getFieldCount()); i++) {
            StringBuilder text = new StringBuilder("[");
            for (InternalRow bound : List.of(stats.minValues(), stats.maxValues())) {
                Row.value(text, type.getTypeAt(i), row.get(bound, i));
                text.append(',');
            }
            boolean unknown = stats.nullCounts().size() <= i || stats.nullCounts().isNullAt(i);
            all.put(type.getFieldNames().get(i), Oracle.json(text.append(unknown ? "null" : "" + stats.nullCounts().getLong(i)).append(']').toString()));
        }
        return all;
    }
}
