import java.util.*;
import org.apache.paimon.bucket.DefaultBucketFunction;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.types.*;

/** The verbs that write as another engine does, and the vectors of the format's bytes. */
final class Writing {
    private static final String USER = "oracle";

    /** Input: {"columns":[["id","BIGINT NOT NULL"],…],"primaryKeys":[…],"partitionKeys":[…],"options":{…}} */
    static void create(Oracle.Call call) throws Exception {
        JsonNode node = Oracle.json(call.in.readLine());
        Schema.Builder schema = Schema.newBuilder();
        List<String> keys = new ArrayList<>(), partition = new ArrayList<>();
        node.path("columns").forEach(c -> schema.column(c.get(0).asText(), type(c.get(1).asText())));
        node.path("primaryKeys").forEach(k -> keys.add(k.asText()));
        node.path("partitionKeys").forEach(k -> partition.add(k.asText()));
        node.path("options").fields().forEachRemaining(o -> schema.option(o.getKey(), o.getValue().asText()));
        String[] name = call.words.get(1).split("\\.", 2);
        Path path = new Path(new Path(call.words.get(0), name[0] + ".db"), name[1]);
        new SchemaManager(LocalFileIO.create(), path).createTable(schema.primaryKey(keys).partitionKeys(partition).build());
    }

    private static DataType type(String text) {
        return DataTypeJsonParser.parseAtomicTypeSQLString(text);
    }

    private static long identifier(FileStoreTable table) {
        return table.snapshotManager().latestSnapshotOfUser(USER).map(s -> s.commitIdentifier() + 1).orElse(1L);
    }

    private static TableWriteImpl<?> writer(FileStoreTable table) {
        TableWriteImpl<?> writer = table.newWrite(USER);
        writer.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
        return writer;
    }

    private static void commit(Oracle.Call call, FileStoreTable table, TableWriteImpl<?> writer) throws Exception {
        long id = identifier(table);
        List<CommitMessage> messages = writer.prepareCommit(true, id);
        messages.removeIf(m -> ((CommitMessageImpl) m).isEmpty());
        if (!messages.isEmpty()) try (TableCommitImpl commit = table.newCommit(USER)) {
            commit.commit(id, messages);
        }
        call.out.accept("{\"latest\":" + table.snapshotManager().latestSnapshotId() + "}");
    }

    /** Input lines: a row, or {"kind":"-D","row":{…}}. */
    static void write(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        try (TableWriteImpl<?> writer = writer(table)) {
            for (String line; (line = call.in.readLine()) != null; ) {
                if (line.isBlank()) continue;
                JsonNode node = Oracle.json(line);
                boolean wrapped = node.has("kind") && node.path("row").isObject();
                GenericRow row = Row.parse(table.rowType(), wrapped ? node.get("row") : node);
                if (wrapped) for (RowKind kind : RowKind.values()) if (kind.shortString().equals(node.get("kind").asText())) row.setRowKind(kind);
                writer.write(row);
            }
            commit(call, table, writer);
        }
    }

    /** Normal compaction of every bucket, or --full. */
    static void compact(Oracle.Call call) throws Exception {
        call.table.put("write-only", "false");
        FileStoreTable table = call.table();
        try (TableWriteImpl<?> writer = writer(table)) {
            for (BucketEntry bucket : table.newSnapshotReader().bucketEntries()) writer.compact(bucket.partition(), bucket.bucket(), call.has("full"));
            commit(call, table, writer);
        }
    }

    /** Input lines: {"types":["INT",…],"values":[…],"buckets":[…]}; output adds the BinaryRow's bytes, its hash and the bucket for each number of buckets. */
    static void vectors(Oracle.Call call) throws Exception {
        for (String line; (line = call.in.readLine()) != null; ) {
            JsonNode node = Oracle.json(line);
            List<DataField> fields = new ArrayList<>();
            for (JsonNode type : node.get("types")) fields.add(new DataField(fields.size(), "f" + fields.size(), type(type.asText())));
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
