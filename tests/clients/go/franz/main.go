// franz-go: produces with idempotence, consumes partitions directly or in a group.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"judges/judge"
)

type client struct{ bootstrap string }

func main() {
	judge.Main(func(bootstrap string) judge.Client { return client{bootstrap} })
}

func (c client) producer(codec string) (*kgo.Client, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	return kgo.NewClient(kgo.SeedBrokers(c.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(20*time.Millisecond),
		kgo.ProducerBatchMaxBytes(1_000_000), kgo.MaxBufferedRecords(200_000))
}

func (c client) Produce(topic, codec string, records []*judge.Record) error {
	producer, err := c.producer(codec)
	if err != nil {
		return err
	}
	defer producer.Close()
	var out []*kgo.Record
	for _, r := range records {
		record := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
			Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		out = append(out, record)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := producer.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return err
	}
	for i, r := range out {
		records[i].Offset = r.Offset
	}
	return nil
}

func (c client) Load(topic, codec string, lines func(func(int32, []byte) error) error) error {
	producer, err := c.producer(codec)
	if err != nil {
		return err
	}
	defer producer.Close()
	var once sync.Mutex
	var failed error
	err = lines(func(partition int32, line []byte) error {
		record := &kgo.Record{Topic: topic, Partition: partition, Value: line}
		producer.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Lock()
				failed = errors.Join(failed, err)
				once.Unlock()
			}
		})
		return nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := producer.Flush(ctx); err != nil {
		return err
	}
	return failed
}

func (c client) Read(topic string, take func(*judge.Record)) error {
	ends, starts, err := c.bounds(topic)
	if err != nil {
		return err
	}
	if len(ends) == 0 {
		return nil
	}
	offsets := map[int32]kgo.Offset{}
	for p := range ends {
		offsets[p] = kgo.NewOffset().At(starts[p])
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	if err != nil {
		return err
	}
	defer consumer.Close()
	for len(ends) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		fetches := consumer.PollFetches(ctx)
		cancel()
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("still waiting for partitions %v: %w", ends.Names(), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			record := &judge.Record{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(),
				Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, judge.Header{Name: h.Key, Value: h.Value})
			}
			take(record)
			ends.Took(r.Partition, r.Offset)
		})
	}
	return nil
}

func (c client) bounds(topic string) (judge.Left, map[int32]int64, error) {
	plain, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap))
	if err != nil {
		return nil, nil, err
	}
	admin := kadm.NewClient(plain)
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	begins, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	highs, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	ends, starts := judge.Left{}, map[int32]int64{}
	for p, high := range highs[topic] {
		low := begins[topic][p]
		if err := errors.Join(high.Err, low.Err); err != nil {
			return nil, nil, err
		}
		if high.Offset > low.Offset {
			ends[p], starts[p] = high.Offset, low.Offset
		}
	}
	return ends, starts, nil
}

func (c client) Group(ctx context.Context, topic, group, instance, protocol string) error {
	told := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			judge.Show(what, append([]int32{}, partitions[topic]...))
		}
	}
	balancer := kgo.RangeBalancer()
	if protocol == "cooperative" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	options := []kgo.Opt{kgo.SeedBrokers(c.bootstrap), kgo.FetchMaxWait(200 * time.Millisecond), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(balancer),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond), kgo.RebalanceTimeout(10 * time.Second),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsAssigned(told("assigned")),
		kgo.OnPartitionsRevoked(told("revoked")), kgo.OnPartitionsLost(told("revoked"))}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	consumer, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer consumer.CloseAllowingRebalance()
	for {
		fetches := consumer.PollRecords(ctx, 500)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		ends := map[int32]int64{}
		fetches.EachRecord(func(r *kgo.Record) {
			judge.ShowRecord(r.Partition, r.Offset)
			ends[r.Partition] = r.Offset + 1
		})
		if len(ends) > 0 {
			if err := consumer.CommitRecords(context.Background(), fetches.Records()...); err != nil {
				return err
			}
			judge.Show("committed", ends)
		}
		consumer.AllowRebalance()
	}
}
