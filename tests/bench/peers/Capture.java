import io.debezium.embedded.Connect;
import io.debezium.engine.*;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.*;
import java.lang.management.ManagementFactory;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's engine in this process, whose records are counted and thrown away: no conversion to JSON or Avro, no Kafka.
 * Capture PROPERTIES RECORDS [keep] ends when that many changes of rows came; with `keep` others go on from there. Prints
 * {"records":…,"seconds":… since the start of the JVM,"start":… of these before the first record,
 * "start_cpu":… CPU seconds of the process by then}.
 */
final class Capture {
    public static void main(String[] arguments) throws Exception {
        long wanted = Long.parseLong(arguments[1]);
        Properties properties = new Properties();
        try (Reader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        AtomicLong records = new AtomicLong();
        AtomicReference<double[]> first = new AtomicReference<>();
        AtomicReference<String> failed = new AtomicReference<>();
        CountDownLatch over = new CountDownLatch(1);
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
            .using(properties)
            .using((success, message, error) -> {
                if (!success) {
                    failed.set(message + (error == null ? "" : ": " + error));
                }
                over.countDown();
            })
            .notifying((batch, committer) -> {
                for (RecordChangeEvent<SourceRecord> event : batch) {
                    SourceRecord record = event.record();
                    // Others are those of transactions and heartbeats.
                    if (record.value() instanceof Struct row && row.schema().field("op") != null) {
                        if (first.get() == null) {
                            first.set(new double[] {sinceStart(), cpu()});
                        }
                        records.incrementAndGet();
                    }
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
                if (records.get() >= wanted) {
                    over.countDown();
                }
            })
            .build();
        ExecutorService thread = Executors.newSingleThreadExecutor();
        thread.execute(engine);
        over.await();
        double seconds = sinceStart();
        if (failed.get() != null || records.get() < wanted) {
            System.err.println("after " + records.get() + " records: " + (failed.get() == null ? "the engine ended" : failed.get()));
            System.exit(2);
        }
        System.out.printf(Locale.ROOT, "{\"records\": %d, \"seconds\": %.3f, \"start\": %.3f, \"start_cpu\": %.3f}%n",
            records.get(), seconds, first.get()[0], first.get()[1]);
        System.out.flush();
        if (arguments.length > 2) {
            engine.close();
        }
        Runtime.getRuntime().halt(0);
    }

    private static double cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static double sinceStart() {
        return (System.currentTimeMillis() - ManagementFactory.getRuntimeMXBean().getStartTime()) / 1000.0;
    }
}
