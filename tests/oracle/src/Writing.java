import java.util.*;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.bucket.DefaultBucketFunction;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.AppendOnlyFileStoreTable;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.types.*;

/** The verbs that write as another engine does, and the vectors of the format's bytes. */
final class Writing {
    private static final String USER = "oracle";

    private static String user(Oracle.Call call) {
        return call.options.getOrDefault("commit-user", USER);
    }

    /** --identifier, or the one after the user's last. */
    private static long identifier(Oracle.Call call, FileStoreTable table) {
        if (call.has("identifier")) return call.number("identifier");
        return table.snapshotManager().latestSnapshotOfUser(user(call)).map(s -> s.commitIdentifier() + 1).orElse(1L);
    }

    private static TableWriteImpl<?> writer(Oracle.Call call, FileStoreTable table) {
        TableWriteImpl<?> writer = table.newWrite(user(call));
        writer.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
        // As INSERT OVERWRITE of other engines: the buckets may be others than those that are replaced.
        writer.withIgnorePreviousFiles(call.overwrite != null);
        return writer;
    }

    static void latest(Oracle.Call call, FileStoreTable table) throws Exception {
        call.out.accept("{\"latest\":" + table.snapshotManager().latestSnapshotId() + "}");
    }

    /** Nothing is committed when there is nothing to; --overwrite P=V replaces a partition (or with several, all that match). */
    private static void commit(Oracle.Call call, FileStoreTable table, long id, List<CommitMessage> messages) throws Exception {
        messages.removeIf(m -> ((CommitMessageImpl) m).isEmpty());
        if (!messages.isEmpty() || call.overwrite != null) try (TableCommitImpl commit = table.newCommit(user(call))) {
            if (call.overwrite != null) commit.withOverwrite(call.overwrite);
            commit.commit(id, messages);
        }
        latest(call, table);
    }

    /** Input lines: a row, or {"kind":"-D","row":{…}}. --write-only leaves compaction to others. */
    static void write(Oracle.Call call) throws Exception {
        if (call.has("write-only")) call.table.put("write-only", "true");
        FileStoreTable table = call.table();
        long id = identifier(call, table);
        try (TableWriteImpl<?> writer = writer(call, table)) {
            Oracle.Sink<GenericRow> sink = table.bucketMode() == BucketMode.HASH_DYNAMIC ? dynamic(call, table, writer) : writer::write;
            for (String line; (line = call.in.readLine()) != null; ) if (!line.isBlank()) sink.accept(row(table, Oracle.json(line)));
            commit(call, table, id, writer.prepareCommit(true, id));
        }
    }

    private static GenericRow row(FileStoreTable table, JsonNode node) {
        boolean wrapped = node.has("kind") && node.path("row").isObject();
        GenericRow row = Row.parse(table.rowType(), wrapped ? node.get("row") : node);
        if (wrapped) for (RowKind kind : RowKind.values()) if (kind.shortString().equals(node.get("kind").asText())) row.setRowKind(kind);
        return row;
    }

    /** With dynamic buckets the index says which bucket a key is in, and takes in new keys. */
    private static Oracle.Sink<GenericRow> dynamic(Oracle.Call call, FileStoreTable table, TableWriteImpl<?> writer) {
        HashBucketAssigner assigner = new HashBucketAssigner(table.snapshotManager(), user(call), table.store().newIndexFileHandler(),
            1, 1, 0, table.coreOptions().dynamicBucketTargetRowNum(), table.coreOptions().dynamicBucketMaxBuckets());
        RowKeyExtractor key = table.createRowKeyExtractor();
        return row -> {
            key.setRecord(row);
            writer.write(row, assigner.assign(key.partition(), key.trimmedPrimaryKey().hashCode()));
        };
    }

    /** Normal compaction of every bucket, or --full; of an append table without buckets its small files. */
    static void compact(Oracle.Call call) throws Exception {
        call.table.put("write-only", "false");
        FileStoreTable table = call.table();
        long id = identifier(call, table);
        List<CommitMessage> messages = new ArrayList<>();
        try (TableWriteImpl<?> writer = writer(call, table)) {
            if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
                AppendOnlyFileStoreTable append = (AppendOnlyFileStoreTable) table;
                for (AppendCompactTask task : new AppendCompactCoordinator(append, false).run()) messages.add(task.doCompact(append, append.store().newWrite(user(call))));
            } else {
                for (BucketEntry bucket : table.newSnapshotReader().bucketEntries()) writer.compact(bucket.partition(), bucket.bucket(), call.has("full"));
                messages.addAll(writer.prepareCommit(true, id));
            }
            commit(call, table, id, messages);
        }
    }

    /** Input lines: {"types":["INT",…],"values":[…],"buckets":[…]}; output adds the BinaryRow's bytes, its hash and the bucket for each number of buckets. */
    static void vectors(Oracle.Call call) throws Exception {
        for (String line; (line = call.in.readLine()) != null; ) {
            JsonNode node = Oracle.json(line);
            List<DataField> fields = new ArrayList<>();
            for (JsonNode type : node.get("types")) fields.add(new DataField(fields.size(), "f" + fields.size(), Altering.type(type.asText())));
            GenericRow values = new GenericRow(fields.size());
            for (int i = 0; i < fields.size(); i++) values.setField(i, Row.parse(fields.get(i).type(), node.get("values").get(i)));
            RowType type = new RowType(fields);
            BinaryRow row = new InternalRowSerializer(type).toBinaryRow(values);
            Map<String, Object> out = Oracle.JSON.convertValue(node, LinkedHashMap.class);
            StringBuilder hex = new StringBuilder();
            for (byte b : row.toBytes()) hex.append(String.format("%02x", b));
            List<Integer> buckets = new ArrayList<>();
            for (JsonNode n : node.path("buckets")) buckets.add(new DefaultBucketFunction().bucket(row, n.asInt()));
            out.put("bytes", hex.toString());
            out.put("hash", row.hashCode());
            out.put("bucket", buckets);
            call.out.accept(Oracle.JSON.writeValueAsString(out));
        }
    }
}
