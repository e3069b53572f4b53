import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the strictest client expects of a broker, scenario by scenario: `Scenarios BOOTSTRAP`. */
public final class Scenarios {
    private static final String RUN = Long.toString(System.currentTimeMillis(), 36);

    private final String bootstrap;
    private final Admin admin;
    private int failed;

    private Scenarios(String bootstrap) {
        this.bootstrap = bootstrap;
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("default.api.timeout.ms", "20000");
        p.put("request.timeout.ms", "15000");
        this.admin = Admin.create(p);
    }

    /** One scenario, which throws when it is not met. */
    private interface Scenario {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        Scenarios s = new Scenarios(args[0]);
        s.check("create topics tells id, partitions and configs", s::createTellsAll);
        s.check("create topics takes the broker's defaults", s::createTakesDefaults);
        s.check("create topics with validate only creates nothing", s::validateOnly);
        s.check("create topics refuses what is wrong, topic by topic", s::createRefuses);
        s.check("describe topics by name and by id", s::describeTopics);
        s.check("list topics names every topic and its id", s::listTopics);
        s.check("describe cluster", s::describeCluster);
        s.check("describe configs of a topic, with synonyms and documentation", s::topicConfigs);
        s.check("describe configs of the broker", s::brokerConfigs);
        s.check("incremental alter configs sets, appends, subtracts, deletes", s::alterConfigs);
        s.check("create partitions, and produce to the new ones", s::createPartitions);
        s.check("list offsets: earliest, latest, by time, max timestamp", s::listOffsets);
        s.check("describe log dirs", s::logDirs);
        s.check("describe producers shows an idempotent producer", s::producers);
        s.check("delete topics by name and by id", s::deleteTopics);
        s.check("a topic made again starts at offset 0 under a new id", s::recreate);
        s.check("a record over max.message.bytes is refused", s::tooLarge);
        s.check("a consumer assigns, seeks, pauses and resumes", s::consumer);
        s.check("a consumer without a reset policy is told out of range", s::outOfRange);
        s.check("a consumer finds offsets by time", s::offsetsForTimes);
        s.check("an unknown topic is told as such", s::unknownTopic);
        s.check("acks 0, 1 and all", s::acks);
        s.admin.close();
        System.exit(s.failed == 0 ? 0 : 1);
    }

    private void check(String name, Scenario scenario) {
        try {
            scenario.run();
            System.out.println("PASS admin: " + name);
        } catch (Exception | AssertionError error) {
            failed++;
            StackTraceElement[] trace = error.getStackTrace();
            String where = "";
            for (StackTraceElement e : trace) {
                if (e.getClassName().startsWith("Scenarios")) {
                    where = " at line " + e.getLineNumber();
                    break;
                }
            }
            System.out.println("FAIL admin: " + name + ": " + String.valueOf(error).replace('\n', ' ') + where);
        }
    }

    private static void equal(Object got, Object want, String what) {
        if (!want.equals(got)) {
            throw new AssertionError(what + " is " + got + ", expected " + want);
        }
    }

    private static void fails(Class<? extends Exception> wanted, KafkaFuture<?> future) throws Exception {
        try {
            future.get();
        } catch (ExecutionException error) {
            equal(error.getCause().getClass(), wanted, "the refusal (" + error.getCause().getMessage() + ")");
            return;
        }
        throw new AssertionError("no " + wanted.getSimpleName());
    }

    private String topic(String name, int partitions, Map<String, String> configs) throws Exception {
        String full = "java-" + name + "-" + RUN;
        admin.createTopics(List.of(new NewTopic(full, partitions, (short) 1).configs(configs))).all().get();
        return full;
    }

    private KafkaProducer<String, String> producer(String acks, boolean idempotent) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("acks", acks);
        p.put("enable.idempotence", Boolean.toString(idempotent));
        p.put("max.request.size", "5000000");
        p.put("max.block.ms", "5000");
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String reset) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", reset);
        p.put("default.api.timeout.ms", "10000");
        p.put("request.timeout.ms", "9000");
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    /** Produces `count` records with timestamps base, base + 1000, ... to partition 0. */
    private void fill(String topic, int count, long base) throws Exception {
        try (KafkaProducer<String, String> producer = producer("all", true)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, base + i * 1000L, "k" + i, "v" + i)));
            }
            for (int i = 0; i < count; i++) {
                equal(sent.get(i).get().offset(), (long) i, "offset");
            }
        }
    }

    private static long hourAgo() {
        return System.currentTimeMillis() - 3_600_000;
    }

    private void createTellsAll() throws Exception {
        String name = "java-tells-" + RUN;
        CreateTopicsResult result = admin.createTopics(
                List.of(new NewTopic(name, 3, (short) 1).configs(Map.of("max.message.bytes", "777777"))));
        equal(result.numPartitions(name).get(), 3, "partitions");
        equal(result.replicationFactor(name).get(), 1, "replication factor");
        equal(result.config(name).get().get("max.message.bytes").value(), "777777", "max.message.bytes");
        if (result.topicId(name).get().equals(Uuid.ZERO_UUID)) {
            throw new AssertionError("the topic id is zero");
        }
        equal(describe(name).topicId(), result.topicId(name).get(), "topic id");
    }

    private void createTakesDefaults() throws Exception {
        String name = "java-defaults-" + RUN;
        NewTopic topic = new NewTopic(name, java.util.Optional.empty(), java.util.Optional.empty());
        CreateTopicsResult result = admin.createTopics(List.of(topic));
        result.all().get();
        equal(describe(name).partitions().size(), result.numPartitions(name).get(), "partitions");
    }

    private void validateOnly() throws Exception {
        String name = "java-only-" + RUN;
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all().get();
        if (admin.listTopics().names().get().contains(name)) {
            throw new AssertionError("the topic exists");
        }
    }

    private void createRefuses() throws Exception {
        String exists = topic("exists", 1, Map.of());
        String good = "java-good-" + RUN;
        CreateTopicsResult result = admin.createTopics(List.of(
                new NewTopic(exists, 1, (short) 1), new NewTopic("a/b", 1, (short) 1), new NewTopic(good, 1, (short) 1),
                new NewTopic("java-zero-" + RUN, 0, (short) 1), new NewTopic("java-three-" + RUN, 1, (short) 3),
                new NewTopic("java-config-" + RUN, 1, (short) 1).configs(Map.of("no.such.config", "1"))));
        fails(TopicExistsException.class, result.values().get(exists));
        fails(InvalidTopicException.class, result.values().get("a/b"));
        fails(InvalidPartitionsException.class, result.values().get("java-zero-" + RUN));
        fails(InvalidReplicationFactorException.class, result.values().get("java-three-" + RUN));
        fails(InvalidConfigurationException.class, result.values().get("java-config-" + RUN));
        result.values().get(good).get();
    }

    /** Apache Kafka may need a moment until a new topic is seen. */
    private TopicDescription describe(String name) throws Exception {
        for (int i = 0; i < 50 && !names().contains(name); i++) {
            Thread.sleep(100);
        }
        return admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
    }

    private void describeTopics() throws Exception {
        String name = topic("describe", 4, Map.of());
        TopicDescription found = describe(name);
        equal(found.partitions().size(), 4, "partitions");
        equal(found.isInternal(), false, "internal");
        int node = admin.describeCluster().controller().get().id();
        for (int p = 0; p < 4; p++) {
            equal(found.partitions().get(p).partition(), p, "partition");
            equal(found.partitions().get(p).leader().id(), node, "leader");
            equal(found.partitions().get(p).replicas().size(), 1, "replicas");
            equal(found.partitions().get(p).isr().size(), 1, "in-sync replicas");
        }
        TopicDescription byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(found.topicId())))
                .allTopicIds().get().get(found.topicId());
        equal(byId.name(), name, "name by id");
    }

    private void listTopics() throws Exception {
        String name = topic("list", 1, Map.of());
        for (int i = 0; i < 50 && !names().contains(name); i++) {
            Thread.sleep(100);
        }
        equal(admin.listTopics().namesToListings().get().get(name).topicId(), describe(name).topicId(), "topic id");
    }

    private void describeCluster() throws Exception {
        var found = admin.describeCluster();
        equal(found.nodes().get().size(), 1, "nodes");
        if (found.clusterId().get() == null || found.clusterId().get().isEmpty()) {
            throw new AssertionError("no cluster id");
        }
        equal(found.controller().get().port(), Integer.parseInt(bootstrap.replaceAll(".*:", "")), "port");
    }

    private Config configs(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true)
                .includeDocumentation(true)).all().get().get(resource);
    }

    private void topicConfigs() throws Exception {
        String name = topic("configs", 1, Map.of("max.message.bytes", "123456"));
        Config config = configs(new ConfigResource(ConfigResource.Type.TOPIC, name));
        ConfigEntry set = config.get("max.message.bytes");
        equal(set.value(), "123456", "max.message.bytes");
        equal(set.source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "source");
        equal(set.isDefault(), false, "is default");
        equal(set.type(), ConfigEntry.ConfigType.INT, "type");
        equal(set.synonyms().get(0).source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "source of the first synonym");
        if (set.documentation() == null || set.documentation().isEmpty()) {
            throw new AssertionError("no documentation");
        }
        ConfigEntry left = config.get("segment.bytes");
        equal(left.isDefault() || left.source() == ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, true, "default of segment.bytes");
        equal(config.get("cleanup.policy").type(), ConfigEntry.ConfigType.LIST, "type of cleanup.policy");
        fails(UnknownTopicOrPartitionException.class, admin.describeConfigs(List.of(
                new ConfigResource(ConfigResource.Type.TOPIC, "java-none-" + RUN))).all());
    }

    private void brokerConfigs() throws Exception {
        String id = admin.describeCluster().controller().get().idString();
        Config config = configs(new ConfigResource(ConfigResource.Type.BROKER, id));
        for (String name : List.of("num.partitions", "message.max.bytes", "log.retention.ms", "auto.create.topics.enable")) {
            if (config.get(name) == null) {
                throw new AssertionError("no " + name);
            }
        }
    }

    private void alter(ConfigResource resource, AlterConfigOp.OpType op, String key, String value) throws Exception {
        Collection<AlterConfigOp> ops = List.of(new AlterConfigOp(new ConfigEntry(key, value), op));
        admin.incrementalAlterConfigs(Map.of(resource, ops)).all().get();
    }

    private void alterConfigs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic("alter", 1, Map.of()));
        alter(resource, AlterConfigOp.OpType.SET, "max.message.bytes", "777000");
        equal(configs(resource).get("max.message.bytes").value(), "777000", "max.message.bytes");
        try {
            alter(resource, AlterConfigOp.OpType.APPEND, "cleanup.policy", "compact");
            equal(Set.of(configs(resource).get("cleanup.policy").value().split(",")), Set.of("delete", "compact"), "cleanup.policy");
            alter(resource, AlterConfigOp.OpType.SUBTRACT, "cleanup.policy", "delete");
            equal(configs(resource).get("cleanup.policy").value(), "compact", "cleanup.policy");
        } catch (ExecutionException refusal) {
            // A broker that does not compact must say so, and leave the policy as it was.
            equal(refusal.getCause().getClass(), InvalidConfigurationException.class, "the refusal");
            equal(configs(resource).get("cleanup.policy").value(), "delete", "cleanup.policy");
        }
        alter(resource, AlterConfigOp.OpType.DELETE, "max.message.bytes", null);
        equal(configs(resource).get("max.message.bytes").source() != ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, true,
                "retention.ms back at its default");
        fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("max.message.bytes", "soon"), AlterConfigOp.OpType.SET)))).all());
    }

    private void createPartitions() throws Exception {
        String name = topic("grow", 1, Map.of());
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(6))).all().get();
        equal(describe(name).partitions().size(), 6, "partitions");
        try (KafkaProducer<String, String> producer = producer("all", true)) {
            equal(producer.send(new ProducerRecord<>(name, 5, "k", "v")).get().offset(), 0L, "offset in the new partition");
        }
        fails(InvalidPartitionsException.class, admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all());
    }

    private ListOffsetsResultInfo offset(String topic, OffsetSpec spec) throws Exception {
        TopicPartition where = new TopicPartition(topic, 0);
        return admin.listOffsets(Map.of(where, spec)).partitionResult(where).get();
    }

    private void listOffsets() throws Exception {
        String name = topic("offsets", 1, Map.of());
        equal(offset(name, OffsetSpec.latest()).offset(), 0L, "latest of an empty topic");
        equal(offset(name, OffsetSpec.maxTimestamp()).offset(), -1L, "max timestamp of an empty topic");
        long base = hourAgo();
        fill(name, 10, base);
        equal(offset(name, OffsetSpec.earliest()).offset(), 0L, "earliest");
        equal(offset(name, OffsetSpec.latest()).offset(), 10L, "latest");
        equal(offset(name, OffsetSpec.forTimestamp(base + 2500)).offset(), 3L, "by time");
        equal(offset(name, OffsetSpec.forTimestamp(base + 2500)).timestamp(), base + 3000, "timestamp found");
        equal(offset(name, OffsetSpec.forTimestamp(base + 60_000)).offset(), -1L, "by a time beyond the last");
        ListOffsetsResultInfo max = offset(name, OffsetSpec.maxTimestamp());
        equal(max.offset(), 9L, "max timestamp");
        equal(max.timestamp(), base + 9000, "timestamp of max timestamp");
        try (KafkaProducer<String, String> producer = producer("all", true)) {
            producer.send(new ProducerRecord<>(name, 0, base + 100, "late", "late")).get();
        }
        equal(offset(name, OffsetSpec.maxTimestamp()).offset(), 9L, "max timestamp after a late record");
        equal(offset(name, OffsetSpec.earliestLocal()).offset(), 0L, "earliest local");
    }

    private void logDirs() throws Exception {
        String name = topic("dirs", 2, Map.of());
        fill(name, 100, hourAgo());
        int node = admin.describeCluster().controller().get().id();
        long bytes = 0;
        Set<Integer> partitions = new HashSet<>();
        for (LogDirDescription dir : admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values()) {
            equal(dir.totalBytes().isPresent() && dir.usableBytes().isPresent(), true, "volume sizes");
            for (var replica : dir.replicaInfos().entrySet()) {
                if (replica.getKey().topic().equals(name)) {
                    partitions.add(replica.getKey().partition());
                    bytes += replica.getValue().size();
                }
            }
        }
        equal(partitions, Set.of(0, 1), "partitions");
        if (bytes < 100) {
            throw new AssertionError("100 records take " + bytes + " bytes");
        }
    }

    private void producers() throws Exception {
        String name = topic("producers", 1, Map.of());
        fill(name, 7, hourAgo());
        TopicPartition where = new TopicPartition(name, 0);
        List<ProducerState> found = admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers();
        equal(found.size(), 1, "producers");
        equal(found.get(0).lastSequence(), 6, "last sequence");
        equal(found.get(0).producerEpoch(), 0, "epoch");
        equal(found.get(0).currentTransactionStartOffset().isPresent(), false, "open transaction");
    }

    private void deleteTopics() throws Exception {
        String one = topic("delete-name", 1, Map.of());
        String two = topic("delete-id", 1, Map.of());
        admin.deleteTopics(List.of(one)).all().get();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(describe(two).topicId()))).all().get();
        for (int i = 0; i < 50 && (names().contains(one) || names().contains(two)); i++) {
            Thread.sleep(100);
        }
        equal(names().contains(one) || names().contains(two), false, "still listed");
        fails(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of(one)).all());
    }

    private Set<String> names() throws Exception {
        return admin.listTopics().names().get();
    }

    private void recreate() throws Exception {
        String name = topic("again", 1, Map.of());
        fill(name, 5, hourAgo());
        Uuid before = describe(name).topicId();
        admin.deleteTopics(List.of(name)).all().get();
        for (int i = 0; i < 50 && names().contains(name); i++) {
            Thread.sleep(100);
        }
        topic("again", 1, Map.of());
        equal(describe(name).topicId().equals(before), false, "same id");
        equal(offset(name, OffsetSpec.latest()).offset(), 0L, "end of the new topic");
        fill(name, 3, hourAgo());
    }

    private void tooLarge() throws Exception {
        String name = topic("large", 1, Map.of("max.message.bytes", "10000"));
        try (KafkaProducer<String, String> producer = producer("all", true)) {
            producer.send(new ProducerRecord<>(name, 0, "k", "x".repeat(9000))).get();
            try {
                producer.send(new ProducerRecord<>(name, 0, "k", "x".repeat(20000))).get();
                throw new AssertionError("taken");
            } catch (ExecutionException error) {
                equal(error.getCause().getClass(), RecordTooLargeException.class, "the refusal");
            }
            equal(producer.send(new ProducerRecord<>(name, 0, "k", "small")).get().offset(), 1L, "next offset");
        }
    }

    private List<String> values(KafkaConsumer<String, String> consumer, int wanted) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + Duration.ofSeconds(10).toNanos();
        while (values.size() < wanted && System.nanoTime() < deadline) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            records.forEach(record -> values.add(record.value()));
        }
        return values;
    }

    private void consumer() throws Exception {
        String name = topic("consumer", 1, Map.of());
        fill(name, 20, hourAgo());
        TopicPartition where = new TopicPartition(name, 0);
        try (KafkaConsumer<String, String> consumer = consumer("earliest")) {
            consumer.assign(List.of(where));
            equal(values(consumer, 20).size(), 20, "records from the start");
            consumer.seek(where, 15);
            equal(values(consumer, 5), List.of("v15", "v16", "v17", "v18", "v19"), "records from 15");
            equal(consumer.position(where), 20L, "position");
            equal(consumer.beginningOffsets(List.of(where)).get(where), 0L, "beginning");
            equal(consumer.endOffsets(List.of(where)).get(where), 20L, "end");
            equal(consumer.currentLag(where).getAsLong(), 0L, "lag");
            consumer.seekToBeginning(List.of(where));
            consumer.pause(List.of(where));
            equal(consumer.poll(Duration.ofMillis(300)).count(), 0, "records while paused");
            consumer.resume(List.of(where));
            equal(values(consumer, 20).size(), 20, "records after resume");
            consumer.seekToEnd(List.of(where));
            equal(consumer.poll(Duration.ofMillis(300)).count(), 0, "records at the end");
        }
    }

    private void outOfRange() throws Exception {
        String name = topic("range", 1, Map.of());
        fill(name, 3, hourAgo());
        TopicPartition where = new TopicPartition(name, 0);
        try (KafkaConsumer<String, String> consumer = consumer("none")) {
            consumer.assign(List.of(where));
            consumer.seek(where, 1000);
            for (int i = 0; i < 50; i++) {
                consumer.poll(Duration.ofMillis(100));
            }
            throw new AssertionError("no OffsetOutOfRangeException");
        } catch (OffsetOutOfRangeException expected) {
            equal(expected.offsetOutOfRangePartitions(), Map.of(where, 1000L), "partitions out of range");
        }
        try (KafkaConsumer<String, String> consumer = consumer("earliest")) {
            consumer.assign(List.of(where));
            consumer.seek(where, 1000);
            equal(values(consumer, 3).size(), 3, "records after a reset to the earliest");
        }
    }

    private void offsetsForTimes() throws Exception {
        String name = topic("times", 1, Map.of());
        long base = hourAgo();
        fill(name, 10, base);
        TopicPartition where = new TopicPartition(name, 0);
        try (KafkaConsumer<String, String> consumer = consumer("none")) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(where, base + 4001)).get(where);
            equal(found.offset(), 5L, "offset");
            equal(found.timestamp(), base + 5000, "timestamp");
            equal(consumer.offsetsForTimes(Map.of(where, base + 900_000)).get(where) == null, true, "nothing beyond the last");
        }
    }

    private void unknownTopic() throws Exception {
        String name = "java-unknown-" + RUN;
        fails(UnknownTopicOrPartitionException.class, admin.describeTopics(List.of(name)).allTopicNames());
        fails(UnknownTopicOrPartitionException.class, admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all());
    }

    private void acks() throws Exception {
        String name = topic("acks", 1, Map.of());
        for (String acks : List.of("0", "1", "all")) {
            try (KafkaProducer<String, String> producer = producer(acks, false)) {
                RecordMetadata told = producer.send(new ProducerRecord<>(name, 0, "k", acks)).get();
                equal(told.hasOffset(), !acks.equals("0"), "offset told with acks=" + acks);
            }
        }
        TopicPartition where = new TopicPartition(name, 0);
        try (KafkaConsumer<String, String> consumer = consumer("earliest")) {
            consumer.assign(List.of(where));
            equal(new HashSet<>(values(consumer, 3)), Set.of("0", "1", "all"), "values");
        }
    }
}
