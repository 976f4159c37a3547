import java.time.Duration;
import java.util.*;
import org.apache.paimon.Snapshot;
import org.apache.paimon.catalog.FileSystemCatalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.Path;
import org.apache.paimon.operation.CleanOrphanFilesResult;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;

/** The verbs that look after a table's past: snapshots, tags, files that nothing refers to. */
final class Maintaining {
    /** Leaves the newest --retain snapshots (1). */
    static void expire(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        int retain = call.has("retain") ? call.number("retain").intValue() : 1;
        ExpireConfig config = ExpireConfig.builder().snapshotRetainMin(retain).snapshotRetainMax(retain)
            .snapshotMaxDeletes(Integer.MAX_VALUE).snapshotTimeRetain(Duration.ZERO).build();
        int expired = table.newExpireSnapshots().config(config).expire();
        call.out.accept("{\"expired\":" + expired + ",\"earliest\":" + table.snapshotManager().earliestSnapshotId() + "}");
    }

    /** create NAME [--snapshot N], delete NAME, list; all print the tags there are then. */
    static void tag(Oracle.Call call) throws Exception {
        Long snapshot = call.number("snapshot");
        call.options.remove("snapshot");   // it says what is tagged, not what is read
        FileStoreTable table = call.table();
        String name = call.words.size() > 3 ? call.words.get(3) : null;
        switch (call.words.get(2)) {
            case "create": if (snapshot == null) table.createTag(name); else table.createTag(name, snapshot); break;
            case "delete": table.deleteTag(name); break;
            case "list": break;
            default: throw new IllegalArgumentException("no verb tag " + call.words.get(2));
        }
        for (Map.Entry<Snapshot, List<String>> tags : table.tagManager().tags().entrySet())
            for (String tag : tags.getValue()) call.out.accept("{\"tag\":" + Oracle.JSON.writeValueAsString(tag) + ",\"snapshot\":" + tags.getKey().id() + "}");
    }

    /** To a snapshot's number or a tag's name. */
    static void rollback(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        String to = call.words.get(2);
        if (to.matches("\\d+")) table.rollbackTo(Long.parseLong(to));
        else table.rollbackTo(to);
        Writing.latest(call, call.table());
    }

    /** The table and all its files. */
    static void drop(Oracle.Call call) throws Exception {
        Path warehouse = new Path(call.words.get(0));
        try (FileSystemCatalog catalog = new FileSystemCatalog(call.files(warehouse), warehouse)) {
            catalog.dropTable(Identifier.fromString(call.words.get(1)), false);
        }
    }

    /** All rows, in an OVERWRITE. */
    static void truncate(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.truncateTable();
        }
        Writing.latest(call, call.table());
    }

    /** Files that nothing refers to, older than --older-than-s seconds (0); deleted only with --delete. */
    static void orphan(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        long age = call.has("older-than-s") ? call.number("older-than-s") : 0;
        // A file written in this very millisecond is older than 0 seconds too.
        long before = System.currentTimeMillis() + 1000 - 1000 * age;
        CleanOrphanFilesResult found = new LocalOrphanFilesClean(table, before, !call.has("delete")).clean();
        String root = table.location().toUri().getPath() + "/";
        List<String> names = new ArrayList<>();
        for (Path path : found.getDeletedFilesPath()) names.add(path.toUri().getPath().replace(root, ""));
        Collections.sort(names);
        for (String name : names) call.out.accept(name);
        call.out.accept(found.getDeletedFileCount() + " orphans, " + found.getDeletedFileTotalLenInBytes() + " bytes");
    }
}
