package guard

import (
	"runtime"
	"sync"
	"time"

	"github.com/golang/protobuf/proto" //nolint:staticcheck // as etcd's own codec
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/mem"

	"elasticjob.io/etcd/limits"
)

const (
	// takeTime is the time in which a client must read a large reply; then its connection is closed.
	takeTime = 10 * time.Second
	// largeReply is the size from which the client must read in time: less fits into buffers of the network.
	largeReply = 64 << 10
	// smallestPooled is more than gRPC's limit: gRPC does not report when a smaller buffer is free.
	smallestPooled = 2 << 10
)

// reply is charged to a job's memory until gRPC has written it.
type reply struct {
	ledger *limits.Ledger
	name   string
	size   int
	end    func() // closes the connection
	once   sync.Once
	late   *time.Timer
}

func (r *reply) sent() {
	r.once.Do(func() {
		if r.late != nil {
			r.late.Stop()
		}
		r.ledger.Sent(r.name, r.size)
	})
}

// Get is never called: no code takes buffers from it.
func (r *reply) Get(length int) *[]byte {
	made := make([]byte, length)
	return &made
}

// Put is called when gRPC no longer needs the reply's bytes.
func (r *reply) Put(*[]byte) { r.sent() }

// buffer holds the reply's bytes for gRPC. If gRPC does not free them, the garbage collector does.
func (r *reply) buffer(data []byte) mem.Buffer {
	if r.size > largeReply {
		r.late = time.AfterFunc(takeTime, r.end)
	}
	held := &data
	runtime.AddCleanup(held, func(r *reply) { r.sent() }, r)
	return mem.NewBuffer(held, r)
}

// codec is etcd's own codec; it also charges replies to jobs.
type codec struct {
	replies        sync.Map // of the message that a handler has returned: *reply
	sent, received prometheus.Counter
}

func newCodec() *codec {
	return &codec{
		sent:     existing("client_grpc_sent_bytes_total", "The total number of bytes sent to grpc clients."),
		received: existing("client_grpc_received_bytes_total", "The total number of bytes received from grpc clients."),
	}
}

// existing is the counter of etcd's own codec.
func existing(name, help string) prometheus.Counter {
	made := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "etcd", Subsystem: "network", Name: name, Help: help})
	if err, ok := prometheus.Register(made).(prometheus.AlreadyRegisteredError); ok {
		if found, ok := err.ExistingCollector.(prometheus.Counter); ok {
			return found
		}
	}
	return made
}

func (c *codec) Name() string { return "proto" }

func (c *codec) Marshal(message any) (mem.BufferSlice, error) {
	found, isCharged := c.replies.LoadAndDelete(message)
	data, err := marshal(message, isCharged)
	if err == nil {
		c.sent.Add(float64(len(data)))
	}
	switch {
	case !isCharged:
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	case err != nil:
		found.(*reply).sent()
		return nil, err
	}
	return mem.BufferSlice{found.(*reply).buffer(data)}, nil
}

func marshal(message any, isPooled bool) ([]byte, error) {
	data, err := proto.Marshal(message.(proto.Message))
	if isPooled && cap(data) < smallestPooled {
		data = append(make([]byte, 0, smallestPooled), data...)
	}
	return data, err
}

func (c *codec) Unmarshal(data mem.BufferSlice, message any) error {
	given := data.Materialize()
	c.received.Add(float64(len(given)))
	return proto.Unmarshal(given, message.(proto.Message))
}
