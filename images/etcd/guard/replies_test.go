package guard

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"elasticjob.io/etcd/limits"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// charged returns a codec with one reply of this size, which uses the whole allowance of the job.
func charged(size int) (*codec, *limits.Ledger, *pb.AlarmResponse) {
	ledger, made := limits.NewLedger(limits.Limits{Bytes: limits.Allowance{Base: limits.RequestCost + 1}}), newCodec()
	answer := &pb.AlarmResponse{Header: &pb.ResponseHeader{Revision: 1}}
	_ = ledger.Replied("a", 0, size)
	made.replies.Store(answer, &reply{ledger: ledger, name: "a", size: size, end: func() {}})
	return made, ledger, answer
}

// isFree reports whether a read of the job finds room at once. A read whose client is gone finds it half the time.
func isFree(t *testing.T, ledger *limits.Ledger) bool {
	t.Helper()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 64 {
		if reserved, err := ledger.AwaitRoom(gone, "a", 1); err == nil {
			ledger.Failed("a", reserved)
			return true
		}
	}
	return false
}

func TestASmallReplyIsChargedUntilItIsFreed(t *testing.T) {
	codec, ledger, answer := charged(10)
	data, err := codec.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	if isFree(t, ledger) {
		t.Fatal("it is not sent yet")
	}
	data.Free()
	if !isFree(t, ledger) {
		t.Fatal("it is sent")
	}
	if _, isThere := codec.replies.Load(answer); isThere {
		t.Fatal("the reply is kept")
	}
}

func TestAReplyWhoseBytesAreForgottenIsFreedByTheCollector(t *testing.T) {
	codec, ledger, answer := charged(10)
	if _, err := codec.Marshal(answer); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(30 * time.Second); !isFree(t, ledger); {
		if time.Now().After(until) {
			t.Fatal("it is charged for ever")
		}
		runtime.GC()
	}
}

func TestAReplyIsGivenBackOnceHoweverOftenItIsFreed(t *testing.T) {
	ledger := limits.NewLedger(limits.Limits{Bytes: limits.Allowance{Base: limits.RequestCost + 1}})
	for range 2 {
		_ = ledger.Replied("a", 0, 10)
	}
	freed := &reply{ledger: ledger, name: "a", size: 10, end: func() {}}
	freed.Put(nil)
	freed.Put(nil)
	if isFree(t, ledger) {
		t.Fatal("the other reply is not charged any more")
	}
	ledger.Sent("a", 10)
	if !isFree(t, ledger) {
		t.Fatal("both are sent")
	}
}

func TestBytesAreThoseOfTheMessageWhetherCharged(t *testing.T) {
	codec, _, answer := charged(10)
	first, err := codec.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	second, err := codec.Marshal(answer) // not charged now
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Materialize(), second.Materialize()) {
		t.Fatal(first.Materialize(), second.Materialize())
	}
	back := &pb.AlarmResponse{}
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(second.Materialize())}, back); err != nil {
		t.Fatal(err)
	}
	if back.Header.Revision != 1 || codec.Name() != "proto" {
		t.Fatal(back)
	}
}

func TestALargeReplyThatIsSentEndsNoConnection(t *testing.T) {
	var ended atomic.Bool
	ledger := limits.NewLedger(limits.Limits{})
	large := &reply{ledger: ledger, name: "a", size: largeReply + 1, end: func() { ended.Store(true) }}
	buffer := large.buffer(make([]byte, largeReply+1))
	if large.late == nil {
		t.Fatal("nobody waits for the client")
	}
	buffer.Free()
	if large.late.Stop() || ended.Load() {
		t.Fatal("its time still runs")
	}
}

func TestRefusalsOfAJobAreLoggedOnceAMinute(t *testing.T) {
	core, lines := observer.New(zap.WarnLevel)
	made, now := newReporter(zap.New(core)), time.Now()
	for range 3 {
		made.report("a", limits.NoService("x"))
		made.report("b", limits.NoService("x"))
	}
	if lines.Len() != 2 {
		t.Fatal(lines.All())
	}
	if made.isDue("a", now.Add(30*time.Second)) || !made.isDue("a", now.Add(2*time.Minute)) {
		t.Fatal("a minute is not a minute")
	}
	if len(made.last) != 1 {
		t.Fatal("jobs of long ago are kept", made.last)
	}
}
