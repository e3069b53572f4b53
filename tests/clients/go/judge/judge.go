// Package judge holds what the Go client programs share: the record rows, the
// digests and the verbs. Their meaning is told in ../../python/common.py.
package judge

import (
	"bufio"
	"context"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"syscall"
)

// Partitions is how many partitions a corpus topic has.
const Partitions = 16

// Record is one row of the record files.
type Record struct {
	Partition int32
	Offset    int64
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header keeps null apart from empty: a nil Value is null.
type Header struct {
	Name  string
	Value []byte
}

type row struct {
	P  int32        `json:"p"`
	O  *int64       `json:"o,omitempty"`
	TS int64        `json:"ts"`
	K  *string      `json:"k"`
	V  *string      `json:"v"`
	H  [][2]*string `json:"h"`
}

// Client is what a program must be able to do.
type Client interface {
	// Produce sends the records and fills in their offsets.
	Produce(topic, codec string, records []*Record) error
	// Load sends every line to partition i mod Partitions.
	Load(topic, codec string, lines func(send func(partition int32, line []byte) error) error) error
	// Read gives every record of the topic, up to the ends seen at the start.
	Read(topic string, take func(*Record)) error
	// Group is a member of a group until the context ends; `instance` is empty for a dynamic one,
	// `protocol` "classic" or "cooperative".
	Group(ctx context.Context, topic, group, instance, protocol string) error
}

// Show prints one line at once.
func Show(what string, value any) {
	text, err := json.Marshal(map[string]any{what: value})
	if err != nil {
		panic(err) // plain numbers
	}
	os.Stdout.Write(append(text, '\n'))
}

// ShowRecord prints that a record was taken.
func ShowRecord(partition int32, offset int64) {
	Show("record", [2]int64{int64(partition), offset})
}

// Main runs the verb on the command line.
func Main(open func(bootstrap string) Client) {
	if err := run(open); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1:], err)
		os.Exit(1)
	}
}

func run(open func(bootstrap string) Client) error {
	verb, client, topic := os.Args[1], open(os.Args[2]), os.Args[3]
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	digest := NewDigest()
	switch verb {
	case "produce":
		records, err := readRecords(os.Args[5])
		if err != nil {
			return err
		}
		if err := client.Produce(topic, os.Args[4], records); err != nil {
			return err
		}
		for _, r := range records {
			fmt.Fprintf(out, "{\"p\": %d, \"o\": %d}\n", r.Partition, r.Offset)
		}
		return nil
	case "consume":
		var failed error
		err := client.Read(topic, func(r *Record) {
			text, err := json.Marshal(toRow(r))
			if err != nil {
				failed = err
			}
			out.Write(append(text, '\n'))
		})
		if err == nil {
			err = failed
		}
		return err
	case "load":
		err := client.Load(topic, os.Args[4], func(send func(int32, []byte) error) error {
			return eachLine(os.Args[5], func(partition int32, line []byte) error {
				digest.Add(partition, line)
				return send(partition, line)
			})
		})
		if err != nil {
			return err
		}
	case "group":
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer cancel()
		instance, protocol := "", "classic"
		if len(os.Args) > 5 && os.Args[5] != "-" {
			instance = os.Args[5]
		}
		if len(os.Args) > 6 {
			protocol = os.Args[6]
		}
		return client.Group(ctx, topic, os.Args[4], instance, protocol)
	case "drain":
		if err := client.Read(topic, func(r *Record) { digest.Add(r.Partition, r.Value) }); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown verb %q", verb)
	}
	return digest.Show(out)
}

// Digest is order-independent over all partitions and ordered within each.
type Digest struct {
	count, bytes uint64
	high, low    uint64
	ordered      map[int32]hash.Hash
	counts       map[int32]uint64
}

// NewDigest is empty.
func NewDigest() *Digest {
	return &Digest{ordered: map[int32]hash.Hash{}, counts: map[int32]uint64{}}
}

// Add takes the next value of a partition.
func (d *Digest) Add(partition int32, value []byte) {
	sum := md5.Sum(value)
	var carry uint64
	d.low, carry = bits.Add64(d.low, binary.BigEndian.Uint64(sum[8:]), 0)
	d.high, _ = bits.Add64(d.high, binary.BigEndian.Uint64(sum[:8]), carry)
	d.count++
	d.bytes += uint64(len(value))
	h := d.ordered[partition]
	if h == nil {
		h = md5.New()
		d.ordered[partition] = h
	}
	h.Write(sum[:])
	d.counts[partition]++
}

// Show prints the digest as one JSON line.
func (d *Digest) Show(out io.Writer) error {
	partitions := map[string][2]any{}
	for p, h := range d.ordered {
		partitions[strconv.Itoa(int(p))] = [2]any{d.counts[p], hex.EncodeToString(h.Sum(nil))}
	}
	return json.NewEncoder(out).Encode(map[string]any{
		"count": d.count, "bytes": d.bytes, "sum": fmt.Sprintf("%016x%016x", d.high, d.low), "partitions": partitions})
}

func eachLine(path string, take func(int32, []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, 4<<20)
	for i := 0; ; i++ {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		if line[len(line)-1] == '\n' {
			line = line[:len(line)-1]
		}
		if err := take(int32(i%Partitions), line); err != nil {
			return err
		}
	}
}

func readRecords(path string) ([]*Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var records []*Record
	decoder := json.NewDecoder(file)
	for {
		var r row
		if err := decoder.Decode(&r); err == io.EOF {
			return records, nil
		} else if err != nil {
			return nil, err
		}
		record := &Record{Partition: r.P, Offset: -1, Timestamp: r.TS, Key: unhex(r.K), Value: unhex(r.V)}
		for _, h := range r.H {
			record.Headers = append(record.Headers, Header{*h[0], unhex(h[1])})
		}
		records = append(records, record)
	}
}

func toRow(r *Record) row {
	out := row{P: r.Partition, O: &r.Offset, TS: r.Timestamp, K: enhex(r.Key), V: enhex(r.Value), H: [][2]*string{}}
	for _, h := range r.Headers {
		name := h.Name
		out.H = append(out.H, [2]*string{&name, enhex(h.Value)})
	}
	return out
}

func unhex(text *string) []byte {
	if text == nil {
		return nil
	}
	raw, err := hex.DecodeString(*text)
	if err != nil {
		panic(err) // the row files are ours
	}
	return append([]byte{}, raw...)
}

func enhex(raw []byte) *string {
	if raw == nil {
		return nil
	}
	text := hex.EncodeToString(raw)
	return &text
}

// Left counts down the partitions that still have records to come.
type Left map[int32]int64

// Took notes a record read; Done says whether every end was reached.
func (l Left) Took(partition int32, offset int64) {
	if end, waits := l[partition]; waits && offset+1 >= end {
		delete(l, partition)
	}
}

// Names lists the partitions that still wait, for an error message.
func (l Left) Names() []int32 {
	var names []int32
	for p := range l {
		names = append(names, p)
	}
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names
}
