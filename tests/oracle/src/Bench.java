import java.util.*;
import org.apache.paimon.data.*;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.*;

/** Writes the rows of bench_lake.rs as fast as Java Paimon can. */
final class Bench {
    private static long hash(long number) {
        long z = number + 0x9e3779b97f4a7c15L;
        z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
        z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
        return z ^ (z >>> 31);
    }

    /** --rows N --every M --order random|ascending: flushes and commits every M rows. Compaction is left to others. */
    static void write(Oracle.Call call) throws Exception {
        call.table.put("write-only", "true");
        FileStoreTable table = call.table();
        long rows = call.number("rows"), every = call.number("every"), commit = 0;
        boolean ascending = "ascending".equals(call.options.get("order"));
        try (TableWriteImpl<?> writer = table.newWrite("bench"); TableCommitImpl committer = table.newCommit("bench")) {
            writer.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            for (long i = 0; i < rows; i++) {
                long h = hash(~i);
                long key = ascending ? i : Long.remainderUnsigned(hash(i), rows);
                writer.write(GenericRow.of(key, h >>> 16, Decimal.fromUnscaledLong(Long.remainderUnsigned(h, 10_000_000), 15, 2),
                    BinaryString.fromString("customer number " + Long.remainderUnsigned(h, 1_000_000)),
                    Timestamp.fromMicros(1_700_000_000_000_000L + Long.remainderUnsigned(h, 100_000_000_000L))));
                if ((i + 1) % every == 0 || i + 1 == rows) {
                    commit++;
                    committer.commit(commit, writer.prepareCommit(true, commit));
                }
            }
        }
        call.out.accept("{\"rows\":" + rows + "}");
    }
}
