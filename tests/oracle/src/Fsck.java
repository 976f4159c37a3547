import java.util.*;
import java.util.stream.Collectors;
import org.apache.paimon.KeyValueFileStore;
import org.apache.paimon.Snapshot;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.format.parquet.ParquetUtil;
import org.apache.paimon.fs.Path;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.KeyValueFileReaderFactory;
import org.apache.paimon.manifest.*;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.table.*;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.types.*;
import org.apache.paimon.utils.InternalRowUtils;

/**
 * Walks a table from its snapshots down to every row and holds what it finds against what the metadata
 * says: sizes, counts, order, key ranges of files and levels, sequence numbers, buckets, statistics, field ids. A
 * problem is a line.
 */
final class Fsck {
    final FileStoreTable table;
    private final Oracle.Call call;
    private final Indexes indexes = new Indexes(this);
    private final Set<String> seen = new HashSet<>();
    private long problems, rows;

    private Fsck(FileStoreTable table, Oracle.Call call) {
        this.table = table;
        this.call = call;
    }

    /** The newest snapshot, --snapshot N or --all. */
    static boolean run(Oracle.Call call) throws Exception {
        FileStoreTable table = call.table();
        Fsck fsck = new Fsck(table, call);
        List<Snapshot> snapshots = new ArrayList<>();
        if (call.has("all")) table.snapshotManager().snapshots().forEachRemaining(snapshots::add);
        else if (Reading.snapshot(call, table) != null) snapshots.add(Reading.snapshot(call, table));
        for (Snapshot snapshot : snapshots) fsck.snapshot(snapshot);
        call.out.accept(snapshots.size() + " snapshots, " + fsck.seen.size() + " files, " + fsck.rows + " rows, " + fsck.problems + " problems");
        return fsck.problems == 0;
    }

    void check(boolean right, String where, String what) throws Exception {
        if (right) return;
        problems++;
        call.out.accept(where + ": " + what);
    }

    void same(Object actual, Object stated, String where, String what) throws Exception {
        check(Objects.equals(actual, stated), where, what + " is " + actual + ", metadata says " + stated);
    }

    boolean file(Path path, Long size) throws Exception {
        boolean exists = table.fileIO().exists(path);
        check(exists, path.getName(), "is missing");
        if (exists && size != null) same(table.fileIO().getFileSize(path), size, path.getName(), "size");
        return exists;
    }

    // ---- manifests

    private List<ManifestEntry> entries(String list, Long size) throws Exception {
        List<ManifestEntry> all = new ArrayList<>();
        if (list == null || !file(table.store().pathFactory().toManifestListPath(list), size)) return all;
        for (ManifestFileMeta m : table.store().manifestListFactory().create().read(list)) {
            if (!file(table.store().pathFactory().toManifestFilePath(m.fileName()), m.fileSize())) continue;
            List<ManifestEntry> entries = table.store().manifestFileFactory().create().read(m.fileName());
            long added = entries.stream().filter(e -> e.kind() == FileKind.ADD).count();
            same(added, m.numAddedFiles(), m.fileName(), "number of added files");
            same(entries.size() - added, m.numDeletedFiles(), m.fileName(), "number of deleted files");
            all.addAll(entries);
        }
        return all;
    }

    private static long records(List<ManifestEntry> entries) {
        return entries.stream().mapToLong(e -> (e.kind() == FileKind.ADD ? 1 : -1) * e.file().rowCount()).sum();
    }

    private void snapshot(Snapshot s) throws Exception {
        String at = "snapshot-" + s.id();
        List<ManifestEntry> base = entries(s.baseManifestList(), s.baseManifestListSize());
        List<ManifestEntry> delta = entries(s.deltaManifestList(), s.deltaManifestListSize());
        same(records(delta), s.deltaRecordCount(), at, "deltaRecordCount");
        same(records(base) + records(delta), s.totalRecordCount(), at, "totalRecordCount");
        if (s.changelogManifestList() != null) same(records(changelog(s)), s.changelogRecordCount(), at, "changelogRecordCount");
        base.addAll(delta);
        Map<Object, Integer> count = new HashMap<>();
        for (ManifestEntry e : base) count.merge(e.identifier(), e.kind() == FileKind.ADD ? 1 : -1, Integer::sum);
        Map<Object, ManifestEntry> live = new LinkedHashMap<>();
        for (ManifestEntry e : base) {
            int n = count.get(e.identifier());
            check(n == 0 || n == 1, at, e.file().fileName() + " is added " + n + " times more than deleted");
            if (n == 1 && e.kind() == FileKind.ADD) live.put(e.identifier(), e);
        }
        Map<List<Object>, List<DataFileMeta>> runs = new LinkedHashMap<>();
        for (ManifestEntry e : live.values()) {
            if (e.file().level() > 0) runs.computeIfAbsent(List.of(e.partition(), e.bucket(), e.file().level()), k -> new ArrayList<>()).add(e.file());
            if (!seen.add(e.file().fileName())) continue;
            try {
                data(e);
            } catch (Exception x) {
                check(false, e.file().fileName(), "cannot be read: " + x);
            }
        }
        for (Map.Entry<List<Object>, List<DataFileMeta>> run : runs.entrySet()) disjoint(at, run.getKey(), run.getValue());
        indexes.snapshot(s, live.values());
    }

    private List<ManifestEntry> changelog(Snapshot s) throws Exception {
        List<ManifestEntry> entries = entries(s.changelogManifestList(), s.changelogManifestListSize());
        for (ManifestEntry e : entries)
            file(table.store().pathFactory().createDataFilePathFactory(e.partition(), e.bucket()).toPath(e.file()), e.file().fileSize());
        return entries;
    }

    /** A level above 0 is one sorted run: the key ranges of its files must not overlap. */
    private void disjoint(String at, List<Object> where, List<DataFileMeta> files) throws Exception {
        Comparator<InternalRow> order = ((KeyValueFileStore) table.store()).newKeyComparator();
        files.sort((x, y) -> order.compare(x.minKey(), y.minKey()));
        for (int i = 1; i < files.size(); i++)
            check(order.compare(files.get(i - 1).maxKey(), files.get(i).minKey()) < 0, at, "bucket " + where.get(1) + ", level " + where.get(2)
                + ": " + files.get(i - 1).fileName() + " and " + files.get(i).fileName() + " overlap");
    }

    // ---- data files

    /** Nulls, least and greatest value of one column. */
    private static final class Bounds {
        final DataType type;
        long nulls;
        Object min, max;

        Bounds(DataType type) {
            this.type = type;
        }

        int compare(Object x, Object y) {
            return x instanceof Boolean ? Boolean.compare((Boolean) x, (Boolean) y) : InternalRowUtils.compare(x, y, type.getTypeRoot());
        }

        void add(Object v) {
            if (v == null) {
                nulls++;
                return;
            }
            if (type.is(DataTypeFamily.CONSTRUCTED) || type.isAnyOf(DataTypeRoot.BINARY, DataTypeRoot.VARBINARY)) return;
            if (v instanceof Number && Double.isNaN(((Number) v).doubleValue())) return;
            if (min == null || compare(v, min) < 0) min = InternalRowUtils.copy(v, type);
            if (max == null || compare(v, max) > 0) max = InternalRowUtils.copy(v, type);
        }
    }

    private static List<Bounds> bounds(RowType type) {
        return type.getFieldTypes().stream().map(Bounds::new).collect(Collectors.toList());
    }

    private void data(ManifestEntry e) throws Exception {
        DataFileMeta f = e.file();
        String at = f.fileName();
        Path path = table.store().pathFactory().createDataFilePathFactory(e.partition(), e.bucket()).toPath(f);
        if (!file(path, f.fileSize())) return;
        FileStoreTable writer = table.copy(table.schemaManager().schema(f.schemaId()));
        if (e.totalBuckets() > 0) writer = writer.copy(Map.of("bucket", "" + e.totalBuckets()));
        if (at.endsWith(".parquet")) columns(at, path, f, writer.schema());
        if (table.primaryKeys().isEmpty()) {
            appended(e, writer);
            return;
        }
        KeyValueFileReaderFactory.Builder readers = ((KeyValueFileStore) writer.store()).newReaderFactoryBuilder();
        Comparator<InternalRow> order = ((KeyValueFileStore) writer.store()).newKeyComparator();
        RowType keyType = readers.keyType(), valueType = writer.schema().logicalRowType();
        Row key = new Row(keyType), value = new Row(valueType);
        List<Bounds> keys = bounds(keyType), values = bounds(valueType);
        RowKeyExtractor extractor = writer.createRowKeyExtractor();
        boolean fixed = writer.bucketMode() == BucketMode.HASH_FIXED;
        InternalRow[] edge = new InternalRow[2];   // first and last key
        long[] n = {0, 0, Long.MAX_VALUE, Long.MIN_VALUE};   // rows, deletes, least and greatest sequence number
        Reading.each(readers.build(e.partition(), e.bucket(), DeletionVector.emptyFactory()).createRecordReader(f), kv -> {
            InternalRow k = InternalRowUtils.copyInternalRow(kv.key(), keyType);
            if (edge[0] == null) edge[0] = k;
            else check(order.compare(edge[1], k) < 0, at, "out of order at key " + key.text(k));
            edge[1] = k;
            n[0]++;
            if (kv.valueKind().isRetract()) n[1]++;
            n[2] = Math.min(n[2], kv.sequenceNumber());
            n[3] = Math.max(n[3], kv.sequenceNumber());
            for (int i = 0; i < keys.size(); i++) keys.get(i).add(key.get(k, i));
            for (int i = 0; i < values.size(); i++) values.get(i).add(value.get(kv.value(), i));
            extractor.setRecord(kv.value());
            check(extractor.partition().equals(e.partition()), at, "row of another partition: " + value.text(kv.value()));
            check(!fixed || extractor.bucket() == e.bucket(), at, "row of another bucket: " + value.text(kv.value()));
            if (table.bucketMode() == BucketMode.HASH_DYNAMIC) indexes.hashes.computeIfAbsent(at, x -> new HashSet<>()).add(extractor.trimmedPrimaryKey().hashCode());
        });
        rows += n[0];
        same(n[0], f.rowCount(), at, "row count");
        same(n[1], f.deleteRowCount().orElse(null), at, "delete row count");
        same(n[2], f.minSequenceNumber(), at, "least sequence number");
        same(n[3], f.maxSequenceNumber(), at, "greatest sequence number");
        if (edge[0] != null) {
            check(order.compare(edge[0], f.minKey()) == 0, at, "min key is " + key.text(edge[0]) + ", metadata says " + key.text(f.minKey()));
            check(order.compare(edge[1], f.maxKey()) == 0, at, "max key is " + key.text(edge[1]) + ", metadata says " + key.text(f.maxKey()));
        }
        statistics(at + " key", keyType, keyType.getFieldNames(), keys, f.keyStats());
        statistics(at, valueType, f.valueStatsCols() == null ? valueType.getFieldNames() : f.valueStatsCols(), values, f.valueStats());
    }

    /** A file of a table without a primary key. */
    private void appended(ManifestEntry e, FileStoreTable writer) throws Exception {
        DataFileMeta f = e.file();
        RowType type = writer.schema().logicalRowType();
        Row value = new Row(type);
        List<Bounds> values = bounds(type);
        RowKeyExtractor extractor = writer.createRowKeyExtractor();
        boolean fixed = writer.bucketMode() == BucketMode.HASH_FIXED;
        long[] n = {0};
        DataSplit split = DataSplit.builder().withSnapshot(1).withPartition(e.partition()).withBucket(e.bucket()).withTotalBuckets(e.totalBuckets())
            .withBucketPath(table.store().pathFactory().bucketPath(e.partition(), e.bucket()).toString()).withDataFiles(List.of(f)).build();
        Reading.each(writer.newRead().createReader(split), row -> {
            n[0]++;
            for (int i = 0; i < values.size(); i++) values.get(i).add(value.get(row, i));
            extractor.setRecord(row);
            check(extractor.partition().equals(e.partition()), f.fileName(), "row of another partition: " + value.text(row));
            check(!fixed || extractor.bucket() == e.bucket(), f.fileName(), "row of another bucket: " + value.text(row));
        });
        rows += n[0];
        same(n[0], f.rowCount(), f.fileName(), "row count");
        same(f.maxSequenceNumber() - f.minSequenceNumber() + 1, f.rowCount(), f.fileName(), "range of sequence numbers");
        statistics(f.fileName(), type, f.valueStatsCols() == null ? type.getFieldNames() : f.valueStatsCols(), values, f.valueStats());
    }

    private void statistics(String at, RowType type, List<String> columns, List<Bounds> actual, SimpleStats stats) throws Exception {
        same(stats.minValues().getFieldCount(), columns.size(), at, "number of columns with statistics");
        if (stats.minValues().getFieldCount() != columns.size()) return;
        for (int i = 0; i < columns.size(); i++) {
            Bounds b = actual.get(type.getFieldIndex(columns.get(i)));
            InternalRow.FieldGetter getter = InternalRow.createFieldGetter(b.type, i);
            Object min = getter.getFieldOrNull(stats.minValues()), max = getter.getFieldOrNull(stats.maxValues());
            if (!stats.nullCounts().isNullAt(i)) same(b.nulls, stats.nullCounts().getLong(i), at, "null count of " + columns.get(i));
            if (min != null && b.min != null) check(b.compare(min, b.min) <= 0, at, "min of " + columns.get(i) + " is too high: " + min + " > " + b.min);
            if (max != null && b.max != null) check(b.compare(max, b.max) >= 0, at, "max of " + columns.get(i) + " is too low: " + max + " < " + b.max);
        }
    }

    /** Parquet columns and their field ids, the system columns included. */
    private void columns(String at, Path path, DataFileMeta f, TableSchema schema) throws Exception {
        Map<String, Integer> want = new LinkedHashMap<>(), have = new LinkedHashMap<>();
        boolean keyed = !schema.primaryKeys().isEmpty();
        for (DataField k : schema.trimmedPrimaryKeysFields()) want.put(SpecialFields.KEY_FIELD_PREFIX + k.name(), SpecialFields.KEY_FIELD_ID_START + k.id());
        if (Boolean.parseBoolean(schema.options().get("data-file.thin-mode"))) want.clear();
        if (keyed) want.put(SpecialFields.SEQUENCE_NUMBER.name(), SpecialFields.SEQUENCE_NUMBER.id());
        if (keyed) want.put(SpecialFields.VALUE_KIND.name(), SpecialFields.VALUE_KIND.id());
        for (DataField c : schema.fields()) want.put(c.name(), c.id());
        try (var reader = ParquetUtil.getParquetReader(table.fileIO(), path, f.fileSize(), new Options())) {
            for (var c : reader.getFooter().getFileMetaData().getSchema().getFields()) have.put(c.getName(), c.getId() == null ? null : c.getId().intValue());
        }
        check(List.copyOf(have.keySet()).equals(List.copyOf(want.keySet())) && have.equals(want), at, "Parquet columns and ids are " + have + ", not " + want);
    }
}
