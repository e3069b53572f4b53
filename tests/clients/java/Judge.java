import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** kafka-clients. The verbs and the record files are told in ../python/common.py. */
public final class Judge {
    private static final int PARTITIONS = 16;
    private static final AtomicBoolean failed = new AtomicBoolean();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);

    public static void main(String[] args) throws Exception {
        try {
            switch (args[0]) {
                case "produce" -> produce(args[1], args[2], args[3], args[4]);
                case "consume" -> consume(args[1], args[2]);
                case "load" -> load(args[1], args[2], args[3], args[4]);
                case "drain" -> drain(args[1], args[2]);
                case "group" -> group(args[1], args[2], args[3],
                        args.length > 4 ? args[4] : "-", args.length > 5 ? args[5] : "classic");
                default -> throw new IllegalArgumentException("unknown verb " + args[0]);
            }
        } finally {
            OUT.flush();
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String codec) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("compression.type", codec);
        p.put("enable.idempotence", "true");
        p.put("linger.ms", "20");
        p.put("batch.size", "262144");
        p.put("max.request.size", "1000000");
        p.put("buffer.memory", "134217728");
        p.put("delivery.timeout.ms", "60000");
        p.put("request.timeout.ms", "30000");
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void produce(String bootstrap, String topic, String codec, String path) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, codec);
                BufferedReader source = Files.newBufferedReader(Path.of(path))) {
            for (String line = source.readLine(); line != null; line = source.readLine()) {
                JsonNode row = JSON.readTree(line);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, row.get("p").asInt(),
                        row.get("ts").asLong(), bytes(row.get("k")), bytes(row.get("v")));
                for (JsonNode header : row.get("h")) {
                    record.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(record));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata where = future.get(30, TimeUnit.SECONDS);
                OUT.printf("{\"p\": %d, \"o\": %d}%n", where.partition(), where.offset());
            }
        }
    }

    private static void load(String bootstrap, String topic, String codec, String path) throws Exception {
        AtomicReference<Exception> failed = new AtomicReference<>();
        Digest digest = new Digest();
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, codec);
                InputStream source = new BufferedInputStream(Files.newInputStream(Path.of(path)), 1 << 20)) {
            int partition = 0;
            for (byte[] line = line(source); line != null; line = line(source)) {
                producer.send(new ProducerRecord<>(topic, partition, null, line), (where, error) -> {
                    if (error != null) {
                        failed.compareAndSet(null, error);
                    }
                });
                digest.add(partition, line);
                partition = (partition + 1) % PARTITIONS;
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        digest.show();
    }

    private static byte[] line(InputStream source) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream(128);
        int b = source.read();
        if (b < 0) {
            return null;
        }
        for (; b >= 0 && b != '\n'; b = source.read()) {
            out.write(b);
        }
        return out.toByteArray();
    }

    /** Gives every record of a topic to `take`, up to the ends seen at the start. */
    private static void read(String bootstrap, String topic, Consumer<ConsumerRecord<byte[], byte[]>> take) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "none");
        p.put("max.poll.records", "5000");
        p.put("fetch.max.wait.ms", "100");
        p.put("check.crcs", "true");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition())).collect(Collectors.toList());
            consumer.assign(partitions);
            Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions);
            Map<TopicPartition, Long> left = new HashMap<>(consumer.endOffsets(partitions));
            starts.forEach(consumer::seek);
            left.entrySet().removeIf(end -> end.getValue() <= starts.get(end.getKey()));
            long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (!left.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    take.accept(record);
                    deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
                }
                left.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("nothing came for 20 s, still waiting for " + left);
                }
            }
        }
    }

    private static void consume(String bootstrap, String topic) {
        read(bootstrap, topic, record -> {
            ObjectNode row = JSON.createObjectNode();
            row.put("p", record.partition()).put("o", record.offset()).put("ts", record.timestamp());
            row.put("k", hex(record.key())).put("v", hex(record.value()));
            ArrayNode headers = row.putArray("h");
            for (Header header : record.headers()) {
                headers.addArray().add(header.key()).add(hex(header.value()));
            }
            OUT.println(row);
        });
    }

    private static void drain(String bootstrap, String topic) throws Exception {
        Digest digest = new Digest();
        read(bootstrap, topic, record -> digest.add(record.partition(), record.value()));
        digest.show();
    }

    /** A member of a group until SIGTERM. */
    private static void group(String bootstrap, String topic, String group, String instance, String protocol) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("group.protocol", protocol.equals("consumer") ? "consumer" : "classic");
        if (!protocol.equals("consumer")) {
            p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer."
                    + (protocol.equals("cooperative") ? "CooperativeStickyAssignor" : "RangeAssignor"));
            p.put("session.timeout.ms", "6000");
            p.put("heartbeat.interval.ms", "500");
        }
        p.put("max.poll.interval.ms", "10000");
        p.put("fetch.max.wait.ms", "200");
        if (!instance.equals("-")) {
            p.put("group.instance.id", instance);
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        AtomicBoolean stopped = new AtomicBoolean();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped.set(true);
            try {
                main.join();
                Runtime.getRuntime().halt(failed.get() ? 1 : 0); // a JVM that SIGTERM ended would tell 143
            } catch (InterruptedException error) {
                Runtime.getRuntime().halt(1);
            }
        }));
        failed.set(true);
        try (consumer) {
            Told told = new Told(consumer);
            consumer.subscribe(List.of(topic), told);
            while (!stopped.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    ArrayNode where = JSON.createArrayNode().add(record.partition()).add(record.offset());
                    show("record", where);
                    told.ends.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                try {
                    told.commit();
                } catch (RebalanceInProgressException error) {
                    if (!protocol.equals("cooperative")) {
                        throw error;
                    } // reading goes on there: it is committed after the next poll, or in it, before a partition goes
                }
            }
        }
        failed.set(false);
    }

    /** Shows what comes and goes, and commits before it goes. */
    private static final class Told implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();

        private Told(KafkaConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }

        private void commit() {
            if (!ends.isEmpty()) {
                consumer.commitSync(ends);
                ObjectNode committed = JSON.createObjectNode();
                ends.forEach((at, end) -> committed.put(Integer.toString(at.partition()), end.offset()));
                show("committed", committed);
                ends.clear();
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            show("assigned", numbers(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            show("revoked", numbers(partitions));
        }

        private static ArrayNode numbers(Collection<TopicPartition> partitions) {
            ArrayNode numbers = JSON.createArrayNode();
            partitions.forEach(at -> numbers.add(at.partition()));
            return numbers;
        }
    }

    /** One line, at once. */
    private static void show(String what, JsonNode value) {
        OUT.println(JSON.createObjectNode().set(what, value).toString());
        OUT.flush();
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : HexFormat.of().parseHex(text.asText());
    }

    private static String hex(byte[] raw) {
        return raw == null ? null : HexFormat.of().formatHex(raw);
    }

    /** Order-independent over all partitions, ordered within each. */
    private static final class Digest {
        private long count;
        private long bytes;
        private long high;
        private long low;
        private final MessageDigest md5 = md5();
        private final Map<Integer, MessageDigest> ordered = new TreeMap<>();
        private final Map<Integer, Long> counts = new TreeMap<>();

        void add(int partition, byte[] value) {
            byte[] sum = md5.digest(value);
            long before = low;
            low += number(sum, 8);
            high += number(sum, 0) + (Long.compareUnsigned(low, before) < 0 ? 1 : 0);
            count++;
            bytes += value.length;
            ordered.computeIfAbsent(partition, p -> md5()).update(sum);
            counts.merge(partition, 1L, Long::sum);
        }

        void show() throws Exception {
            ObjectNode row = JSON.createObjectNode();
            row.put("count", count).put("bytes", bytes).put("sum", String.format("%016x%016x", high, low));
            ObjectNode partitions = row.putObject("partitions");
            ordered.forEach((p, hash) -> partitions.putArray(p.toString()).add(counts.get(p)).add(hex(hash.digest())));
            OUT.write((row + "\n").getBytes(StandardCharsets.UTF_8));
        }

        private static long number(byte[] raw, int at) {
            return java.nio.ByteBuffer.wrap(raw).getLong(at);
        }

        private static MessageDigest md5() {
            try {
                return MessageDigest.getInstance("MD5");
            } catch (java.security.NoSuchAlgorithmException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
