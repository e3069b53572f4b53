// sarama: produces with idempotence, consumes partitions one by one or in a group.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"judges/judge"
)

type client struct{ bootstrap string }

func main() {
	judge.Main(func(bootstrap string) judge.Client { return client{bootstrap} })
}

func config(codec string) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V3_6_0_0
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Compression = map[string]sarama.CompressionCodec{"none": sarama.CompressionNone,
		"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4,
		"zstd": sarama.CompressionZSTD}[codec]
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1 // sarama's own condition for idempotence
	c.Producer.Return.Successes = true
	c.Producer.Flush.Frequency = 20 * time.Millisecond
	c.Producer.MaxMessageBytes = 1_000_000
	c.Consumer.Return.Errors = true
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	return c
}

func (c client) Produce(topic, codec string, records []*judge.Record) error {
	producer, err := sarama.NewAsyncProducer([]string{c.bootstrap}, config(codec))
	if err != nil {
		return err
	}
	go func() {
		for _, r := range records {
			message := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Metadata: r,
				Timestamp: time.UnixMilli(r.Timestamp)}
			if r.Key != nil {
				message.Key = sarama.ByteEncoder(r.Key)
			}
			if r.Value != nil {
				message.Value = sarama.ByteEncoder(r.Value)
			}
			for _, h := range r.Headers {
				message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
			}
			producer.Input() <- message
		}
	}()
	return await(producer, len(records), func(m *sarama.ProducerMessage) {
		m.Metadata.(*judge.Record).Offset = m.Offset
	})
}

func (c client) Load(topic, codec string, lines func(func(int32, []byte) error) error) error {
	producer, err := sarama.NewAsyncProducer([]string{c.bootstrap}, config(codec))
	if err != nil {
		return err
	}
	total, failed := make(chan int, 1), make(chan error, 1)
	go func() {
		n := 0
		failed <- lines(func(partition int32, line []byte) error {
			producer.Input() <- &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.ByteEncoder(line)}
			n++
			return nil
		})
		total <- n
	}()
	seen, wanted := 0, -1
	for wanted < 0 || seen < wanted {
		select {
		case <-producer.Successes():
			seen++
		case err := <-producer.Errors():
			return err
		case wanted = <-total:
		}
	}
	if err := <-failed; err != nil {
		return err
	}
	return producer.Close()
}

func await(producer sarama.AsyncProducer, n int, done func(*sarama.ProducerMessage)) error {
	for range n {
		select {
		case message := <-producer.Successes():
			done(message)
		case err := <-producer.Errors():
			return err
		case <-time.After(30 * time.Second):
			return fmt.Errorf("no delivery report for 30 s")
		}
	}
	return producer.Close()
}

func (c client) Read(topic string, take func(*judge.Record)) error {
	plain, err := sarama.NewClient([]string{c.bootstrap}, config("none"))
	if err != nil {
		return err
	}
	defer plain.Close()
	partitions, err := plain.Partitions(topic)
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerFromClient(plain)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if err := readPartition(plain, consumer, topic, p, take); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

func readPartition(plain sarama.Client, consumer sarama.Consumer, topic string, p int32, take func(*judge.Record)) error {
	low, err := plain.GetOffset(topic, p, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	high, err := plain.GetOffset(topic, p, sarama.OffsetNewest)
	if err != nil || low == high {
		return err
	}
	reader, err := consumer.ConsumePartition(topic, p, low)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		select {
		case m := <-reader.Messages():
			record := &judge.Record{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(),
				Key: m.Key, Value: m.Value}
			for _, h := range m.Headers {
				record.Headers = append(record.Headers, judge.Header{Name: string(h.Key), Value: h.Value})
			}
			take(record)
			if m.Offset+1 >= high {
				return nil
			}
		case err := <-reader.Errors():
			return err
		case <-time.After(20 * time.Second):
			return fmt.Errorf("nothing came for 20 s")
		}
	}
}

// member is what sarama calls back in a group; `busy` keeps commits of several partitions apart.
type member struct {
	topic string
	busy  sync.Mutex
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	judge.Show("assigned", append([]int32{}, session.Claims()[m.topic]...))
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	judge.Show("revoked", append([]int32{}, session.Claims()[m.topic]...))
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.take(session, claim, message)
		}
	}
}

// take shows a message and those that have come behind it, and commits.
func (m *member) take(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim, message *sarama.ConsumerMessage) {
	m.busy.Lock()
	defer m.busy.Unlock()
	for {
		judge.ShowRecord(message.Partition, message.Offset)
		session.MarkMessage(message, "")
		select {
		case next, open := <-claim.Messages():
			if open {
				message = next
				continue
			}
		default:
		}
		session.Commit()
		judge.Show("committed", map[int32]int64{message.Partition: message.Offset + 1})
		return
	}
}

func (c client) Group(ctx context.Context, topic, group, instance, protocol string) error {
	settings := config("none")
	settings.Consumer.Group.Session.Timeout = 6 * time.Second
	settings.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	settings.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	settings.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	settings.Consumer.Group.InstanceId = instance
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Enable = false
	settings.Consumer.MaxWaitTime = 200 * time.Millisecond
	consumer, err := sarama.NewConsumerGroup([]string{c.bootstrap}, group, settings)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		for err := range consumer.Errors() {
			select {
			case failed <- err:
			default:
			}
		}
	}()
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{topic}, &member{topic: topic}); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if err := consumer.Close(); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
