// franz-go with transactions. The verbs are told in ../../python/txn_common.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"judges/judge"
)

const (
	timeout  = 10 * time.Second
	patience = 20 * time.Second
	quiet    = 15 * time.Second
	many     = 20
)

func main() {
	verbs := map[string]func(args []string) error{"transact": transact, "committed": committed, "pipe": pipe}
	if err := verbs[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1:], err)
		os.Exit(1)
	}
}

func transact(args []string) error {
	bootstrap, topic, id := args[0], args[1], args[2]
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range count {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := client.BeginTransaction(); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		var records []*kgo.Record
		for p := range int32(3) {
			records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "%s:%d:%d", id, i, p)})
		}
		err := client.ProduceSync(ctx, records...).FirstErr()
		how, what := kgo.TryCommit, "committed"
		if i%3 == 2 {
			how, what = kgo.TryAbort, "aborted"
		}
		if err == nil {
			err = client.EndTransaction(ctx, how)
		}
		cancel()
		if err != nil {
			return err
		}
		judge.Show(what, i)
	}
	return nil
}

func committed(args []string) error {
	bootstrap, topic := args[0], args[1]
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	seen, until := 0, time.Now().Add(patience)
	for time.Now().Before(until) {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		fetches := client.PollFetches(ctx)
		cancel()
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			judge.Show("record", []any{r.Partition, r.Offset, string(r.Value)})
			seen++
		})
		if seen >= count && time.Until(until) > time.Second {
			until = time.Now().Add(time.Second)
		}
	}
	return nil
}

func pipe(args []string) error {
	bootstrap, source, target, group, id := args[0], args[1], args[2], args[3], args[4]
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0),
		kgo.ConsumerGroup(group), kgo.InstanceID(id),
		kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer session.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		fetches := session.PollRecords(waiting, many)
		late := waiting.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if !late {
			fetches.EachError(func(topic string, partition int32, err error) {
				fmt.Fprintln(os.Stderr, topic, partition, err)
			})
		}
		if late {
			return errors.New("no record came for long")
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		ended, cancel := context.WithTimeout(context.Background(), patience)
		var failed kgo.FirstErrPromise
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ended, &kgo.Record{Topic: target, Partition: r.Partition, Value: r.Value}, failed.Promise())
		})
		how := kgo.TransactionEndTry(failed.Err() == nil)
		done, err := session.End(ended, how)
		cancel()
		if err != nil {
			return err
		}
		if done {
			judge.Show("committed", fetches.NumRecords())
		} else {
			fmt.Fprintln(os.Stderr, "aborted")
		}
	}
}
