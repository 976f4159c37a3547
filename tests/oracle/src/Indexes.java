import java.util.*;
import org.apache.paimon.Snapshot;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.index.DeletionVectorMeta;
import org.apache.paimon.index.IndexFileHandler;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;

/** The index files of a snapshot against its data files: hash indexes of dynamic buckets, deletion vectors. */
final class Indexes {
    /** Hashes of the keys of each data file, by its name. */
    final Map<String, Set<Integer>> hashes = new HashMap<>();
    private final Fsck fsck;

    Indexes(Fsck fsck) {
        this.fsck = fsck;
    }

    void snapshot(Snapshot snapshot, Collection<ManifestEntry> live) throws Exception {
        IndexFileHandler handler = fsck.table.store().newIndexFileHandler();
        if (snapshot.indexManifest() == null || !fsck.file(handler.indexManifestFilePath(snapshot.indexManifest()), null)) return;
        Set<String> marked = new HashSet<>();
        for (IndexManifestEntry e : handler.readManifest(snapshot.indexManifest())) {
            if (!fsck.file(handler.filePath(e), e.indexFile().fileSize())) continue;
            if (e.indexFile().indexType().equals("HASH")) hash(handler, e, live);
            if (e.indexFile().dvRanges() != null) vectors("snapshot-" + snapshot.id(), handler, e, live, marked);
        }
    }

    /** Each key of a bucket must be in its index: a key that isn't would get another bucket when it is written again. */
    private void hash(IndexFileHandler handler, IndexManifestEntry e, Collection<ManifestEntry> live) throws Exception {
        IndexFileMeta file = e.indexFile();
        fsck.same(file.fileSize(), 4 * file.rowCount(), file.fileName(), "size");
        Set<Integer> lost = new HashSet<>();
        for (ManifestEntry data : live)
            if (data.partition().equals(e.partition()) && data.bucket() == e.bucket()) lost.addAll(hashes.getOrDefault(data.fileName(), Set.of()));
        for (int hash : handler.hashIndex(e.partition(), e.bucket()).readList(file)) lost.remove(hash);
        fsck.check(lost.isEmpty(), file.fileName(), "lacks the hashes of " + lost.size() + " keys of bucket " + e.bucket());
    }

    private void vectors(String at, IndexFileHandler handler, IndexManifestEntry e, Collection<ManifestEntry> live, Set<String> marked) throws Exception {
        IndexFileMeta file = e.indexFile();
        fsck.same((long) file.dvRanges().size(), file.rowCount(), file.fileName(), "number of deletion vectors");
        Map<String, DeletionVector> vectors = handler.readAllDeletionVectors(e);
        for (DeletionVectorMeta meta : file.dvRanges().values()) {
            String name = meta.dataFileName();
            DataFileMeta data = live.stream().filter(d -> d.fileName().equals(name)).map(ManifestEntry::file).findFirst().orElse(null);
            fsck.check(data != null, at, file.fileName() + " has a deletion vector of " + name + ", which is not live");
            fsck.check(marked.add(name), at, name + " has two deletion vectors");
            DeletionVector vector = vectors.get(name);
            if (data != null) fsck.check(vector.getCardinality() <= data.rowCount(), at, name + " has fewer rows than its deletion vector");
            if (meta.cardinality() != null) fsck.same(vector.getCardinality(), meta.cardinality(), file.fileName(), "cardinality of the deletion vector of " + name);
        }
    }
}
