import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * kafka-clients with transactions. The verbs are told in ../python/txn_common.py. With -Dgroup.protocol=consumer the
 * pipe's group is of that protocol (KIP-848).
 */
public final class Transact {
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true);

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "transact" -> transact(args[1], args[2], args[3], Integer.parseInt(args[4]));
            case "committed" -> committed(args[1], args[2], Integer.parseInt(args[3]));
            case "pipe" -> pipe(args[1], args[2], args[3], args[4], args[5]);
            default -> throw new IllegalArgumentException("unknown verb " + args[0]);
        }
        Runtime.getRuntime().halt(0);
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("transactional.id", id);
        p.put("transaction.timeout.ms", "10000");
        p.put("linger.ms", "0");
        p.put("reconnect.backoff.max.ms", "200");
        p.put("max.block.ms", "30000");
        p.put("delivery.timeout.ms", "30000");
        p.put("request.timeout.ms", "10000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group, String instance) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("isolation.level", "read_committed");
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("fetch.max.wait.ms", "100");
        p.put("reconnect.backoff.max.ms", "200");
        if (group != null) {
            p.put("group.id", group);
            p.put("max.poll.records", "20");
            if ("consumer".equals(System.getProperty("group.protocol"))) {
                // Not static: of this protocol a killed one's place is not free before its session ends.
                p.put("group.protocol", "consumer");
            } else {
                p.put("group.instance.id", instance);
                p.put("session.timeout.ms", "6000");
                p.put("heartbeat.interval.ms", "500");
            }
        }
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    private static void transact(String bootstrap, String topic, String id, int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer(bootstrap, id)) {
            for (int i = 0; i < count; i++) {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int p = 0; p < 3; p++) {
                    sent.add(producer.send(new ProducerRecord<>(topic, p, null, id + ":" + i + ":" + p)));
                }
                for (Future<RecordMetadata> future : sent) {
                    future.get(30, TimeUnit.SECONDS);
                }
                if (i % 3 == 2) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
                OUT.printf("{\"%s\": %d}%n", i % 3 == 2 ? "aborted" : "committed", i);
            }
        }
    }

    private static void committed(String bootstrap, String topic, int count) {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, null, null)) {
            List<TopicPartition> all = consumer.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition())).collect(Collectors.toList());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            int seen = 0;
            long until = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (System.nanoTime() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    OUT.printf("{\"record\": [%d, %d, \"%s\"]}%n", record.partition(), record.offset(), record.value());
                    seen++;
                }
                if (seen >= count) {
                    until = Math.min(until, System.nanoTime() + Duration.ofSeconds(1).toNanos());
                }
            }
        }
    }

    private static void pipe(String bootstrap, String source, String target, String group, String id) {
        AtomicBoolean stopped = new AtomicBoolean();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped.set(true);
            try {
                main.join(20_000);
            } catch (InterruptedException error) {
                Runtime.getRuntime().halt(1);
            }
        }));
        try (KafkaProducer<String, String> producer = producer(bootstrap, id);
                KafkaConsumer<String, String> consumer = consumer(bootstrap, group, id)) {
            consumer.subscribe(List.of(source));
            while (!stopped.get()) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    producer.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                    for (ConsumerRecord<String, String> record : records) {
                        producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                        ends.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    }
                    producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                    producer.commitTransaction();
                    OUT.printf("{\"committed\": %d}%n", records.count());
                } catch (ProducerFencedException | InvalidProducerEpochException | OutOfOrderSequenceException | AuthorizationException error) {
                    throw error;
                } catch (KafkaException error) {
                    System.err.println("aborted: " + error);
                    producer.abortTransaction();
                    consumer.committed(consumer.assignment()).forEach((where, end) -> {
                        if (end == null) {
                            consumer.seekToBeginning(List.of(where));
                        } else {
                            consumer.seek(where, end);
                        }
                    });
                }
            }
        } catch (RuntimeException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }
}
